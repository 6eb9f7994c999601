#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures of a fleet whose workers only wait (tests/fleet):
   bench/fleet.py [--nodes 32] [--gpus 8] [--unit-ms 1000] [--slots 2] [--seconds 60]
   bench/fleet.py --without-slurm [--workers 256] [--processes 8] ...
Prints latency from a unit's row to its lease (its own row not yet on the disk) and to the worker that
has it (both are), whole candidates per second (row, lease, result and verdict, all durable),
how busy the workers are, the server's memory and processor time, and how soon leases come back.
Workers come from a Slurm cluster on loopback (needs root and Debian's Slurm), or a few processes
hold them all, each with a TLS connection of its own: what the server costs is the same."""
import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "fleet"), str(ROOT / "tests" / "e2e")]
import fleet_test  # noqa: E402


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


def spread(values):
    return f"p50 {percentile(values, 0.5):.2f} ms, p99 {percentile(values, 0.99):.2f} ms"


def status(pid):
    memory = {}
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(("VmRSS", "VmHWM")):
            memory[line.split(":")[0]] = int(line.split()[1]) / 1024
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return memory, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def sync_times(folder):
    """What one fsync costs here, in ms: the least that a durable row waits for."""
    times = []
    with open(folder / "probe", "wb", buffering=0) as probe:
        for _ in range(200):
            probe.write(bytes(8192))
            begin = time.perf_counter()
            os.fdatasync(probe.fileno())
            times.append((time.perf_counter() - begin) * 1e3)
    return times


class SlurmFleet(fleet_test.FleetTest):
    options = None

    def setUp(self):
        fleet_test.NODES, fleet_test.GPUS = self.options.nodes, self.options.gpus
        super().setUp()

    def places(self):
        return self.options.nodes * self.options.gpus

    def begin(self):
        self.start(unit_ms=self.options.unit_ms, width=self.places(), idle_s=300,
                   more=f"    arguments: [--slots, {self.options.slots}]\n")

    def connected(self):
        wanted = self.places() if self.options.unit_ms else 1
        return len({row[3] for row in self.begun()}) >= wanted

    def runTest(self):
        options, places = self.options, self.places()
        self.begin()
        begin = time.time()
        job_id = self.submit(1_000_000, "--option", "roofline_stop=0")
        self.fettle.until(self.connected, 300, f"{places} workers", pause=0.2)
        print(f"{places} workers at work {time.time() - begin:.1f} s after the submission")
        time.sleep(options.settle)
        start, (_, cpu) = time.time(), status(self.fettle.server.pid)
        time.sleep(options.seconds)
        end, (memory, cpu_end) = time.time(), status(self.fettle.server.pid)
        done = self.rows("SELECT id, attempt, created_ns, leased_ns, ended_ns FROM units WHERE job_id = ? "
                         "AND state = 'done' AND ended_ns BETWEEN ? AND ?", job_id, int(start * 1e9),
                         int(end * 1e9))
        rows = [row for row in done if row[2] > start * 1e9]
        span = end - start
        print(f"units done: {len(done)} in {span:.1f} s = {len(done) / span:.1f}/s; "
              f"a perfect fleet: {places * 1000 / max(options.unit_ms, 1):.1f}/s")
        if options.unit_ms:
            print(f"busy: {100 * len(done) * options.unit_ms / 1000 / span / places:.1f} %")
        print(f"lease to stored result: {spread([(row[4] - row[3]) / 1e6 for row in rows])}")
        print(f"row to lease: {spread([(row[3] - row[2]) / 1e6 for row in rows])}")
        came = {row[:2]: row[6] for row in self.begun()}
        waits = [came[row[:2]] * 1e3 - row[2] / 1e6 for row in rows if row[:2] in came]
        print(f"row to its arrival at the worker: {spread(waits)}")
        print(f"fdatasync of 8 KiB in {self.fettle.home.parent}: {spread(sync_times(self.fettle.home))}")
        print(f"server: {memory['VmRSS']:.0f} MB, at most {memory['VmHWM']:.0f} MB; "
              f"{100 * (cpu_end - cpu) / span:.0f} % of a core")
        if options.unit_ms:
            self.deaths(job_id, signal.SIGKILL, options.deaths)
            self.deaths(job_id, signal.SIGSTOP, options.deaths)
        self.fettle.run("cancel", job_id)

    def victims(self):
        """Worker processes of the units that began last."""
        latest = {row[3]: row for row in self.begun() if pathlib.Path(f"/proc/{row[3]}").exists()}
        return sorted(latest.values(), key=lambda row: -row[2])

    def deaths(self, job_id, how, count):
        times, elsewhere = [], []
        for _ in range(count):
            victims = self.victims()
            if not victims:
                time.sleep(1)
                continue
            unit, attempt, _, pid = victims[0][:4]
            before = time.time()
            os.kill(pid, how)

            def back():
                return self.rows("SELECT ended_ns FROM units WHERE id = ? AND attempt = ? AND "
                                 "state = 'returned'", unit, attempt)
            try:
                self.fettle.until(back, 20, "the lease", pause=0.05)
            except AssertionError:
                continue  # It was done a moment before.
            finally:
                if how == signal.SIGSTOP:
                    os.kill(pid, signal.SIGKILL)
            times.append(back()[0][0] / 1e6 - before * 1e3)

            def again():
                return [row for row in self.begun() if row[0] == unit and row[1] > attempt]
            try:
                self.fettle.until(again, 30, "the unit on another worker", pause=0.05)
            except AssertionError:
                continue  # Its job had enough.
            elsewhere.append(again()[0][2] * 1e3 - before * 1e3)
        if not times:
            print(f"{how.name}: no worker held a unit")
            return
        print(f"{how.name}: lease back after p50 {statistics.median(times):.1f} ms, "
              f"at most {max(times):.1f} ms ({len(times)} workers)")
        if elsewhere:
            print(f"{how.name}: the unit runs on another worker after p50 {statistics.median(elsewhere):.1f} ms, "
                  f"at most {max(elsewhere):.1f} ms ({len(elsewhere)} units)")


class LocalFleet(SlurmFleet):
    __unittest_skip__ = False  # Where there is no Slurm.

    def setUp(self):
        self.fettle = fleet_test.Fettle()
        self.addCleanup(self.fettle.close)
        self.log = self.fettle.home / "units.log"
        self.port = fleet_test.free_ports(1)

    def places(self):
        return self.options.workers + self.singles()

    def singles(self):
        """Workers with a process of their own, to be killed."""
        return 2 * self.options.deaths if self.options.unit_ms else 0

    def begin(self):
        options = self.options
        certificate, key = self.certificate()
        self.fettle.start("--no-worker", "--http", "off", "--listen", f"localhost:{self.port}",
                          "--tls-certificate", certificate, "--tls-key", key)
        env = dict(self.fettle.env, FETTLE_ENDPOINT=f"localhost:{self.port}",
                   FETTLE_CA_FILE=str(certificate),
                   FETTLE_TOKEN_FILE=str(self.fettle.data / "worker.token"),
                   FETTLE_STAND_IN_MS=str(options.unit_ms), FETTLE_STAND_IN_LOG=str(self.log))
        share = -(-options.workers // options.processes)
        counts = [min(share, options.workers - at) for at in range(0, options.workers, share)]
        self.alone = set()
        for count in counts + [1] * self.singles():
            process = subprocess.Popen([fleet_test.STAND_IN, "worker", "--slots", str(options.slots),
                                        "--workers", str(count)], env=env, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            if count == 1:
                self.alone.add(process.pid)
        self.fettle.until(lambda: self.fettle.log.read_text().count("worker_connected") >= self.places(), 60,
                          f"{self.places()} workers to connect", pause=0.5)

    def connected(self):
        return bool(self.begun())

    def victims(self):
        alive = [row for row in super().victims() if row[3] in self.alone]
        if alive:
            self.alone.discard(alive[0][3])
        return alive


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--without-slurm", action="store_true")
    parser.add_argument("--workers", type=int, default=256, help="without Slurm")
    parser.add_argument("--processes", type=int, default=8, help="that hold them")
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--unit-ms", type=int, default=1000)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--settle", type=float, default=5, help="seconds before the figures begin")
    parser.add_argument("--deaths", type=int, default=4, help="workers to kill, and to stop")
    options = SlurmFleet.options = parser.parse_args()
    test = LocalFleet() if options.without_slurm else SlurmFleet()
    result = unittest.TextTestRunner(verbosity=0).run(test)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
