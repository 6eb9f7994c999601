import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useRef, useState, type KeyboardEvent, type ReactNode } from "react";

export interface Column<T> {
  key: string;
  name: ReactNode;
  width: string; // As in grid-template-columns.
  cell: (row: T) => ReactNode;
  sort?: string; // Name to sort by.
  align?: "right";
  from?: number; // Shown from this width of the table, in pixels.
}

interface GridProps<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string;
  rowHeight: number;
  sort?: { by: string; descending: boolean };
  onSort?: (by: string) => void;
  onEnd?: () => void; // The last rows are in sight.
  onVisible?: (first: number, last: number) => void;
  selected?: (row: T) => boolean;
  total?: number;
  foot?: ReactNode;
  empty?: ReactNode;
}

/**
 * A table of any number of rows of one height: only those in sight exist. Arrow keys move between
 * the rows' links.
 */
export function Grid<T>(props: GridProps<T>) {
  const { columns, rows, rowHeight, onEnd, onVisible } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(1280);
  useEffect(() => {
    const element = scroller.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);
  const shown = columns.filter((column) => (column.from ?? 0) <= width);
  const template = shown.map((column) => column.width).join(" ");
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 12,
  });
  const items = virtual.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items[items.length - 1]?.index ?? -1;
  useEffect(() => {
    if (last >= 0) onVisible?.(first, last);
    if (last >= rows.length - 20) onEnd?.();
  }, [first, last, rows.length, onEnd, onVisible]);

  const focusRow = useCallback(
    (index: number) => {
      const bounded = Math.max(0, Math.min(rows.length - 1, index));
      virtual.scrollToIndex(bounded);
      requestAnimationFrame(() => {
        scroller.current?.querySelector<HTMLElement>(`[data-index="${bounded}"] a.cover`)?.focus();
      });
    },
    [rows.length, virtual],
  );
  const onKeyDown = (event: KeyboardEvent) => {
    const row = (event.target as HTMLElement).closest<HTMLElement>("[data-index]");
    if (!row) return;
    const index = Number(row.dataset["index"]);
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / rowHeight) - 2);
    const to = { ArrowDown: index + 1, ArrowUp: index - 1, PageDown: index + page, PageUp: index - page, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    focusRow(to);
  };

  return (
    <div className="grid-table" ref={scroller} onKeyDown={onKeyDown}>
      <div role="table" aria-label={props.label} aria-rowcount={(props.total ?? rows.length) + 1}>
        <div role="rowgroup" className="grid-top">
          <div className="grid-head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
            {shown.map((column) => {
              const sorted = column.sort !== undefined && props.sort?.by === column.sort;
              return (
                <div
                  key={column.key}
                  role="columnheader"
                  className={column.align === "right" ? "right" : undefined}
                  aria-sort={sorted ? (props.sort?.descending ? "descending" : "ascending") : undefined}
                >
                  {column.sort !== undefined && props.onSort ? (
                    <button type="button" onClick={() => props.onSort?.(column.sort!)}>
                      {column.name}
                      <span aria-hidden="true">{sorted ? (props.sort?.descending ? " ↓" : " ↑") : ""}</span>
                    </button>
                  ) : (
                    column.name
                  )}
                </div>
              );
            })}
          </div>
        </div>
        <div className="grid-body" role="rowgroup" style={{ height: virtual.getTotalSize() }}>
          {items.map((item) => {
            const row = rows[item.index]!;
            return (
              <div
                key={props.rowKey(row)}
                className={props.selected?.(row) ? "grid-row selected" : "grid-row"}
                role="row"
                aria-rowindex={item.index + 2}
                data-index={item.index}
                style={{ gridTemplateColumns: template, height: item.size, transform: `translateY(${item.start}px)` }}
              >
                {shown.map((column) => (
                  <div key={column.key} role="cell" className={column.align === "right" ? "right" : undefined}>
                    {column.cell(row)}
                  </div>
                ))}
              </div>
            );
          })}
        </div>
      </div>
      {rows.length === 0 && props.empty}
      {props.foot !== undefined && <div className="grid-foot">{props.foot}</div>}
    </div>
  );
}
