// Two texts side by side, from a line diff.

export interface DiffPart {
  value: string;
  added?: boolean | undefined;
  removed?: boolean | undefined;
}
export interface SideLine {
  number: number;
  text: string;
}
export interface SideRow {
  left: SideLine | null;
  right: SideLine | null;
  changed: boolean;
}
export interface Gap {
  hidden: number; // Equal lines left out.
  at: number; // Index of the first in the rows.
}

function lines(text: string): string[] {
  const all = text.split("\n");
  if (all[all.length - 1] === "") all.pop();
  return all;
}

export function sideBySide(parts: DiffPart[]): SideRow[] {
  const rows: SideRow[] = [];
  let left = 1;
  let right = 1;
  for (let i = 0; i < parts.length; i += 1) {
    const part = parts[i]!;
    if (!part.added && !part.removed) {
      for (const text of lines(part.value)) {
        rows.push({ left: { number: left++, text }, right: { number: right++, text }, changed: false });
      }
      continue;
    }
    const removed = part.removed ? lines(part.value) : [];
    let added = part.added ? lines(part.value) : [];
    const next = parts[i + 1];
    if (part.removed && next?.added) {
      added = lines(next.value);
      i += 1;
    }
    for (let k = 0; k < Math.max(removed.length, added.length); k += 1) {
      const before = removed[k];
      const after = added[k];
      rows.push({
        left: before === undefined ? null : { number: left++, text: before },
        right: after === undefined ? null : { number: right++, text: after },
        changed: true,
      });
    }
  }
  return rows;
}

/** Long runs of equal lines, leaving `context` lines around changes. */
export function gaps(rows: SideRow[], context: number): Gap[] {
  const out: Gap[] = [];
  let start = 0;
  for (let i = 0; i <= rows.length; i += 1) {
    if (i < rows.length && !rows[i]!.changed) continue;
    const from = start === 0 ? 0 : start + context;
    const to = i === rows.length ? i : i - context;
    if (to - from > 2) out.push({ hidden: to - from, at: from });
    start = i + 1;
  }
  return out;
}

export function counts(rows: SideRow[]): { added: number; removed: number } {
  let added = 0;
  let removed = 0;
  for (const row of rows) {
    if (!row.changed) continue;
    if (row.left) removed += 1;
    if (row.right) added += 1;
  }
  return { added, removed };
}
