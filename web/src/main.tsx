import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { prefetchList, queryClient } from "./api/queries";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/data.css";

prefetchList(window.location.pathname, window.location.search);
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
);
