# SPDX-License-Identifier: Apache-2.0
"""Checks and times the PyTorch operator of an exported bundle on the GPU that is here.

    python3 bench/torch_binding.py BUNDLE [--json FILE] [--rounds 30]

opcheck; results against eager PyTorch where it has the operator (else against the bundle's baseline); the kill switch; CUDA graph
capture and replay; two streams; four threads; the exported speed-up again, variant against baseline in alternating rounds with the
cache flushed between them; what a call costs the host beside a native operator. Exit code 1: a check failed.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import sys
import threading
import time

import torch

DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32,
          "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool}
TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 6e-2, torch.float32: 1e-3, torch.float64: 1e-9}


def load(bundle):
    spec = importlib.util.spec_from_file_location("fettle_op", bundle / "integrations" / "torch" / "op.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def evaluate(text, names):
    for word, by in (("&&", " and "), ("||", " or "), ("^", "**"), ("/", "//")):
        text = text.replace(word, by)
    return eval(text, {"__builtins__": {}, "min": min, "max": max, "ceil_div": lambda a, b: -(-a // b),
                       "select": lambda c, a, b: a if c else b}, names)


class Case:
    """One timed size: arguments in the order of the operator's schema."""

    def __init__(self, op, row, device, envelopes):
        self.types, self.dims = row["types"], {name: span["min"] for name, span in row["dims"].items()}
        for axis in op["axes"]:
            if axis["kind"] == "computed":
                self.dims[axis["name"]] = evaluate(axis["let"], self.dims)
        generator = torch.Generator(device=device).manual_seed(7)
        self.inputs, self.named = [], {}
        inferred = set()
        for tensor in op["tensors"]:
            if tensor["role"] == "out":
                continue
            dtype = DTYPES[self.types[tensor["dtype"][1:]] if tensor["dtype"].startswith("$") else tensor["dtype"]]
            shape = [evaluate(extent, self.dims) for extent in tensor["shape"]]
            if tensor["role"] == "index" or not dtype.is_floating_point:
                raise SystemExit(f"{op['name']}: {tensor['name']} holds indices; this script makes floating-point inputs only")
            value = torch.randn(shape, generator=generator, device=device, dtype=torch.float32).to(dtype)
            self.inputs.append(value)
            self.named[tensor["name"]] = value
            inferred.update(tensor["shape"])
        for axis in op["axes"]:
            if axis["kind"] == "input" and axis["name"] not in inferred:
                self.inputs.append(self.dims[axis["name"]])
        for scalar in op["scalars"]:
            if scalar["value"] == "argument":
                tested = envelopes[0]["scalars"][scalar["name"]]["min"]
                self.inputs.append(float(tested) if scalar["dtype"].startswith("f") else int(tested))

    def label(self):
        return " ".join([f"{k}={v}" for k, v in self.types.items()] + [f"{k}={v}" for k, v in self.dims.items()])


def eager(name, case):
    """The same by eager PyTorch, or None."""
    t = case.named
    if name in ("layernorm_fwd", "layernorm"):
        return torch.nn.functional.layer_norm(t["x"], (t["x"].shape[-1],), t["gamma"], t["beta"], 1e-5)
    if name == "matmul":
        a, b = (v for v in case.inputs if torch.is_tensor(v))
        return torch.matmul(a, b)
    if name == "softmax":
        return torch.softmax(next(v for v in case.inputs if torch.is_tensor(v)), -1)
    return None


def first(value):
    return value[0] if isinstance(value, (tuple, list)) else value


class Checks:
    def __init__(self):
        self.rows = []

    def __call__(self, what, passed, note=""):
        self.rows.append({"check": what, "passed": bool(passed), "note": str(note)})
        print(f"{'ok  ' if passed else 'FAIL'} {what} {note}", flush=True)

    def failed(self):
        return any(not row["passed"] for row in self.rows)


def close(a, b):
    bound = TOLERANCE[a.dtype] * max(1.0, float(b.float().abs().max()))
    worst = float((a.float() - b.float()).abs().max()) if a.numel() else 0.0
    return worst <= bound, f"largest difference {worst:.3g}"


def disabled(module, name, on):
    os.environ["FETTLE_DISABLE"] = name if on else ""
    module.read_switches()


def times_us(call, flush, rounds):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    out = []
    for _ in range(rounds):
        flush.zero_()
        begin.record()
        call()
        end.record()
        end.synchronize()
        out.append(begin.elapsed_time(end) * 1000)
    return out


