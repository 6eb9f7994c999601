# SPDX-License-Identifier: Apache-2.0
"""Kernels of tasks beside the closest PyTorch call, timed in the same run by the same method (docs/measurement.md).

    bench/run library_compare --prepare FOLDER [--tasks NAME ...] [--target sm_90a] [--round FOLDER ...] [--sweep N]
                              [--results FILE ...] [--bundle FOLDER ...]
    bench/run library_compare --run FOLDER --out ROWS.jsonl [--tasks NAME ...] [--seconds 1.5] [--limit 60] [--no-compile] [--warm]
    bench/run library_compare --table ROWS.jsonl [--ceiling 4244]

--prepare needs fettle (FETTLE_BIN) and PyYAML but no GPU: it compiles for each timed case the task's own kernel (declared), the values
that a main_job found (tuned, from its results.json; bench/compare/tuned_h200.json has those that the tuner's jobs accepted on an H200), the kernels of a round of bench/external with their own values and what bundles
hold, with --sweep also N other values of each of a round's kernels, and writes objects and prepared.json to FOLDER.

--run needs PyTorch and a driver, not fettle: for each case it makes inputs, checks every kernel against PyTorch's results, times all side
by side, and appends a row to ROWS.jsonl as soon as it has one. A case that fails or hangs (--limit seconds
without a word) costs itself; a kernel that takes the process down is left out of its case. --warm first lets torch.compile fill its cache, several tasks at a time, before anything is timed.

--table prints the rows as a table for docs/results, and the kernels of each task in the order of their speed.
"""
import argparse
import concurrent.futures
import gc
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from compare import cases, kernels, library, timing  # noqa: E402

SOURCE = HERE.parent
H200 = {"wave": 32, "lds": 232448, "lds_static": 49152, "cus": 132, "max_block": 1024, "registers": 65536, "cache": 62914560}


# ---- Preparing, without a GPU

def all_tasks():
    import yaml
    tasks = {}
    for path in sorted((SOURCE / "tasks").glob("*/task.yaml")):
        tasks[path.parent.name] = yaml.safe_load(path.read_text())
    return tasks


def other_values(kernel, case, count):
    """Up to `count` further values that the constraints allow: first one change at a time, then drawn ones."""
    tunables, given = kernel["tunables"], kernel["values"]
    tried = [{**given, name: value} for name, choices in tunables.items() for value in choices]
    draw = random.Random(11)
    draw.shuffle(tried)
    tried += [{name: draw.choice(choices) for name, choices in tunables.items()} for _ in range(20 * count)]
    out = []
    for values in tried:
        if len(out) == count:
            break
        if values != given and values not in out and all(case(text, values) for text in kernel.get("constraints", [])):
            out.append(values)
    return out


def found_kernels(arguments, folder, task, case):
    """(label, kernel) of what is to be compared for a task."""
    own = task["baseline"]
    base = SOURCE / "tasks" / folder / own["source"]
    yield "declared", {**own, "file": str(base)}
    for path in arguments.results:
        for row in json.loads(path.read_text()):
            if row["task"] == folder and row.get("best"):
                best = row["best"]
                values = json.loads(best["values_json"]) if best.get("values_json") else best.get("values", {})
                yield "tuned", {**own, "file": str(base), "values": {**own["values"], **values}}
    for round_folder in arguments.round:
        plan = json.loads((round_folder / "round.json").read_text())
        for proposal in plan["proposals"]:
            if proposal["task"] == folder:
                kernel = json.loads((round_folder / proposal["file"]).read_text())
                kernel["file"] = str(((round_folder / proposal["file"]).parent / kernel["source_file"]).resolve())
                label = f"{round_folder.name}/{pathlib.Path(proposal['file']).stem}"
                yield label, kernel
                for values in other_values(kernel, case, arguments.sweep):
                    changed = ",".join(f"{k}={v}" for k, v in values.items() if v != kernel["values"][k])
                    yield f"{label} {changed}", {**kernel, "values": values}
    for bundle in arguments.bundle:
        manifest = json.loads((bundle / "manifest.json").read_text())
        for variant in manifest["variants"]:
            if manifest["op"]["name"] == task["name"] and variant["target"] == arguments.target:
                kernel = dict(variant["kernel"])
                kernel["file"] = str(bundle / kernel["source"]["path"])
                yield f"bundle/{bundle.name}", kernel


