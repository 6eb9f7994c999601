# SPDX-License-Identifier: Apache-2.0
"""Checks and times the PyTorch operator of an exported bundle on the GPU that is here.

    python3 bench/torch_binding.py BUNDLE [--json FILE] [--ptx BUNDLE]

opcheck and tracing; results against eager PyTorch where it has the operator, else against the bundle's baseline; the kill switch;
CUDA graph capture and replay; two streams; four threads; the exported speed-up again, variant against baseline in alternating rounds
with the cache flushed between calls; what a call costs the host beside native operators on the same inputs. With --ptx: whether this
driver compiles that bundle's PTX and finds its kernels. FETTLE_TORCH_ABI chooses the interface. A check that cannot run is a failed
check, and the others go on. Exit code 1: a check failed.
"""
import argparse
import ctypes
import importlib.util
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

TOLERANCE = {"f16": 2e-2, "bf16": 6e-2, "f32": 1e-3, "f64": 1e-9}


def load_file(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def evaluate(text, names):
    for word, by in (("&&", " and "), ("||", " or "), ("^", "**"), ("/", "//")):
        text = text.replace(word, by)
    return eval(text, {"__builtins__": {}, "min": min, "max": max, "ceil_div": lambda a, b: -(-a // b),
                       "select": lambda c, a, b: a if c else b}, names)


class Case:
    """One size: arguments in the order of the operator's schema, and outputs for its other form."""

    def __init__(self, op, types, dims, scalars):
        import torch
        self.op, self.types, self.dims = op, types, dict(dims)
        for axis in op["axes"]:
            if axis["kind"] == "computed":
                self.dims[axis["name"]] = evaluate(axis["let"], self.dims)
        generator = torch.Generator(device="cuda").manual_seed(7)
        self.inputs, self.named, self.outputs = [], {}, []
        shown = set()
        for tensor in op["tensors"]:
            name = self.types[tensor["dtype"][1:]] if tensor["dtype"].startswith("$") else tensor["dtype"]
            if tensor["role"] == "index" or name not in TOLERANCE:
                raise RuntimeError(f"{op['name']}: {tensor['name']} is {tensor['role']} {name}; only floating-point inputs are made here")
            dtype = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[name]
            shape = [evaluate(extent, self.dims) for extent in tensor["shape"]]
            if tensor["role"] == "out":
                self.outputs.append(torch.empty(shape, device="cuda", dtype=dtype))
                continue
            value = torch.randn(shape, generator=generator, device="cuda", dtype=torch.float32).to(dtype)
            self.inputs.append(value)
            self.named[tensor["name"]] = value
            shown.update(tensor["shape"])
        self.inputs += [self.dims[axis["name"]] for axis in op["axes"] if axis["kind"] == "input" and axis["name"] not in shown]
        for scalar in op["scalars"]:
            if scalar["value"] == "argument":
                tested = scalars[scalar["name"]]["min"]
                self.inputs.append(float(tested) if scalar["dtype"].startswith("f") else int(tested))

    def label(self):
        return " ".join(f"{k}={v}" for k, v in {**self.types, **self.dims}.items())


def eager(name, case):
    """The same by eager PyTorch as a function, or None."""
    import torch
    t = case.named
    tensors = [value for value in case.inputs if torch.is_tensor(value)]
    if name in ("layernorm_fwd", "layernorm"):
        return lambda: torch.nn.functional.layer_norm(t["x"], (t["x"].shape[-1],), t["gamma"], t["beta"], 1e-5)
    if name == "matmul":
        return lambda: torch.mm(*tensors)
    if name in ("softmax", "softmax_fwd"):
        return lambda: torch.softmax(tensors[0], -1)
    return None


def first(value):
    return value[0] if isinstance(value, (tuple, list)) else value


class Checks:
    def __init__(self):
        self.rows = []

    def add(self, what, passed, note=""):
        self.rows.append({"check": what, "passed": bool(passed), "note": str(note)[:400]})
        print(f"{'ok  ' if passed else 'FAIL'} {what} {str(note)[:400]}".rstrip(), flush=True)

    def run(self, what, function):
        """`function` gives (passed, note); what it throws is a failure."""
        try:
            self.add(what, *function())
        except Exception as error:  # Whatever it is, the next check is to run.
            self.add(what, False, f"{type(error).__name__}: {error}")

    def failed(self):
        return sum(not row["passed"] for row in self.rows)


def close(a, b, types):
    bound = max((TOLERANCE[name] for name in types.values()), default=1e-3) * max(1.0, float(b.float().abs().max()) if b.numel() else 1)
    worst = float((a.float() - b.float()).abs().max()) if a.numel() else 0.0
    return worst <= bound, f"largest difference {worst:.3g}"


class Bench:
    def __init__(self, bundle):
        import torch
        self.torch = torch
        self.manifest = json.loads((bundle / "manifest.json").read_text())
        self.op = self.manifest["op"]
        begin = time.monotonic()
        self.module = load_file(bundle / "integrations" / "torch" / "op.py", "fettle_op")
        self.name = pathlib.Path(next((bundle / "include" / "fettle_ops").glob("*.hpp"))).stem
        self.call = getattr(self.module, self.name)
        self.out = getattr(self.module, self.name + "_out", None)
        self.abi = self.module._loader.abi()
        torch.cuda.init()
        self.gpu = torch.cuda.get_device_name()
        print(f"{self.name}: {self.abi} interface, loaded in {time.monotonic() - begin:.1f} s; torch {torch.__version__}, {self.gpu}",
              flush=True)
        self.flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        self.check = Checks()

    def target(self):
        capability = "sm_%d%d" % self.torch.cuda.get_device_capability()
        found = next((t for t in self.manifest["selection"]["targets"] if t["target"].rstrip("a") == capability), None)
        if found is None:
            raise SystemExit(f"the bundle has nothing for {capability}")
        return found["target"], found["rows"]

    def scalars(self):
        return self.manifest["variants"][0]["guards"]["envelopes"][0]["scalars"]

    def disabled(self, on):
        os.environ["FETTLE_DISABLE"] = "*" if on else ""
        self.module.read_switches()

    def times_us(self, call, rounds):
        begin, end = self.torch.cuda.Event(enable_timing=True), self.torch.cuda.Event(enable_timing=True)
        out = []
        for _ in range(rounds):
            self.flush.zero_()
            begin.record()
            call()
            end.record()
            end.synchronize()
            out.append(begin.elapsed_time(end) * 1000)
        return out

    def host_ns(self, call):
        """What a call costs the host: short runs that the queue of launches takes without waiting."""
        best = float("inf")
        for _ in range(12):
            for _ in range(20):
                call()
            self.torch.cuda.synchronize()
            begin = time.perf_counter_ns()
            for _ in range(300):
                call()
            best = min(best, (time.perf_counter_ns() - begin) / 300)
            self.torch.cuda.synchronize()
        return round(best)

    def graph(self, case):
        torch = self.torch
        graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.call(*case.inputs)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            captured = first(self.call(*case.inputs))
        case.inputs[0].mul_(0.5)
        graph.replay()
        torch.cuda.synchronize()
        same = torch.equal(captured, first(self.call(*case.inputs)))
        case.inputs[0].mul_(2.0)
        return same, "replayed on changed inputs"

    def streams(self, case, result):
        torch, outs = self.torch, []
        for stream in [torch.cuda.Stream() for _ in range(2)]:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                outs.append(first(self.call(*case.inputs)))
        torch.cuda.synchronize()
        return all(torch.equal(out, result) for out in outs), ""

    def threads(self, case, result):
        torch, got = self.torch, [None] * 4

        def work(i):
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(8):
                    got[i] = first(self.call(*case.inputs))
                torch.cuda.current_stream().synchronize()

        workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return all(out is not None and torch.equal(out, result) for out in got), ""

    def opcheck(self, case, tests):
        self.torch.library.opcheck(self.call, tuple(case.inputs), test_utils=tests)
        return True, ", ".join(tests)

    def compiled(self, case, result):
        function = self.torch.compile(lambda *inputs: first(self.call(*inputs)) + 0, backend="aot_eager", fullgraph=True)
        return self.torch.equal(function(*case.inputs), result), "torch.compile, aot_eager, whole graph"

    def refused(self, case):
        try:
            self.call(*[v.to(self.torch.int32) if self.torch.is_tensor(v) else v for v in case.inputs])
        except RuntimeError as error:
            return True, str(error).splitlines()[0][:120]
        return False, "integers were taken"

    def case(self, case, index):
        torch, label, check = self.torch, case.label(), self.check
        self.disabled(False)
        result = first(self.call(*case.inputs))
        if index == 0:
            check.run("opcheck", lambda: self.opcheck(case, ("test_schema", "test_faketensor")))
            check.run("opcheck, tracing", lambda: self.opcheck(case, ("test_autograd_registration", "test_aot_dispatch_dynamic")))
            check.run("torch.compile", lambda: self.compiled(case, result))
            check.run("other dtypes are refused", lambda: self.refused(case))
            if self.out is not None and case.outputs:
                self.out(*case.inputs, *case.outputs)
                check.add("given output, same bits", torch.equal(case.outputs[0], result))
        self.disabled(True)
        fallback = first(self.call(*case.inputs))
        check.add(f"kill switch: the baseline, repeatable: {label}", torch.equal(fallback, first(self.call(*case.inputs))))
        self.disabled(False)
        check.run(f"variant against baseline: {label}", lambda: close(result, fallback, case.types))
        native = eager(self.name, case)
        if native is not None:
            check.run(f"variant against eager PyTorch: {label}", lambda: close(result, native(), case.types))
        check.run(f"CUDA graph: {label}", lambda: self.graph(case))
        check.run(f"two streams: {label}", lambda: self.streams(case, result))
        check.run(f"four threads: {label}", lambda: self.threads(case, result))
        return self.speed(case, native)

    def speed(self, case, native):
        """Alternating rounds: variant, baseline, eager."""
        series = {"variant": [], "baseline": [], "eager": []}
        for _ in range(6):
            self.disabled(False)
            series["variant"] += self.times_us(lambda: self.call(*case.inputs), 8)
            self.disabled(True)
            series["baseline"] += self.times_us(lambda: self.call(*case.inputs), 8)
            if native is not None:
                series["eager"] += self.times_us(native, 8)
        self.disabled(False)
        medians = {key: round(statistics.median(values), 2) for key, values in series.items() if values}
        row = {"case": case.label(), "us": medians, "speedup": round(medians["baseline"] / medians["variant"], 4)}
        if "eager" in medians:
            row["over_eager"] = round(medians["eager"] / medians["variant"], 4)
        print(json.dumps(row), flush=True)
        return row

    def overhead(self):
        """Host time of calls so small that the GPU keeps up."""
        types = {family: names[0] for family, names in self.op["types"].items()}
        dims = {}
        for axis in self.op["axes"]:
            if axis["kind"] == "input":
                dims[axis["name"]] = axis["in"][0] if "in" in axis else max(16, int(axis["min"]) if axis["min"].isdigit() else 16)
        case = Case(self.op, types, dims, self.scalars())
        self.disabled(False)
        figures = {"fettle": self.host_ns(lambda: self.call(*case.inputs))}
        if self.out is not None and case.outputs:
            figures["fettle, given output"] = self.host_ns(lambda: self.out(*case.inputs, *case.outputs))
        native = eager(self.name, case)
        x = case.inputs[0]
        if native is not None:
            figures["native, same operator"] = self.host_ns(native)
        figures["torch.add"] = self.host_ns(lambda: self.torch.add(x, x))
        add = self.torch.ops.aten.add.Tensor
        figures["torch.ops.aten.add"] = self.host_ns(lambda: add(x, x))
        print("host ns of a call:", json.dumps(figures), flush=True)
        return figures


def exported_speedup(manifest, target):
    ratios = [v["performance"]["ratio_declared"] or v["performance"]["ratio"] for v in manifest["variants"] if v["target"] == target]
    return max(ratios, default=0.0)


def ptx_loads(bundle, check):
    """The driver compiles every PTX object and finds its kernels."""
    manifest = json.loads((bundle / "manifest.json").read_text())
    driver = ctypes.CDLL("libcuda.so.1")
    builds = [b for kernel in manifest["variants"] + [manifest["fallback"]] for b in kernel["builds"] if b["target"].startswith("compute_")]
    for build in builds:
        text = (bundle / build["object"]["path"]).read_bytes() + b"\0"

        def load():
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            code = driver.cuModuleLoadData(ctypes.byref(module), text)
            if code != 0:
                return False, f"cuModuleLoadData: {code}"
            missing = [s for s in build["symbols"] if driver.cuModuleGetFunction(ctypes.byref(function), module, s.encode()) != 0]
            driver.cuModuleUnload(module)
            return not missing, f"{len(build['symbols'])} kernel(s)"

        check.run(f"PTX {build['object']['path']}", load)
    if not builds:
        check.add("PTX", False, "the bundle holds none")


def summarize(path):
    report = json.loads(path.read_text())
    bad = [row for row in report["checks"] if not row["passed"]]
    print(f"-- {report['op']} over the {report['abi']} interface: {len(report['checks']) - len(bad)} of {len(report['checks'])} checks; "
          f"{report['gpu']}, torch {report['torch']}")
    for row in bad:
        print(f"   FAIL {row['check']}: {row['note']}")
    for row in report["figures"]:
        print(f"   {row['case']}: {row['us']} us, {row['speedup']}x over the baseline" +
              (f", {row['over_eager']}x over eager" if "over_eager" in row else ""))
    print(f"   speed-up over the timed sizes {report['speedup']:.3f}x, exported {report['exported']:.3f}x; host ns of a call {report['host']}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bundle", type=pathlib.Path, nargs="?")
    parser.add_argument("--json", type=pathlib.Path, help="write the report")
    parser.add_argument("--ptx", type=pathlib.Path, help="a bundle with PTX, which the driver is to compile")
    parser.add_argument("--build-only", action="store_true", help="compile the operator, run nothing")
    parser.add_argument("--compare-declarations", action="store_true", help="compile against PyTorch's own header too")
    parser.add_argument("--summary", type=pathlib.Path, help="print a report that was written")
    arguments = parser.parse_args()
    if arguments.summary:
        return summarize(arguments.summary)
    if arguments.bundle is None:
        parser.error("name a bundle folder")
    bundle = arguments.bundle.resolve()
    if arguments.build_only:
        load_file(bundle / "integrations" / "torch" / "op.py", "fettle_op")
        return 0
    if arguments.compare_declarations:
        loader = load_file(bundle / "integrations" / "torch" / "loader.py", "fettle_loader")
        command = loader.compile_command("/dev/null", "stable", compare=True)
        done = subprocess.run(command[:command.index("-o")] + ["-fsyntax-only"], capture_output=True, text=True)
        print("the declarations are those of PyTorch's header" if done.returncode == 0 else done.stderr[-3000:])
        return done.returncode
    bench = Bench(bundle)
    target, rows = bench.target()
    figures = []
    for index, row in enumerate(row for row in rows if row["kind"] == "exact"):
        case = Case(bench.op, row["types"], {name: span["min"] for name, span in row["dims"].items()}, bench.scalars())
        try:
            figures.append(bench.case(case, index))
        except Exception as error:
            bench.check.add(f"size {case.label()}", False, f"{type(error).__name__}: {error}")
    host = bench.overhead()
    counts = json.loads(bench.module.statistics().splitlines()[0])
    bench.check.add("variants served the timed sizes", counts["exact"] > 0, counts)
    if arguments.ptx:
        ptx_loads(arguments.ptx.resolve(), bench.check)
    speedup = math.exp(statistics.fmean(math.log(row["speedup"]) for row in figures)) if figures else 0.0
    report = {"op": bench.name, "abi": bench.abi, "bundle": bench.manifest["bundle"]["digest"], "torch": bench.torch.__version__,
              "gpu": bench.gpu, "checks": bench.check.rows, "figures": figures, "host": host, "speedup": speedup,
              "exported": exported_speedup(bench.manifest, target)}
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    print(f"{len(bench.check.rows) - bench.check.failed()} of {len(bench.check.rows)} checks passed")
    return 1 if bench.check.failed() else 0


if __name__ == "__main__":
    sys.exit(main())
