# SPDX-License-Identifier: Apache-2.0
"""The main job, from submit to a bundle that was run again, for bundled tasks on one target.

    bench/run main_job [--target sm_90a] [--candidates 40] [--minutes 2] [--limit S] [--parallel N]
                       [--tasks NAME ... | --tasks all] [--out FOLDER]

Prints one row per task and where the time of the units went; writes results.json and the server's log
to FOLDER. With --parallel, N jobs share the device: what is timed has it to itself all the same.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import shutil
import sqlite3
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "e2e"))
from fettle_process import Fettle, SOURCE  # noqa: E402

TASKS = ["layernorm", "matmul", "bounds_check_indices", "histogram"]


def units(fettle, job_id):
    """(kind, verdict, wall s, compile s, device s) of the job's units."""
    with sqlite3.connect(next(fettle.data.glob("*.db"))) as db:
        return [(kind, verdict or "-", wall / 1e9, compiled / 1e9, device / 1e9)
                for kind, verdict, wall, compiled, device in db.execute(
                    "SELECT kind, verdict, wall_ns, compile_ns, device_ns FROM evaluations "
                    "WHERE job_id = ? ORDER BY stored_ns", (job_id,))]


def stages(fettle, job_id):
    """Milliseconds by what units did, summed and unit by unit (when stored, verdict, steps); nothing where there is no zstd to read
    results with."""
    spent, units_of = collections.Counter(), []
    if shutil.which("zstd") is None:
        return spent, units_of
    for stored_ns, result in fettle.results(job_id):
        steps = result["environment"].get("stages", [])
        verdict = (result.get("verdict") or {}).get("verdict", "-")
        units_of.append([round(stored_ns / 1e9, 2), verdict, [[step["doing"], round(step["ms"], 1)] for step in steps]])
        for step in steps:
            spent[step["doing"].split(" timed/")[0].split(" checked/")[0]] += step["ms"]
    return spent, units_of


def run_task(fettle, name, arguments, out):
    begin = time.monotonic()
    more = ["--minutes", arguments.minutes] if arguments.minutes else []
    job = fettle.json("submit", SOURCE / "tasks" / name, "--target", arguments.target, "--candidates",
                      arguments.candidates, "--seed", arguments.seed, "--no-watch", *more)
    try:
        fettle.until(lambda: fettle.json("jobs", job["id"])["state"] in
                     ("succeeded", "failed", "cancelled"),
                     arguments.limit, f"the job of {name} to end", pause=0.5)
    except AssertionError as error:
        now = fettle.json("jobs", job["id"])
        fettle.run("cancel", job["id"])
        done = "\n".join(f"  {stored} {verdict} {steps}" for stored, verdict, steps in stages(fettle, job["id"])[1])
        raise AssertionError(f"{error}\n{json.dumps(now)[:2000]}\n{done}") from error
    end = fettle.json("jobs", job["id"])
    row = {"task": name, "job": end, "seconds": time.monotonic() - begin,
           "candidates": fettle.json("candidates", job["id"]), "units": units(fettle, job["id"]),
           }
    row["stages"], row["unit_stages"] = stages(fettle, job["id"])
    variants = [v for v in fettle.json("variants") if v.get("job_id", v.get("jobId")) == job["id"]]
    best = next((v for v in variants if v["status"] == "accepted"), None)
    row["best"] = best
    if best:
        row["evidence"] = fettle.json("show", best["id"])
        bundle = out / "bundles" / name
        exported = fettle.run("export", best["id"], "--out", bundle)
        row["export"] = exported.returncode
        begin = time.monotonic()
        verified = fettle.run("verify", bundle, "--rerun", "--json")
        row["verify"] = {"exit": verified.returncode, "seconds": time.monotonic() - begin,
                         "out": verified.stdout[-4000:], "err": verified.stderr[-2000:]}
    return row