def prepare(arguments):
    out = arguments.prepare.resolve()
    out.mkdir(parents=True, exist_ok=True)
    fettle = pathlib.Path(os.environ.get("FETTLE_BIN", SOURCE / "build" / "bin")) / "fettle"
    prepared, work = [], []
    for folder, task in all_tasks().items():
        if arguments.tasks and folder not in arguments.tasks:
            continue
        entry = {"task": folder, "spec": task, "cases": []}
        prepared.append(entry)
        for position, given in cases.timed_cases(task):
            row = {"position": position, "case": given, "kernels": []}
            entry["cases"].append(row)
            case = cases.Case(task, given, H200)
            for label, kernel in found_kernels(arguments, folder, task, case):
                kernel = {key: kernel[key] for key in ("file", "values", "launches", "workspace") if key in kernel}
                kernel["label"] = label
                kernel["object"] = f"{folder}_{position}_{len(row['kernels'])}"
                row["kernels"].append(kernel)
                work.append((kernel, case))

    def build(item):
        kernel, case = item
        try:
            report = kernels.compile_kernel(fettle, kernel, case, out, arguments.target)
            kernel.update(symbols=dict(zip(report["entries"], report["symbols"])))
        except Exception as error:  # The others are still compared.
            kernel["error"] = f"{type(error).__name__}: {error}"[:800]
        print(f"{kernel['object']} {kernel['label']}: {kernel.get('error', 'compiled')}", flush=True)
    with concurrent.futures.ThreadPoolExecutor(arguments.parallel) as pool:
        list(pool.map(build, work))
    (out / "prepared.json").write_text(json.dumps(prepared))
    failed = sum("error" in kernel for kernel, _ in work)
    print(f"{out}/prepared.json: {len(work) - failed} of {len(work)} kernels compiled")
    return 1 if failed else 0


# ---- Running, in a child that may die

def target_of(torch):
    properties = torch.cuda.get_device_properties(0)
    return {**H200, "cus": properties.multi_processor_count, "cache": properties.L2_cache_size,
            "lds": getattr(properties, "shared_memory_per_block_optin", H200["lds"])}


