// What compute-sanitizer's tools said: "passed", "failed: ...", "not_run: ...", by tool.

export interface ToolResult {
  tool: string;
  result: "passed" | "failed" | "not run" | "not known";
  note: string;
}

export function toolResults(sanitizers: Record<string, string> | null | undefined): ToolResult[] {
  return Object.entries(sanitizers ?? {}).map(([tool, said]) => {
    const colon = said.indexOf(": ");
    const word = colon < 0 ? said : said.slice(0, colon);
    const note = colon < 0 ? "" : said.slice(colon + 2);
    if (word === "passed" || word === "failed") return { tool, result: word, note };
    if (word === "not_run") return { tool, result: "not run", note };
    return { tool, result: "not known", note: said }; // Of a newer version.
  });
}