def show(row):
    end = row["job"]
    verdicts = end.get("verdict_counts") or end.get("verdictCounts") or {}
    print(f"{row['task']}: {end['state']} in {row['seconds']:.1f} s, {len(row['candidates'])} candidates "
          f"{verdicts}; {end.get('message', '')}", flush=True)
    reasons = collections.Counter()
    messages = {}
    for candidate in row["candidates"]:
        verdict = candidate["verdict"] or {}
        key = " ".join(verdict.get(k, "") for k in ("verdict", "stage", "reason_code"))
        reasons[key] += 1
        messages.setdefault(key, verdict.get("message", ""))
    for key, count in reasons.most_common():
        print(f"  {count} x {key}: {messages[key][:160]}")
    evaluated = [u for u in row["units"] if u[0] == "evaluate"]
    if evaluated:
        walls = sorted(u[2] for u in evaluated)
        print(f"  evaluate units: median {walls[len(walls) // 2]:.2f} s, compile "
              f"{sum(u[3] for u in evaluated):.1f} s, device {sum(u[4] for u in evaluated):.1f} s")
    for doing, spent in row["stages"].most_common(8):
        print(f"  {spent / 1000:8.2f} s {doing}")
    best = row["best"]
    if not best:
        print("  no variant")
        return
    print(f"  best {best.get('values_json', best.get('values'))} ratio {best.get('ratio')} "
          f"[{best.get('ratio_low')}, {best.get('ratio_high')}]")
    provenance = row["evidence"].get("provenance", row["evidence"])
    for case in provenance.get("measurement", {}).get("cases", []):
        print(f"    {case.get('case_label', case.get('case'))}: {case['a_median_ns'] / 1e3:.1f} us -> "
              f"{case['b_median_ns'] / 1e3:.1f} us, {case['bytes_per_s'] / 1e9:.0f} GB/s, "
              f"{case['flops_per_s'] / 1e12:.2f} TFLOP/s, roofline {case['roofline_fraction']:.2f}")
    print(f"  export exit {row['export']}, verify --rerun exit {row['verify']['exit']} in "
          f"{row['verify']['seconds']:.1f} s {row['verify']['err'][-300:]}")


def table(rows):
    """The rows as a table of docs/results."""
    lines = ["| task | candidates | best over declared | each timed case: declared to best, GB/s, TFLOP/s, "
             "share of the roofline |", "| --- | --- | --- | --- |"]
    for row in rows:
        best, cells = row["best"], []
        if best:
            provenance = row["evidence"].get("provenance", row["evidence"])
            for case in provenance.get("measurement", {}).get("cases", []):
                cells.append(f"{case['a_median_ns'] / 1e3:.1f} to {case['b_median_ns'] / 1e3:.1f} us, "
                             f"{case['bytes_per_s'] / 1e9:.0f} GB/s, "
                             f"{case['flops_per_s'] / 1e12:.2f} TFLOP/s, {case['roofline_fraction']:.2f}")
            values = json.loads(best["values_json"]) if best.get("values_json") else best.get("values", {})
            named = ", ".join(f"{k} {v}" for k, v in values.items())
            won = (f"**{best['ratio']:.3f}x** [{best['ratio_low']:.3f}, {best['ratio_high']:.3f}] {named}; "
                   f"verified again: exit {row['verify']['exit']}")
        else:
            won = f"none ({row['job'].get('message', '')[:120]})"
        lines.append(f"| {row['task']} | {len(row['candidates'])} | {won} | {'; '.join(cells) or '–'} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="auto")
    parser.add_argument("--candidates", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--limit", type=float, default=1200, help="seconds for one task's job")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--tasks", nargs="*", default=TASKS)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("main_job_results"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    fettle = Fettle()
    rows, failed = [], 0
    if arguments.tasks == ["all"]:
        arguments.tasks = sorted(p.parent.name for p in (SOURCE / "tasks").glob("*/task.yaml"))
    try:
        fettle.start()
        with concurrent.futures.ThreadPoolExecutor(arguments.parallel) as pool:
            running = {pool.submit(run_task, fettle, name, arguments, arguments.out): name
                       for name in arguments.tasks}
            for done in concurrent.futures.as_completed(running):
                try:
                    rows.append(done.result())
                    show(rows[-1])
                except AssertionError as error:
                    failed += 1
                    print(f"{running[done]}: {error}", flush=True)
    finally:
        if fettle.log.exists():
            shutil.copy(fettle.log, arguments.out / "serve.log")
        fettle.close()
    rows.sort(key=lambda row: row["task"])
    (arguments.out / "results.json").write_text(json.dumps(rows, indent=1, default=dict))
    print(table(rows))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