class CaseRun:
    def __init__(self, torch, driver, arguments, folder, entry, row):
        self.torch, self.driver, self.arguments, self.folder = torch, driver, arguments, folder
        self.entry, self.row = entry, row
        self.case = cases.Case(entry["spec"], row["case"], target_of(torch))
        self.report = {"task": entry["task"], "position": row["position"], "case": self.case.label(), "gpu": torch.cuda.get_device_name(),
                       "torch": torch.__version__, "contenders": {}, "notes": []}

    def note(self, label, text):
        self.report["notes"].append(f"{label}: {text}"[:600])

    def sets(self):
        first = cases.Inputs(self.torch, self.case, 1)
        size = max(1, first.bytes())
        self.report["bytes_of_a_set"] = size
        count = max(2, min(256, math.ceil(2 * self.case.target["cache"] / size)))
        return [first] + [cases.Inputs(self.torch, self.case, 1 + i) for i in range(1, count)]

    def library_calls(self, sets):
        """{label: [call for each set]}, and the Call of the first set."""
        maker = library.MAKERS.get(self.entry["spec"]["name"])
        if maker is None:
            self.note("library", "PyTorch has no such operator")
            return {}, None
        calls = [maker(self.torch, self.case, inputs) for inputs in sets]
        out = {"eager": [lambda c=c: calls[0].function(*c.arguments) for c in calls]}
        if calls[0].compiles and not self.arguments.no_compile:
            self.torch._dynamo.reset()
            compiled = self.torch.compile(calls[0].function, dynamic=False)
            out["compiled"] = [lambda c=c: compiled(*c.arguments) for c in calls]
        elif not calls[0].compiles:
            self.note("compiled", "the call is one library kernel, or a list of them: nothing to compile")
        return out, calls[0]

    def bound(self, kernel, sets):
        if "error" in kernel:
            raise RuntimeError(kernel["error"])
        module = self.driver.load((self.folder / f"{kernel['object']}.object").read_bytes())
        spaces = kernels.BoundKernel.make_workspaces(self.torch, kernel, self.case)
        return [kernels.BoundKernel(self.torch, self.driver, module, kernel, kernel["symbols"], self.case, inputs, spaces)
                for inputs in sets]

    def expected(self, calls, call):
        if call is None:
            return None
        return dict(zip(call.names, calls["eager"][0]()))

    def check(self, label, calls, sets, expected):
        first = sets[0]
        for name, tensor in first.results().items():
            if name not in first.inouts and tensor.is_floating_point() and not isinstance(first.tensors[name], list):
                tensor.fill_(float("nan"))
        first.restore()
        calls[0]()
        self.torch.cuda.synchronize()
        mine = {name: value.clone() for name, value in first.results().items()}
        if self.entry["spec"]["name"] == "batched_eigh":
            agree, sentence = library.check_eigh(self.torch, self.case, first)
            self.note(label, sentence)
            if not agree:
                return False, mine
        if expected is None:
            return None, mine
        agree, sentence = library.compare(self.torch, self.case, mine, expected)
        self.note(label, sentence)
        return agree, mine

    def run(self):
        torch = self.torch
        sets = self.sets()
        for name in ("indices",):  # `work` may count distinct ones.
            if torch.is_tensor(sets[0].tensors.get(name)):
                self.case.counted[name] = int(torch.unique(sets[0].tensors[name]).numel())
        calls, call = self.library_calls(sets)
        if call is not None:
            self.report["library"] = call.what
        try:
            expected = self.expected(calls, call)
        except Exception as error:
            self.note("eager", f"{type(error).__name__}: {error}")
            calls, expected = {}, None
        if "compiled" in calls:
            try:
                calls["compiled"][0]()
            except Exception as error:
                self.note("compiled", f"{type(error).__name__}: {error}")
                del calls["compiled"]
        if self.arguments.warming:
            return None
        for kernel in self.row["kernels"]:
            label = kernel["label"]
            if [self.entry["task"], self.row["position"], label] in self.arguments.without:
                self.note(label, "took the process or its context down")
                continue
            say(self.arguments.out, {"trying": [self.entry["task"], self.row["position"], label]})
            try:
                bound = self.bound(kernel, sets)
                agree, mine = self.check(label, bound, sets, expected)
                expected = expected if expected is not None else mine
                self.report["contenders"][label] = {"agrees": agree, "values": kernel["values"]}
                if agree is not False:
                    calls[label] = bound
            except (RuntimeError, KeyError, ValueError, OSError) as error:
                if "CUDA error" in str(error) or "CUDA_ERROR_ILLEGAL" in str(error):
                    raise  # The context is lost.
                self.note(label, f"{type(error).__name__}: {error}")
        self.time(calls, sets)
        return self.report

    def time(self, calls, sets):
        def restore():
            for inputs in sets:
                inputs.restore()
        contenders = [timing.Contender(self.torch, label, of, restore, capture=self.entry["spec"]["name"] != "batched_eigh")
                      for label, of in calls.items()]
        medians, logs, count = timing.measure(self.torch, contenders, self.arguments.seconds, repeatable=not sets[0].inouts,
                                              clock=time.monotonic)
        size, flops = self.case.work()
        self.report.update(work_bytes=size, work_flops=flops, calls_a_sample=count, sets=len(sets),
                           blocks=len(next(iter(logs.values()), [])), estimate=bool(self.entry["spec"].get("work", {}).get("estimate")))
        for contender in contenders:
            us = medians[contender.label]
            self.report["contenders"].setdefault(contender.label, {}).update(
                us=us, gb_per_s=size / us / 1e3, tflop_per_s=flops / us / 1e6, mode=contender.mode)
        self.report["ratios"] = {f"{a} over {b}": timing.ratio_of(logs, b, a) for a in logs for b in logs if a != b}