def host_ns(call, count=2000):
    for _ in range(50):
        call()
    torch.cuda.synchronize()
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter_ns()
        for _ in range(count):
            call()
        best = min(best, (time.perf_counter_ns() - begin) / count)
        torch.cuda.synchronize()
    return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bundle", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    bundle = arguments.bundle.resolve()
    manifest = json.loads((bundle / "manifest.json").read_text())
    op, name = manifest["op"], manifest["op"]["name"]
    device = torch.device("cuda")
    torch.cuda.init()
    begin = time.monotonic()
    module = load(bundle)
    call = getattr(module, name)
    print(f"{name}: loaded and built in {time.monotonic() - begin:.1f} s; torch {torch.__version__}, {torch.cuda.get_device_name()}")
    check = Checks()
    capability = "sm_%d%d" % torch.cuda.get_device_capability()
    target = next((t for t in manifest["selection"]["targets"] if t["target"].rstrip("a") == capability), None)
    if target is None:
        raise SystemExit(f"the bundle has nothing for {capability}")
    envelopes = manifest["variants"][0]["guards"]["envelopes"]
    cases = [Case(op, row, device, envelopes) for row in target["rows"] if row["kind"] == "exact"]
    figures = []
    flush = torch.empty(256 << 20, dtype=torch.uint8, device=device)
    for case in cases:
        label = case.label()
        disabled(module, name, False)
        result = first(call(*case.inputs))
        try:
            torch.library.opcheck(call, tuple(case.inputs), test_utils=("test_schema", "test_faketensor"))
            check(f"opcheck {label}", True)
        except Exception as error:  # opcheck raises many kinds.
            check(f"opcheck {label}", False, str(error)[:300])
        disabled(module, name, True)
        fallback = first(call(*case.inputs))
        check(f"kill switch is deterministic {label}", torch.equal(fallback, first(call(*case.inputs))))
        check(f"variant against baseline {label}", *close(result, fallback))
        disabled(module, name, False)
        wanted = eager(name, case)
        if wanted is not None:
            check(f"variant against eager PyTorch {label}", *close(result, wanted))
        # Graph capture: warmed up above, replayed on changed inputs.
        graph, static = torch.cuda.CUDAGraph(), case.inputs
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            call(*static)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            captured = first(call(*static))
        static[0].mul_(0.5)
        graph.replay()
        torch.cuda.synchronize()
        check(f"graph replay {label}", torch.equal(captured, first(call(*static))))
        static[0].mul_(2.0)
        # Streams and threads give the same bits as one call.
        streams = [torch.cuda.Stream() for _ in range(2)]
        outs = []
        for stream in streams:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                outs.append(first(call(*case.inputs)))
        torch.cuda.synchronize()
        check(f"two streams {label}", all(torch.equal(out, result) for out in outs))
        got = [None] * 4

        def work(i):
            with torch.cuda.stream(torch.cuda.Stream()):
                got[i] = first(call(*case.inputs))
                torch.cuda.current_stream().synchronize()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check(f"four threads {label}", all(out is not None and torch.equal(out, result) for out in got))
        # Alternating rounds: variant, baseline, eager.
        series = {"variant": [], "baseline": [], "eager": []}
        for _ in range(4):
            disabled(module, name, False)
            series["variant"] += times_us(lambda: call(*case.inputs), flush, arguments.rounds // 4 + 1)
            disabled(module, name, True)
            series["baseline"] += times_us(lambda: call(*case.inputs), flush, arguments.rounds // 4 + 1)
            if wanted is not None:
                series["eager"] += times_us(lambda: eager(name, case), flush, arguments.rounds // 4 + 1)
        disabled(module, name, False)
        medians = {key: statistics.median(values) for key, values in series.items() if values}
        row = {"case": label, "us": medians, "speedup_over_baseline": medians["baseline"] / medians["variant"]}
        if "eager" in medians:
            row["speedup_over_eager"] = medians["eager"] / medians["variant"]
        figures.append(row)
        print(json.dumps(row), flush=True)
    overhead = {"fettle_ns": host_ns(lambda: call(*cases[0].inputs)), "native_add_ns": host_ns(lambda: torch.add(cases[0].inputs[0], 1))}
    print("host time of a call:", json.dumps(overhead))
    counts = json.loads(module.statistics().splitlines()[0])
    check("variants served the timed sizes", counts["exact"] > 0, counts)
    exported = {v["id"]: v["performance"]["ratio_declared"] or v["performance"]["ratio"] for v in manifest["variants"]}
    report = {"op": name, "bundle": manifest["bundle"]["digest"], "torch": torch.__version__, "gpu": torch.cuda.get_device_name(),
              "checks": check.rows, "figures": figures, "host": overhead, "exported_speedups": exported}
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    return 1 if check.failed() else 0


if __name__ == "__main__":
    sys.exit(main())
