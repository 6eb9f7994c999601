import { createContext, useContext } from "react";
import type { Session } from "./types";

export const SessionContext = createContext<Session | undefined>(undefined);

/** Whether this session may submit, cancel and resume. */
export function useMayOperate(): boolean {
  return useContext(SessionContext)?.role === "operate";
}
