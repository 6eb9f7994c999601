# SPDX-License-Identifier: Apache-2.0
"""What server and worker add to compiling and running: one long job on one target.

    bench/run overhead [--task histogram] [--target cpu] [--candidates 200]

Units say what they did and for how long. Whatever part of the job's time no unit spent on compiling, on its
runner or on its reference is overhead: proposing, leasing, storing, starting processes, and waiting for
each other.
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "e2e"))
from fettle_process import Fettle, SOURCE  # noqa: E402

# Waiting for the device, and starting the processes that run a unit.
NOT_BUSY = ("waiting", "preparing")


def busy_intervals(fettle, job_id):
    """[begin, end] in seconds of everything that units did but wait, from the end of each backwards."""
    intervals = []
    for stored_ns, result in fettle.results(job_id):
        end = stored_ns / 1e9
        for stage in reversed(result["environment"].get("stages", [])):
            begin = end - stage["ms"] / 1e3
            if not stage["doing"].startswith(NOT_BUSY):
                intervals.append((begin, end))
            end = begin
    return sorted(intervals)


def union(intervals):
    covered, reached = 0.0, float("-inf")
    for begin, end in intervals:
        covered += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return covered


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", default="histogram")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--candidates", type=int, default=200)
    arguments = parser.parse_args()
    fettle = Fettle()
    try:
        fettle.start()
        job = fettle.json("submit", SOURCE / "tasks" / arguments.task, "--target", arguments.target,
                          "--candidates", arguments.candidates, "--seed", 7, "--no-watch")
        fettle.until(lambda: fettle.json("jobs", job["id"])["state"] in
                     ("succeeded", "failed", "cancelled"), 3600, "the job to end", pause=2)
        end = fettle.json("jobs", job["id"])
        intervals = busy_intervals(fettle, job["id"])
        whole = max(e for _, e in intervals) - min(b for b, _ in intervals)
        busy = union(intervals)
        print(f"{arguments.task} on {arguments.target}: {end['state']}, {end['candidate_count']} candidates "
              f"in {whole:.1f} s; compiling and running {busy:.1f} s; overhead "
              f"{100 * (whole - busy) / busy:.1f} %")
    finally:
        fettle.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
