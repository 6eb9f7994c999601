# SPDX-License-Identifier: Apache-2.0
"""How fast candidates are judged on a GPU, beside an evaluation through PyTorch's load_inline.

    bench/run source_to_verdict [--target sm_90a] [--without job|inline|single ...] [--out FILE.json]

single  one candidate of layernorm (16384x4096 fp32) at a time, new and compiled before
        (bench/run trust_figures --parts source)
job     a space of 90 configurations of it, five checked cases, from submit to end: candidates a second, how much of the time the device
        was in use, where the units' time went, and what no unit spent on compiling, its reference or the device
inline  the same kernel as a script around load_inline evaluates it: compile, five trials checked by allclose,
        100 launches timed by events
"""
import argparse
import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "tests" / "e2e"))
from fettle_process import Fettle  # noqa: E402

WAITING = ("waiting",)
OFF_DEVICE = ("compiling", "computing the reference", "checking on the cpu")


def spans(fettle, job_id):
    """(what a unit did, begin, end) in seconds, from the end of each unit backwards."""
    for stored_ns, result in fettle.results(job_id):
        end = stored_ns / 1e9
        for stage in reversed(result["environment"].get("stages", [])):
            begin = end - stage["ms"] / 1e3
            yield stage["doing"], begin, end
            end = begin


def union(intervals):
    covered, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        covered += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return covered


def space_of_90(folder):
    """tasks/layernorm in fp32 alone, with one value more for VEC: 18 shapes of a block times five."""
    shutil.copytree(SOURCE / "tasks" / "layernorm", folder)
    lines = [line for line in (folder / "task.yaml").read_text().splitlines() if "for: gpu, T: f16" not in line]
    text = re.sub(r"T: b?f16", "T: f32", "\n".join(lines) + "\n")
    text = text.replace("{T: [f16, bf16, f32]}", "{T: [f32]}").replace("VEC: [1, 2, 4, 8]", "VEC: [1, 2, 4, 8, 16]")
    assert "16]" in text and "f16" not in text
    (folder / "task.yaml").write_text(text)


def job(target, candidates=90):
    fettle = Fettle()
    try:
        fettle.start()
        folder = pathlib.Path(tempfile.mkdtemp()) / "layernorm"
        space_of_90(folder)
        begin = time.monotonic()
        made = fettle.json("submit", folder, "--target", target, "--candidates", candidates, "--seed", 7, "--no-watch")
        fettle.until(lambda: fettle.json("jobs", made["id"])["state"] in ("succeeded", "failed", "cancelled"),
                     600, "the job to end", pause=0.1)
        whole = time.monotonic() - begin
        end = fettle.json("jobs", made["id"])
        results = list(fettle.results(made["id"]))
        all_spans = list(spans(fettle, made["id"]))
        # From the first candidate's compile to the last candidate's verdict: registration is before it.
        compiles = [b for doing, b, _ in all_spans if doing == "compiling"]
        registered = results[0][0] / 1e9
        first = min([b for b in compiles if b >= registered] or compiles)
        evaluated = [stored / 1e9 for stored, result in results[1:] if result["environment"].get("stages")]
        last = max(evaluated)
        screened = sorted(stored / 1e9 for stored, result in results[1:] if result.get("screening"))
        device = [(b, e) for doing, b, e in all_spans if not doing.startswith(WAITING + OFF_DEVICE) and e > first]
        busy = [(b, e) for doing, b, e in all_spans if not doing.startswith(WAITING + ("preparing",)) and e > first]
        spent = collections.Counter()
        for doing, b, e in all_spans:
            spent[doing.split(" timed/")[0].split(" checked/")[0]] += e - b
        row = {"state": end["state"], "candidates": int(end.get("candidate_count", end.get("candidateCount", 0))),
               "message": end.get("message", ""), "submit_to_end_s": whole, "first_to_last_s": last - first,
               "first_to_last_screened_s": screened[-1] - first if screened else None, "screened": len(screened),
               "device_share": union(device) / (last - first), "overhead": 1 - union(busy) / (last - first),
               "seconds_by_stage": dict(spent.most_common()),
               "units": [[stored / 1e9 - first, (result.get("verdict") or {}).get("verdict", "-"),
                          [[stage["doing"], round(stage["ms"], 1)] for stage in result["environment"].get("stages", [])]]
                         for stored, result in results]}
        print(f"job: {row['state']}, {row['candidates']} candidates in {whole:.1f} s from submit to end "
              f"({row['candidates'] / whole:.1f}/s); from the first compile to the last verdict {last - first:.1f} s "
              f"({row['candidates'] / (last - first):.1f}/s; target 25); to the last one screened "
              f"{row['first_to_last_screened_s'] or 0:.1f} s; device in use {100 * row['device_share']:.0f} % (target 60); "
              f"neither compiling nor on the device {100 * row['overhead']:.1f} % (target below 10)")
        for doing, seconds in spent.most_common(14):
            print(f"  {seconds:8.2f} s {doing}")
        return row
    finally:
        fettle.close()


