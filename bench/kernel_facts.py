# SPDX-License-Identifier: Apache-2.0
"""What a compiler made of the bundled tasks' kernels and of a round's, as a table: no device is needed.

    bench/run kernel_facts [--target gfx950] [--round bench/external/round4] [--tasks NAME ...] [--json FILE]

For each task the first timed case for a GPU is compiled with the baseline's declared values and, with --round, the round's own kernel and
values. Registers, shared memory (static, and what the plan adds), occupancy and matrix instructions are read from the code object. Nothing
here has run: every row is compiled_only. A kernel that the target rejects is listed with the reason.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from compare import cases, kernels  # noqa: E402
from library_compare import SOURCE, all_tasks, found_kernels  # noqa: E402

TARGETS = {
    "gfx950": {"wave": 64, "lds": 160 * 1024, "lds_static": 65536, "cus": 256, "max_block": 1024, "registers": 131072},
    "gfx942": {"wave": 64, "lds": 65536, "lds_static": 65536, "cus": 304, "max_block": 1024, "registers": 131072},
    "sm_90a": {"wave": 32, "lds": 232448, "lds_static": 49152, "cus": 132, "max_block": 1024, "registers": 65536},
}


def build(item):
    task, label, kernel, case, target, folder, fettle = item
    kernel["object"] = f"{task}_{label.replace('/', '_')}"
    rows = []
    try:
        facts = kernels.compile_kernel(fettle, kernel, case, folder, target)
    except Exception as error:
        return [{"task": task, "kernel": label, "rejected": str(error)[:300]}]
    entries = dict(zip(facts["symbols"], facts["entries"]))
    for one in facts["facts"]["kernels"]:
        name = entries.get(one["name"], entries.get(one["name"].removesuffix(".kd")))
        if name is None:
            continue
        steps = [step for step in kernels.needed(kernel, case) if kernels.spelled_entry(step["kernel"], case, kernel["values"]) == name]
        shared = max((case(step.get("shared", 0), kernel["values"]) for step in steps), default=0)
        rows.append({"task": task, "kernel": label, "entry": name, "dynamic": shared, **one})
    return rows


def shown(value):
    return "–" if value is None else str(value)


def table(rows, target):
    lines = [f"| task | kernel | entry ({target}) | registers | scalar registers | scratch bytes | LDS static + dynamic | waves (limit) | "
             "matrix instructions | build |", "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        if "rejected" in row:
            text = " ".join(row["rejected"].split())[:140].replace("|", "/")
            lines.append(f"| {row['task']} | {row['kernel']} | rejected: {text} |" + " – |" * 6 + " none |")
            continue
        occupancy = row.get("occupancy", {})
        waves = f"{occupancy['waves']} of {occupancy['max_waves']} ({occupancy.get('limit', 'nothing')})" if occupancy else "–"
        matrix = ", ".join(f"{count} {name}" for name, count in sorted(row.get("matrix", {}).items())) or "none"
        lines.append(f"| {row['task']} | {row['kernel']} | `{row['entry']}` | {shown(row.get('registers'))} | "
                     f"{shown(row.get('sgprs'))} | {shown(row.get('local_bytes'))} | "
                     f"{shown(row.get('shared_bytes'))} + {row['dynamic']} | {waves} | {matrix} | compiled_only |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="gfx950", choices=sorted(TARGETS))
    parser.add_argument("--round", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--tasks", nargs="*", default=[])
    parser.add_argument("--parallel", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.results, arguments.bundle, arguments.sweep = [], [], 0
    fettle = pathlib.Path(os.environ.get("FETTLE_BIN", SOURCE / "build" / "bin")) / "fettle"
    work = []
    with tempfile.TemporaryDirectory() as folder:
        for name, task in all_tasks().items():
            if arguments.tasks and name not in arguments.tasks:
                continue
            case = cases.Case(task, cases.timed_cases(task)[0][1], TARGETS[arguments.target])
            for label, kernel in found_kernels(arguments, name, task, case):
                work.append((name, label, dict(kernel), case, arguments.target, pathlib.Path(folder), fettle))
        with concurrent.futures.ThreadPoolExecutor(arguments.parallel) as pool:
            rows = [row for part in pool.map(build, work) for row in part]
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    print(table(rows, arguments.target))
    return 0


if __name__ == "__main__":
    sys.exit(main())
