import { useCallback, useMemo, useState } from "react";
import { Link } from "wouter";
import { withQuery } from "../api/client";
import { useCatalog, useFacts, useVariants, variantDefaults as defaults } from "../api/queries";
import type { FactSummary, Variant } from "../api/types";
import { factsLine } from "../lib/facts";
import { count, percent, ratio, values } from "../lib/format";
import { useParameters } from "../lib/url";
import { Grid, type Column } from "../ui/grid";
import { CopyId, Meter, SearchBox, Select, SpeedUp, StatusBadge, Time } from "../ui/parts";
import { EmptyState, ErrorState, LoadingState } from "../ui/states";

const statuses = ["accepted", "superseded", "demoted"];
const mostCompared = 6;

function FactsCell({ facts }: { facts: FactSummary | undefined }) {
  if (!facts) return <span className="muted">…</span>;
  const line = factsLine(facts.builds);
  if (line === "") return <span className="muted">not recorded</span>;
  return (
    <span className="clamp" title={line}>
      {line}
    </span>
  );
}

function columnsFor(
  scale: number,
  facts: Map<string, FactSummary> | undefined,
  chosen: Set<string>,
  choose: (id: string) => void,
): Column<Variant>[] {
  return [
    {
      key: "choose",
      name: <span className="sr">Choose</span>,
      width: "22px",
      from: 560,
      cell: (variant) => (
        <input
          type="checkbox"
          className="above"
          aria-label={`Choose variant ${variant.id} of ${variant.task_name}`}
          checked={chosen.has(variant.id)}
          onChange={() => choose(variant.id)}
        />
      ),
    },
    {
      key: "task",
      name: "Operator",
      width: "minmax(150px, 1.4fr)",
      sort: "task",
      cell: (variant) => (
        <span className="two-lines">
          <Link className="cover" href={`/variants/${variant.id}`}>
            {variant.task_name}
          </Link>
          <span className="muted" title={values(variant.values)}>
            {values(variant.values)}
          </span>
        </span>
      ),
    },
    {
      key: "target",
      name: "Target",
      width: "minmax(80px, 0.8fr)",
      sort: "target",
      from: 620,
      cell: (variant) => (
        <span className="two-lines">
          <span>{variant.target}</span>
          <span className="muted" title={variant.device_model}>
            {variant.device_model}
          </span>
        </span>
      ),
    },
    {
      key: "ratio",
      name: "Speed-up",
      width: "minmax(150px, 1.2fr)",
      sort: "ratio",
      cell: (variant) => <SpeedUp value={variant.ratio} low={variant.ratio_low} high={variant.ratio_high} scale={scale} />,
    },
    {
      key: "declared",
      name: "Over declared",
      width: "98px",
      align: "right",
      sort: "ratio_declared",
      from: 960,
      cell: (variant) => ratio(variant.ratio_declared),
    },
    {
      key: "roofline",
      name: "Roofline",
      width: "96px",
      sort: "roofline_fraction",
      from: 800,
      cell: (variant) =>
        variant.roofline_fraction > 0 ? (
          <span>
            <span className="verdict-counts">{percent(variant.roofline_fraction)}</span>
            <Meter fraction={variant.roofline_fraction} label="of the roofline" warnAt={2} />
          </span>
        ) : (
          <span className="muted">not known</span>
        ),
    },
    { key: "facts", name: "Facts", width: "minmax(120px, 1.2fr)", from: 1120, cell: (variant) => <FactsCell facts={facts?.get(variant.id)} /> },
    {
      key: "status",
      name: "Status",
      width: "98px",
      from: 880,
      cell: (variant) => <StatusBadge status={variant.status} />,
    },
    { key: "id", name: "Variant", width: "132px", from: 1240, cell: (variant) => <CopyId id={variant.id} label="variant id" /> },
    { key: "age", name: "Age", width: "84px", align: "right", sort: "accepted", from: 480, cell: (variant) => <Time ns={variant.accepted_ns} /> },
  ];
}

