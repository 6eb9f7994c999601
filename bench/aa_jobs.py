# SPDX-License-Identifier: Apache-2.0
"""False wins in live jobs: every candidate is the baseline in disguise (bench/tasks/disguised).

    bench/run aa_jobs [--jobs 100] [--candidates 20] [--target cpu]

Prints how many jobs accepted anything. The right number is 0.
"""
import argparse
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "e2e"))
from fettle_process import Fettle, SOURCE  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--target", default="cpu")
    arguments = parser.parse_args()
    fettle = Fettle()
    false_wins = judged = contenders = 0
    begin = time.monotonic()
    try:
        fettle.start()
        for number in range(1, arguments.jobs + 1):
            job = fettle.json("submit", SOURCE / "bench" / "tasks" / "disguised", "--target",
                              arguments.target, "--candidates", arguments.candidates, "--seed",
                              number, "--no-watch")
            fettle.until(lambda: fettle.json("jobs", job["id"])["state"] in
                         ("succeeded", "failed", "cancelled"), 600, "a job to end", pause=0.5)
            end = fettle.json("jobs", job["id"])
            if end["state"] != "succeeded":
                raise SystemExit(f"job {number} ended as {end['state']}: {end.get('message')}")
            rows = fettle.json("candidates", job["id"])
            judged += len(rows)
            contenders += sum(r["verdict"].get("stage") == "confirm" for r in rows)
            wins = sum(r["verdict"]["verdict"] == "WIN" for r in rows)
            false_wins += wins > 0
            if wins:
                print(f"job {number}: {wins} false wins", flush=True)
    finally:
        fettle.close()
    seconds = time.monotonic() - begin
    print(f"jobs {arguments.jobs}  candidates {judged}  confirmations {contenders}  "
          f"jobs with a false win {false_wins}  {seconds:.0f} s")
    return 1 if false_wins else 0


if __name__ == "__main__":
    sys.exit(main())
