import { diffLines } from "diff";
import { useMemo, useState } from "react";
import { counts, gaps, sideBySide, type SideLine, type SideRow } from "../lib/sidebyside";
import { highlightLines, renderPieces } from "./highlighted";

const context = 4;
const longestMs = 2_000;

function Cell({ line, className, lines }: { line: SideLine | null; className: string; lines: ReturnType<typeof highlightLines> }) {
  if (!line) {
    return (
      <>
        <td className="line-number" />
        <td className="none" />
      </>
    );
  }
  return (
    <>
      <td className={`line-number ${className}`} aria-hidden="true">
        {line.number}
      </td>
      <td className={className}>
        {className !== "" && <span className="sr">{className}: </span>}
        {renderPieces(lines[line.number - 1] ?? [])}
      </td>
    </>
  );
}

/** Two sources side by side; long equal runs are folded. */
export default function DiffView({ before, after, beforeName, afterName }: {
  before: string;
  after: string;
  beforeName: string;
  afterName: string;
}) {
  const [opened, setOpened] = useState<Set<number>>(() => new Set());
  const rows = useMemo<SideRow[] | null>(() => {
    // A diff of very different large texts can take for ever; undefined is then the answer.
    const parts = diffLines(before, after, { timeout: longestMs });
    return parts ? sideBySide(parts) : null;
  }, [before, after]);
  const left = useMemo(() => highlightLines(before), [before]);
  const right = useMemo(() => highlightLines(after), [after]);
  if (!rows) return <p className="quiet">These texts differ too much to be compared line by line within two seconds.</p>;
  const { added, removed } = counts(rows);
  const folded = gaps(rows, context).filter((gap) => !opened.has(gap.at));
  const hiddenFrom = new Map(folded.map((gap) => [gap.at, gap.hidden]));
  const shown: (SideRow | { gap: number; at: number })[] = [];
  for (let i = 0; i < rows.length; i += 1) {
    const hidden = hiddenFrom.get(i);
    if (hidden !== undefined) {
      shown.push({ gap: hidden, at: i });
      i += hidden - 1;
    } else {
      shown.push(rows[i]!);
    }
  }
  return (
    <>
      <p className="muted" role="status">
        {added === 0 && removed === 0 ? "The sources are equal." : `${added} ${added === 1 ? "line" : "lines"} added, ${removed} removed.`}
      </p>
      <div className="diff" tabIndex={0} role="region" aria-label={`${beforeName} beside ${afterName}`}>
        <table>
          <colgroup>
            <col className="number" />
            <col />
            <col className="number" />
            <col />
          </colgroup>
          <thead>
            <tr>
              <th scope="col" colSpan={2}>
                {beforeName}
              </th>
              <th scope="col" colSpan={2}>
                {afterName}
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((row, index) =>
              "gap" in row ? (
                <tr key={`gap-${row.at}`} className="gap">
                  <td colSpan={4}>
                    <button type="button" className="button plain" onClick={() => setOpened((before) => new Set(before).add(row.at))}>
                      Show {row.gap} equal lines
                    </button>
                  </td>
                </tr>
              ) : (
                <tr key={index}>
                  <Cell line={row.left} className={row.changed && row.left ? "removed" : ""} lines={left} />
                  <Cell line={row.right} className={row.changed && row.right ? "added" : ""} lines={right} />
                </tr>
              ),
            )}
          </tbody>
        </table>
      </div>
    </>
  );
}
