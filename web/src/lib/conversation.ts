import type { AgentCall } from "../api/types";

// A recorded conversation with a model, whatever part of it there is: {round, plan: {request, reply},
// write: {messages}} of the loop, a lone request or reply, or a list of messages.

export interface Turn {
  part: string; // "plan", "write"; empty where there are no parts.
  role: string; // "system", "user", "assistant"
  text: string;
  calls: { name: string; input: string }[];
}

type Json = Record<string, unknown>;

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
function pretty(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function message(part: string, value: Json, role: string): Turn {
  const calls = Array.isArray(value["calls"]) ? value["calls"].filter(isObject) : [];
  const results = Array.isArray(value["results"]) ? value["results"].filter(isObject) : [];
  const texts = [textOf(value["text"]) || textOf(value["content"]), ...results.map((one) => textOf(one["text"]))];
  return {
    part,
    role: textOf(value["role"]) || role,
    text: texts.filter((text) => text !== "").join("\n"),
    calls: calls.map((one) => ({ name: textOf(one["name"]) || "a tool", input: pretty(one["input"] ?? one["raw_input"] ?? "") })),
  };
}

function exchange(part: string, value: unknown): Turn[] {
  if (Array.isArray(value)) return value.filter(isObject).map((one) => message(part, one, "user"));
  if (!isObject(value)) return [];
  const turns: Turn[] = [];
  if (textOf(value["system"]) !== "") turns.push({ part, role: "system", text: textOf(value["system"]), calls: [] });
  if (Array.isArray(value["messages"])) turns.push(...exchange(part, value["messages"]));
  if (isObject(value["request"])) turns.push(...exchange(part, value["request"]));
  if (isObject(value["reply"])) turns.push(message(part, value["reply"], "assistant"));
  if (turns.length === 0 && (value["text"] !== undefined || value["calls"] !== undefined)) turns.push(message(part, value, "assistant"));
  return turns;
}

export function turnsOf(document: unknown): Turn[] {
  if (!isObject(document)) return exchange("", document);
  const parts = ["plan", "write", "repair"].filter((part) => document[part] !== undefined && document[part] !== null);
  return parts.length > 0 ? parts.flatMap((part) => exchange(part, document[part])) : exchange("", document);
}

export interface Round {
  number: number; // From 1.
  calls: AgentCall[];
  tokens: number;
  usd: number;
  deviceMs: number;
}

/** Calls by round of the loop: each begins with its plan; planners that are asked again belong to it. */
export function roundsOf(calls: AgentCall[]): Round[] {
  const rounds: Round[] = [];
  let before = "";
  for (const call of calls) {
    if (rounds.length === 0 || (call.kind === "model/plan" && before !== "model/plan")) {
      rounds.push({ number: rounds.length + 1, calls: [], tokens: 0, usd: 0, deviceMs: 0 });
    }
    const round = rounds[rounds.length - 1]!;
    round.calls.push(call);
    round.tokens += call.tokens;
    round.usd += call.usd;
    round.deviceMs += call.device_ms;
    before = call.kind;
  }
  return rounds;
}