def child(arguments):
    import torch
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.zeros(1, device="cuda")  # Makes the context current, which the driver's calls use.
    driver = kernels.Driver()
    prepared = json.loads((arguments.run / "prepared.json").read_text())
    wanted = [tuple(item.split(":")) for item in arguments.child.split(",")]
    for entry in prepared:
        for row in entry["cases"]:
            if (entry["task"], str(row["position"])) not in wanted:
                continue
            say(arguments.out, {"begin": [entry["task"], row["position"]]})
            try:
                run = CaseRun(torch, driver, arguments, arguments.run, entry, row)
                report = run.run()
            except torch.cuda.OutOfMemoryError as error:
                report = {"task": entry["task"], "position": row["position"], "error": f"out of memory: {str(error)[:200]}"}
            except Exception as error:
                report = {"task": entry["task"], "position": row["position"], "error": f"{type(error).__name__}: {error}"[:800]}
                try:
                    torch.cuda.synchronize()
                except Exception:
                    print(f"{entry['task']} {row['position']}: {error}", flush=True)
                    return 3  # The context is lost: the parent starts another child.
            if report is not None:
                say(arguments.out, report)
            run = None
            gc.collect()
            torch.cuda.empty_cache()
    return 0


def say(path, row):
    with open(path, "a") as out:
        out.write(json.dumps(row) + "\n")
        out.flush()


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()] if path.exists() else []


def supervise(arguments, wanted, out, warming):
    """Runs children until every case had its turn. A child that says nothing for --limit seconds is ended. What a kernel took down
    is repeated without that kernel."""
    without = []
    while wanted:
        before = len(rows_of(out))
        command = [sys.executable, __file__, "--run", str(arguments.run), "--out", str(out), "--seconds", str(arguments.seconds),
                   "--child", ",".join(f"{task}:{position}" for task, position in wanted), "--without", json.dumps(without)]
        command += ["--no-compile"] * arguments.no_compile + ["--warming"] * warming
        process = subprocess.Popen(command)
        heard, seen = time.monotonic(), before
        while process.poll() is None:
            time.sleep(0.2)
            count = len(rows_of(out))
            if count != seen:
                heard, seen = time.monotonic(), count
            if time.monotonic() - heard > arguments.limit:
                process.kill()
                process.wait()
        rows = rows_of(out)[before:]
        begun = [tuple(row["begin"]) for row in rows if "begin" in row]
        if not begun:
            print(f"no case begun: exit {process.returncode}", flush=True)
            return
        ended = {(row["task"], row["position"]) for row in rows if "task" in row}
        if process.returncode != 0 and begun[-1] not in ended and not warming:
            tried = [row["trying"] for row in rows if "trying" in row and tuple(row["trying"][:2]) == begun[-1]]
            if tried and tried[-1] not in without:
                without.append(tried[-1])
                print(f"{' '.join(map(str, tried[-1]))}: exit {process.returncode}; again without it", flush=True)
                begun.pop()
            else:
                say(out, {"task": begun[-1][0], "position": begun[-1][1],
                          "error": f"the process ended with {process.returncode}, or was silent for {arguments.limit} s"})
        wanted = [item for item in wanted if item not in begun]


def run(arguments):
    prepared = json.loads((arguments.run / "prepared.json").read_text())
    wanted = [(entry["task"], row["position"]) for entry in prepared for row in entry["cases"]
              if not arguments.tasks or entry["task"] in arguments.tasks]
    if arguments.warm:
        begun = time.monotonic()
        by_task = {}
        for task, position in wanted:
            if not arguments.no_compile:
                by_task.setdefault(task, []).append((task, position))
        with concurrent.futures.ThreadPoolExecutor(arguments.parallel) as pool:
            list(pool.map(lambda item: supervise(arguments, item[1], arguments.out.with_suffix(f".warm_{item[0]}"), True),
                          by_task.items()))
        print(f"warmed up in {time.monotonic() - begun:.0f} s", flush=True)
    begun = time.monotonic()
    supervise(arguments, wanted, arguments.out, False)
    print(f"measured in {time.monotonic() - begun:.0f} s", flush=True)
    print(table(rows_of(arguments.out), arguments.ceiling))
    print(ranking(rows_of(arguments.out)))
    return 0


