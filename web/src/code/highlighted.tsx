// C++ with highlighting, as elements: no text of a kernel is ever parsed as markup.

import cpp from "highlight.js/lib/languages/cpp";
import { createLowlight } from "lowlight";
import { Fragment, useMemo, type ReactNode } from "react";

const lowlight = createLowlight({ cpp });
const mostHighlighted = 400_000; // Beyond it, highlighting would hold the page up.

interface Node {
  type: string;
  value?: string;
  children?: Node[];
  properties?: { className?: string[] | string };
}

interface Piece {
  text: string;
  className: string;
}

/** Lines of pieces: a token that spans lines is cut at each. */
export function highlightLines(source: string): Piece[][] {
  const lines: Piece[][] = [[]];
  const add = (text: string, className: string) => {
    text.split("\n").forEach((part, index) => {
      if (index > 0) lines.push([]);
      if (part !== "") lines[lines.length - 1]!.push({ text: part, className });
    });
  };
  if (source.length > mostHighlighted) {
    add(source, "");
    return lines;
  }
  const walk = (node: Node, className: string) => {
    if (node.type === "text") return add(node.value ?? "", className);
    const names = node.properties?.className;
    const own = Array.isArray(names) ? names.join(" ") : (names ?? className);
    for (const child of node.children ?? []) walk(child, own);
  };
  walk(lowlight.highlight("cpp", source) as unknown as Node, "");
  return lines;
}

export function renderPieces(pieces: Piece[]): ReactNode {
  return pieces.map((piece, index) =>
    piece.className === "" ? (
      <Fragment key={index}>{piece.text}</Fragment>
    ) : (
      <span key={index} className={piece.className}>
        {piece.text}
      </span>
    ),
  );
}

export default function Source({ text, label }: { text: string; label: string }) {
  const lines = useMemo(() => highlightLines(text), [text]);
  return (
    <div className="code" tabIndex={0} role="region" aria-label={label}>
      <table>
        <tbody>
          {lines.map((pieces, index) => (
            <tr key={index}>
              <td className="line-number" aria-hidden="true">
                {index + 1}
              </td>
              <td>{renderPieces(pieces)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
