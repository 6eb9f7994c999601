import { useState } from "react";

type Theme = "system" | "light" | "dark";
const next: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const mark: Record<Theme, string> = { system: "◐", light: "○", dark: "●" };

function stored(): Theme {
  const theme = document.documentElement.dataset["theme"];
  return theme === "light" || theme === "dark" ? theme : "system";
}

export function ThemeButton() {
  const [theme, setTheme] = useState<Theme>(stored);
  const change = () => {
    const to = next[theme];
    if (to === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = to;
    try {
      localStorage.setItem("fettle-theme", to);
    } catch {
      // It then lasts as long as the page.
    }
    setTheme(to);
    window.dispatchEvent(new Event("fettle-theme"));
  };
  return (
    <button type="button" className="button plain" onClick={change} aria-label={`Theme: ${theme}. Change`} title={`Theme: ${theme}`}>
      <span aria-hidden="true">{mark[theme]}</span>
    </button>
  );
}