export function VariantsPage() {
  const [filter, setFilter] = useParameters(defaults);
  const [chosen, setChosen] = useState<Set<string>>(() => new Set());
  const [sight, setSight] = useState<[number, number]>([0, 0]);
  const variants = useVariants(filter);
  const catalog = useCatalog();
  const rows = useMemo(() => variants.data?.pages.flatMap((page) => page.variants) ?? [], [variants.data]);
  const total = variants.data?.pages[0]?.total ?? rows.length;
  // In steps, so that scrolling does not ask for each row apart.
  const from = Math.floor(sight[0] / 20) * 20;
  const facts = useFacts(useMemo(() => rows.slice(from, from + 50).map((row) => row.id), [rows, from]));
  const scale = useMemo(() => Math.max(1.5, ...rows.map((row) => Math.min(row.ratio_high, 20))), [rows]);
  const choose = useCallback((id: string) => {
    setChosen((before) => {
      const next = new Set(before);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  }, []);
  const columns = useMemo(() => columnsFor(scale, facts.data, chosen, choose), [scale, facts.data, chosen, choose]);
  const { fetchNextPage, hasNextPage, isFetchingNextPage } = variants;
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [fetchNextPage, hasNextPage, isFetchingNextPage]);
  const onVisible = useCallback((first: number, last: number) => setSight([first, last]), []);
  const onSort = useCallback(
    (by: string) => {
      // Numbers start with the largest, names with the first.
      const down = `-${by}`;
      const names = by === "task" || by === "target";
      const next = filter.sort === down ? by : filter.sort === by ? down : names ? by : down;
      setFilter({ sort: next });
    },
    [filter.sort, setFilter],
  );

  const entries = catalog.data ?? [];
  const options = (any: string, key: "task" | "target" | "device_model") => [
    { value: "", name: any },
    ...[...new Set(entries.map((entry) => entry[key]))].sort().map((value) => ({ value, name: value })),
  ];
  const ids = [...chosen];
  const bundle = ids.length > 0 ? `/api/v1/bundle?${ids.map((id) => `variant=${encodeURIComponent(id)}`).join("&")}` : "";
  const tasks = new Set(rows.filter((row) => chosen.has(row.id)).map((row) => row.task_name));

  return (
    <div className="page fill">
      <div className="head">
        <h1>Variants</h1>
        <span className="muted" role="status">
          {variants.isPending || variants.error ? "" : `${count(total)} found`}
        </span>
        <span className="grow" />
        {ids.length > 0 && (
          <>
            <Link className="button" href={`/compare?ids=${ids.slice(0, mostCompared).join(",")}`}>
              Compare {Math.min(ids.length, mostCompared)}
            </Link>
            {tasks.size === 1 ? (
              <a className="button" href={bundle} download>
                Bundle of {ids.length}
              </a>
            ) : (
              <span className="button" aria-disabled="true" title="A bundle holds variants of one operator">
                Bundle of {ids.length}
              </span>
            )}
            <button type="button" className="button plain" onClick={() => setChosen(new Set())}>
              Choose none
            </button>
          </>
        )}
        <a className="button" href={withQuery("/api/v1/variants.csv", filter)} download>
          Export CSV
        </a>
      </div>
      <div className="filters">
        <span className="search-field">
          <SearchBox label="Search operators, ids, values" value={filter.q} onChange={(q) => setFilter({ q })} />
        </span>
        <Select label="Operator" value={filter.task} onChange={(task) => setFilter({ task })} options={options("Any operator", "task")} />
        <Select label="Target" value={filter.target} onChange={(target) => setFilter({ target })} options={options("Any target", "target")} />
        <Select label="Device" value={filter.device} onChange={(device) => setFilter({ device })} options={options("Any device", "device_model")} />
        <Select
          label="Status"
          value={filter.status}
          onChange={(status) => setFilter({ status })}
          options={[{ value: "", name: "Any status" }, ...statuses.map((status) => ({ value: status, name: status }))]}
        />
        {filter.job !== "" && (
          <button type="button" className="chip" aria-pressed="true" onClick={() => setFilter({ job: "" })}>
            job {filter.job} <span aria-hidden="true">×</span>
          </button>
        )}
      </div>
      {variants.isPending ? (
        <LoadingState />
      ) : variants.error && rows.length === 0 ? (
        <ErrorState error={variants.error} retry={() => void variants.refetch()} />
      ) : (
        <Grid
          label="Variants"
          columns={columns}
          rows={rows}
          rowKey={(row) => row.id}
          rowHeight={48}
          total={total}
          sort={{ by: filter.sort.replace(/^-/, ""), descending: filter.sort.startsWith("-") }}
          onSort={onSort}
          onEnd={onEnd}
          onVisible={onVisible}
          selected={(row) => chosen.has(row.id)}
          foot={isFetchingNextPage ? "Loading more" : hasNextPage ? `${count(rows.length)} of ${count(total)}` : undefined}
          empty={
            <EmptyState title="No variant fits">
              <p>A variant appears here once a candidate was confirmed to be right and faster.</p>
              <button type="button" className="button" onClick={() => setFilter({ ...defaults, status: "" })}>
                Show all variants
              </button>
            </EmptyState>
          }
        />
      )}
    </div>
  );
}