# ---- The table

def cell(contender):
    return "–" if contender is None or "us" not in contender else f"{contender['us']:.1f}"


def table(rows, ceiling):
    lines = ["| task, case | declared us | tuned us | best us (which) | PyTorch eager us | compiled us | best over declared | over tuned | "
             "over eager | over compiled | GB/s (share of the copy ceiling) | TFLOP/s | agrees with PyTorch |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        if "task" not in row:
            continue
        if "error" in row:
            lines.append(f"| {row['task']} {row['position']} | failed: {row['error'][:160]} |" + " – |" * 11)
            continue
        own = {k: v for k, v in row["contenders"].items() if k not in ("eager", "compiled") and "us" in v}
        if not own:
            lines.append(f"| {row['task']}, {row['case']} | no kernel ran: {'; '.join(row['notes'])[:160]} |" + " – |" * 11)
            continue
        best = min(own, key=lambda label: own[label]["us"])

        def over(other, row=row, best=best):
            ratio = row["ratios"].get(f"{best} over {other}")
            return "–" if ratio is None else f"{ratio[0]:.3f}x [{ratio[1]:.3f}, {ratio[2]:.3f}]"
        get = row["contenders"].get
        rate = own[best]["gb_per_s"]
        agrees = {None: "not compared", True: "yes", False: "no"}[own[best].get("agrees")]
        lines.append(f"| {row['task']}, {row['case']} | {cell(get('declared'))} | {cell(get('tuned'))} | {own[best]['us']:.1f} ({best}) | "
                     f"{cell(get('eager'))} | {cell(get('compiled'))} | {over('declared')} | {over('tuned')} | {over('eager')} | "
                     f"{over('compiled')} | {rate:.0f} ({rate / ceiling:.2f}) | {own[best]['tflop_per_s']:.2f} | {agrees} |")
    return "\n".join(lines)


def ranking(rows):
    """Of each task the kernels by the geometric mean of their speed-up over the declared one, over all cases that they ran."""
    lines = []
    by_task = {}
    for row in rows:
        if row.get("ratios"):
            by_task.setdefault(row["task"], []).append(row)
    for task, of_task in by_task.items():
        logs = {}
        for row in of_task:
            for label, contender in row["contenders"].items():
                if "us" in contender and "us" in row["contenders"].get("declared", {}):
                    logs.setdefault(label, []).append(math.log(row["contenders"]["declared"]["us"] / contender["us"]))
        whole = {label: math.exp(sum(of) / len(of)) for label, of in logs.items() if len(of) == len(of_task)}
        for label, ratio in sorted(whole.items(), key=lambda item: -item[1]):
            lines.append(f"{task}: {ratio:7.3f}x over declared, {len(of_task)} cases, {label}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepare", type=pathlib.Path)
    parser.add_argument("--run", type=pathlib.Path)
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--tasks", nargs="*", default=[])
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--round", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--sweep", type=int, default=0)
    parser.add_argument("--results", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--bundle", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--parallel", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("library_compare.jsonl"))
    parser.add_argument("--seconds", type=float, default=1.5, help="for timing one case")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one case, all included")
    parser.add_argument("--ceiling", type=float, default=4244, help="GB/s that copies reach on the device")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--warming", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--without", type=json.loads, default=[], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.prepare:
        return prepare(arguments)
    if arguments.table:
        print(table(rows_of(arguments.table), arguments.ceiling))
        print(ranking(rows_of(arguments.table)))
        return 0
    if arguments.child:
        return child(arguments)
    if arguments.run:
        return run(arguments)
    parser.error("say --prepare, --run or --table")
    return 2


if __name__ == "__main__":
    sys.exit(main())