def inline():
    """One evaluation, as scripts around load_inline do it."""
    import torch
    from torch.utils.cpp_extension import load_inline
    kernel = (SOURCE / "tasks" / "layernorm" / "kernel.cu").read_text()
    launcher = """
#include <torch/extension.h>
torch::Tensor forward(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta) {
  auto y = torch::empty_like(x);
  int rows = x.size(0), cols = x.size(1);
  layernorm_fwd<float><<<dim3((rows + ROWS - 1) / ROWS), dim3(BLOCK, ROWS)>>>(
      x.data_ptr<float>(), gamma.data_ptr<float>(), beta.data_ptr<float>(), y.data_ptr<float>(), rows, cols, 1e-5f);
  return y;
}
"""
    begin = time.monotonic()
    module = load_inline(name=f"layernorm_{int(time.time())}", cpp_sources="torch::Tensor forward(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta);",
                         cuda_sources="#define BLOCK 256\n#define ROWS 1\n#define VEC 4\n" + kernel + launcher, functions=["forward"])
    compiled = time.monotonic()
    shape = (16384, 4096)
    for seed in range(5):
        torch.manual_seed(seed)
        x, gamma, beta = torch.randn(shape, device="cuda"), torch.rand(shape[1], device="cuda"), torch.rand(shape[1], device="cuda")
        expected = torch.nn.functional.layer_norm(x, shape[1:], gamma, beta)
        assert torch.allclose(module.forward(x, gamma, beta), expected, atol=1e-2, rtol=1e-2)
    times = []
    for _ in range(100):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        module.forward(x, gamma, beta)
        b.record()
        torch.cuda.synchronize()
        times.append(a.elapsed_time(b))
    ended = time.monotonic()
    row = {"compile_s": compiled - begin, "whole_s": ended - begin, "median_us": 1e3 * sorted(times)[50]}
    print(f"load_inline: {row['whole_s']:.1f} s, of which compiling {row['compile_s']:.1f} s ({row['median_us']:.0f} us a call)")
    return row


def single(target, device):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        ran = subprocess.run([SOURCE / "bench" / "run", "trust_figures", "--device", device, "--parts", "source", "--minutes", "1",
                              "--out", out], cwd=SOURCE, text=True, stdout=subprocess.PIPE)
        print(ran.stdout)
        return json.loads(out.read_text())["source"] if out.exists() else {"error": ran.returncode}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--without", nargs="*", default=[], choices=["job", "inline", "single"])
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    report = {}
    for part, run in (("job", lambda: job(arguments.target)), ("single", lambda: single(arguments.target, arguments.device)),
                      ("inline", inline)):
        if part in arguments.without:
            continue
        try:
            report[part] = run()
        except Exception as error:  # The other parts go on.
            report[part] = {"error": str(error)[-2000:]}
            print(f"{part}: {report[part]['error']}")
        if arguments.out:
            arguments.out.write_text(json.dumps(report, indent=1))
    return 1 if any("error" in row for row in report.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
