#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures of a fleet on a Slurm cluster on loopback whose workers only wait (tests/fleet):
   bench/fleet.py [--nodes 32] [--gpus 8] [--unit-ms 1000] [--slots 2] [--seconds 60]
Prints latency from a unit's row to its lease, leases per second, how busy the workers are, the
server's memory and processor time, and how soon leases come back. Needs root and Debian's Slurm."""
import argparse
import os
import pathlib
import signal
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "fleet"), str(ROOT / "tests" / "e2e")]
import fleet_test  # noqa: E402


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


def status(pid):
    memory = {}
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(("VmRSS", "VmHWM")):
            memory[line.split(":")[0]] = int(line.split()[1]) / 1024
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return memory, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bench(fleet_test.FleetTest):
    options = None

    def setUp(self):
        fleet_test.NODES, fleet_test.GPUS = self.options.nodes, self.options.gpus
        super().setUp()

    def runTest(self):
        options = self.options
        places = options.nodes * options.gpus
        self.start(unit_ms=options.unit_ms, width=places, idle_s=300,
                   more=f"    arguments: [--slots, {options.slots}]\n")
        begin = time.time()
        job_id = self.submit(1_000_000, "--option", "roofline_stop=0")
        wanted = places if options.unit_ms else 1

        def connected():
            return len({row[3] for row in self.begun()}) >= wanted
        self.fettle.until(connected, 300, f"{wanted} workers", pause=0.2)
        print(f"{wanted} of {places} workers at work {time.time() - begin:.1f} s after the submission")
        time.sleep(5)
        start, (_, cpu) = time.time(), status(self.fettle.server.pid)
        time.sleep(options.seconds)
        end, (memory, cpu_end) = time.time(), status(self.fettle.server.pid)
        rows = self.rows("SELECT created_ns, leased_ns, ended_ns FROM units WHERE job_id = ? AND "
                         "state = 'done' AND leased_ns > ? AND ended_ns < ?", job_id,
                         int(start * 1e9), int(end * 1e9))
        span = end - start
        print(f"units done: {len(rows)} in {span:.1f} s = {len(rows) / span:.1f}/s; "
              f"a perfect fleet: {places * 1000 / max(options.unit_ms, 1):.1f}/s")
        if options.unit_ms:
            print(f"busy: {100 * len(rows) * options.unit_ms / 1000 / span / places:.1f} %")
        held = [(row[2] - row[1]) / 1e6 for row in rows]
        print(f"lease to stored result: p50 {percentile(held, 0.5):.1f} ms, p99 {percentile(held, 0.99):.1f} ms")
        waits = [(row[1] - row[0]) / 1e6 for row in rows]
        print(f"row to lease: p50 {percentile(waits, 0.5):.2f} ms, p99 {percentile(waits, 0.99):.2f} ms")
        print(f"server: {memory['VmRSS']:.0f} MB, at most {memory['VmHWM']:.0f} MB; "
              f"{100 * (cpu_end - cpu) / span:.0f} % of a core")
        if options.unit_ms:
            self.deaths(job_id, signal.SIGKILL, 8)
            self.deaths(job_id, signal.SIGSTOP, 4)
        self.fettle.run("cancel", job_id)

    def deaths(self, job_id, how, count):
        times = []
        for _ in range(count):
            latest = {row[3]: row for row in self.begun() if pathlib.Path(f"/proc/{row[3]}").exists()}
            if not latest:
                time.sleep(1)
                continue
            victim = max(latest.values(), key=lambda row: row[2])
            unit, attempt = victim[0], victim[1]
            before = time.time()
            os.kill(victim[3], how)

            def back():
                return self.rows("SELECT ended_ns FROM units WHERE id = ? AND attempt = ? AND "
                                 "state = 'returned'", unit, attempt)
            try:
                self.fettle.until(back, 20, "the lease", pause=0.05)
            except AssertionError:
                continue  # It was done a moment before.
            finally:
                if how == signal.SIGSTOP:
                    os.kill(victim[3], signal.SIGKILL)
            times.append(back()[0][0] / 1e6 - before * 1e3)
        if not times:
            print(f"{how.name}: no worker held a unit")
            return
        print(f"{how.name}: lease back after p50 {statistics.median(times):.1f} ms, "
              f"at most {max(times):.1f} ms ({len(times)} workers)")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--unit-ms", type=int, default=1000)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60)
    Bench.options = parser.parse_args()
    import unittest
    result = unittest.TextTestRunner(verbosity=0).run(Bench())
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
