# SPDX-License-Identifier: Apache-2.0
"""The main job through the real programs: submit, crash, resume, accept, export, verify."""
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import unittest

from fettle_process import BIN, Fettle, SOURCE

LAYERNORM = SOURCE / "tasks" / "layernorm"


def children(pid):
    """Process ids of all descendants."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found += [int(entry.name)] + children(int(entry.name))
    return found


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


class MainJob(unittest.TestCase):
    def setUp(self):
        self.fettle = Fettle()
        self.addCleanup(self.fettle.close)

    def submit(self, candidates=6, task=LAYERNORM, **more):
        job = self.fettle.json("submit", task, "--target", "cpu", "--candidates", candidates,
                               "--no-watch", **more)
        return job["id"]

    def job(self, job_id):
        return self.fettle.json("jobs", job_id)

    def candidates(self, job_id):
        return self.fettle.json("candidates", job_id)

    def wait_for_end(self, job_id, seconds=240):
        def ended():
            return self.job(job_id)["state"] in ("succeeded", "failed", "cancelled")
        self.fettle.until(ended, seconds, f"job {job_id} to end")
        return self.job(job_id)

    def test_submit_to_verified_bundle(self):
        self.fettle.start()
        job = self.wait_for_end(self.submit(candidates=12))
        self.assertEqual(job["state"], "succeeded", job)
        rows = self.candidates(job["id"])
        self.assertGreaterEqual(len(rows), 1)
        self.assertEqual(len({row["digest"] for row in rows}), len(rows), "a candidate ran twice")
        self.assertTrue(all(row["verdict"] for row in rows))
        variants = self.fettle.json("variants")
        wins = [row for row in rows if row["verdict"]["verdict"] == "WIN"]
        self.assertEqual(len([v for v in variants]), len(wins))
        if not variants:  # A machine on which the declared configuration is the best one.
            self.skipTest("no candidate beat the declared configuration on this machine")
        best = next(v for v in variants if v["status"] == "accepted")
        out = self.fettle.home / "bundle"
        self.fettle.run("export", best["id"], "--out", out, check=True)
        self.fettle.run("verify", out, check=True)
        for command in (["jobs"], ["jobs", job["id"]], ["candidates", job["id"]], ["variants"], ["workers"],
                        ["show", best["id"]], ["show", rows[0]["digest"], "--job", job["id"]],
                        ["verify", out]):
            for line in self.fettle.run(*command, check=True).stdout.splitlines():
                self.assertLessEqual(len(line), 80, f"{command}: {line}")
        (out / "manifest.json").write_text((out / "manifest.json").read_text() + " ")
        self.assertEqual(self.fettle.run("verify", out).returncode, 1)

    def crash(self, which, victims):
        """Runs a job, kills what `victims` names at several moments, and expects a whole job."""
        self.fettle.start()
        job_id = self.submit(candidates=8)
        for wanted in (1, 3):
            self.fettle.until(lambda: len(self.candidates(job_id)) >= wanted or
                              self.job(job_id)["state"] != "running", 120, f"{wanted} candidates")
            victims()
        job = self.wait_for_end(job_id)
        self.assertEqual(job["state"], "succeeded", job)
        rows = self.candidates(job_id)
        self.assertEqual(sorted(int(r["ordinal"]) for r in rows), list(range(1, len(rows) + 1)))
        self.assertEqual(len({r["digest"] for r in rows}), len(rows))
        self.assertLessEqual(len(rows), 8, "the budget was exceeded")
        self.assertEqual(int(job["spent"]["candidates"]), len(rows))

    def test_survives_kill_9_of_server_and_worker(self):
        def restart():
            before = {v["id"] for v in self.fettle.json("variants")}
            self.fettle.stop(signal.SIGKILL)
            self.fettle.start()
            after = {v["id"] for v in self.fettle.json("variants")}
            self.assertLessEqual(before, after, "an accepted variant was lost")
        self.crash("server", restart)

    def test_survives_kill_9_of_the_worker(self):
        def kill_worker():
            for pid in children(self.fettle.server.pid):
                if b"worker" in command_line(pid)[1:2]:
                    os.kill(pid, signal.SIGKILL)
        self.crash("worker", kill_worker)

    def test_cancel_and_resume(self):
        self.fettle.start()
        job_id = self.submit(candidates=8)
        self.fettle.until(lambda: len(self.candidates(job_id)) >= 1, 120, "a candidate")
        self.fettle.run("cancel", job_id, check=True)
        self.assertEqual(self.wait_for_end(job_id, 30)["state"], "cancelled")
        done = len(self.candidates(job_id))
        self.fettle.run("resume", job_id, "--no-watch", check=True)
        self.assertEqual(self.wait_for_end(job_id)["state"], "succeeded")
        self.assertGreaterEqual(len(self.candidates(job_id)), done)

    def test_stops_within_two_seconds_with_a_job_running(self):
        self.fettle.start()
        job_id = self.submit(candidates=20)
        watch = subprocess.Popen([BIN / "fettle", "watch", job_id], env=self.fettle.env,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(watch.stdout.close)
        self.addCleanup(watch.kill)
        self.fettle.until(lambda: len(self.candidates(job_id)) >= 1, 120, "a candidate")
        pid = self.fettle.server.pid
        import time
        begin = time.monotonic()
        self.assertEqual(self.fettle.stop(signal.SIGTERM), 0)
        self.assertLess(time.monotonic() - begin, 4)
        self.assertEqual(children(pid), [])
        watch.kill()
        watch.wait()

    def test_an_a_a_run_keeps_what_it_counted_when_it_is_killed(self):
        # Figures of its own: other suites expect a device that none were taken of.
        self.fettle.env["XDG_CACHE_HOME"] = str(self.fettle.home / "cache")

        def counted():
            devices = self.fettle.json("doctor")["devices"]
            found = re.search(r"among (\d+) candidates", devices[0].get("aa", ""))
            return int(found[1]) if found else 0

        run = subprocess.Popen(
            [BIN / "fettle", "doctor", "--aa", "--target", "cpu", "--candidates", "500"],
            env=self.fettle.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        before = 0
        try:
            before = counted()
            self.fettle.until(lambda: counted() >= before + 2, 120, "two candidates")
        finally:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        self.assertGreaterEqual(counted(), before + 2)

    def test_two_servers_on_one_data_folder(self):
        self.fettle.start()
        second = subprocess.run([BIN / "fettle", "serve", "--data-dir", self.fettle.data],
                                env=self.fettle.env, stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, timeout=30)
        self.assertEqual(second.returncode, 3)
        self.assertEqual(len(second.stderr.strip().splitlines()), 1, second.stderr)
        self.assertEqual(self.fettle.run("jobs").returncode, 0)
        collected = self.fettle.run("gc")
        self.assertEqual(collected.returncode, 3, collected.stderr)
        self.assertIn("in use", collected.stderr)

    def test_a_data_folder_from_a_newer_version(self):
        self.fettle.start()
        self.fettle.stop()
        database = next(self.fettle.data.glob("*.db"))
        with sqlite3.connect(database) as connection:
            connection.execute("PRAGMA user_version = 999999")
        connection.close()
        before = database.read_bytes()
        refused = subprocess.run([BIN / "fettle", "serve", "--data-dir", self.fettle.data],
                                 env=self.fettle.env, stdin=subprocess.DEVNULL, capture_output=True,
                                 text=True, timeout=30)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("newer", refused.stderr)
        self.assertEqual(database.read_bytes(), before)


class FurtherKernels(unittest.TestCase):
    def test_stream_k_of_the_gemm_is_right(self):
        fettle = Fettle()
        self.addCleanup(fettle.close)
        done = fettle.run("try", LAYERNORM.parent / "gemm", "--target", "cpu", "--verify-only", "--kernel",
                          LAYERNORM.parents[1] / "bench" / "external" / "stream_k" / "gemm.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("right; not measured", done.stdout + done.stderr)


class BadTasks(unittest.TestCase):
    def setUp(self):
        self.fettle = Fettle()
        self.addCleanup(self.fettle.close)

    def copy(self, change):
        folder = self.fettle.home / "task"
        folder.mkdir()
        for path in LAYERNORM.iterdir():
            (folder / path.name).write_text(path.read_text())
        change(folder)
        return folder

    def check(self, change):
        return self.fettle.run("check", self.copy(change))

    def edit(self, old, new):
        def change(folder):
            text = (folder / "task.yaml").read_text()
            self.assertIn(old, text)
            (folder / "task.yaml").write_text(text.replace(old, new, 1))
        return change

    def assert_named(self, done, *words):
        self.assertIn(done.returncode, (1, 2), done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stdout + done.stderr)

    def test_a_missing_field(self):
        self.assert_named(self.check(self.edit("reference:", "referenze:")), "task.yaml:", "reference")

    def test_an_unknown_dtype(self):
        self.assert_named(self.check(self.edit("bf16", "bf17")), "task.yaml:", "bf17")

    def test_division_by_zero(self):
        self.assert_named(self.check(self.edit("ceil_div(rows, ROWS)", "rows/(rows-rows)")), "zero")

    def test_overflow(self):
        self.assert_named(self.check(self.edit("ceil_div(rows, ROWS)", "(rows+2)^62*4")), "overflow")

    def test_a_source_that_does_not_compile(self):
        def change(folder):
            path = folder / "kernel.cu"
            path.write_text(path.read_text() + "\nint broken(\n")
        self.assert_named(self.check(change), "kernel.cu")

    def test_a_reference_that_crashes(self):
        def change(folder):
            path = folder / "reference.cc"
            path.write_text(path.read_text() +
                            "\n__attribute__((constructor)) static void f() { *(volatile int*)8 = 1; }\n")
        self.assert_named(self.check(change), "reference")

    def test_a_symlink_loop(self):
        def change(folder):
            (folder / "loop").symlink_to(folder)
        self.assert_named(self.check(change), "loop")

    def test_sizes_beyond_memory(self):
        change = self.edit("cases:\n  timed:",
                           "cases:\n  timed:\n    - {T: f32, rows: 1048576, cols: 16384}")
        def both(folder):
            change(folder)
            text = (folder / "task.yaml").read_text()
            lines = [line for line in text.splitlines() if not line.startswith("valid:")]
            (folder / "task.yaml").write_text("\n".join(lines) + "\n")
        done = self.check(both)
        self.assertIn(done.returncode, (1, 2, 3), done.stdout + done.stderr)
        for word in ("memory", "rows=1048576", "smaller"):
            self.assertIn(word, done.stdout + done.stderr)


@unittest.skipUnless(os.geteuid() == 0, "mounting a small file system needs root")
class FullDisk(unittest.TestCase):
    def test_a_full_disk_loses_nothing(self):
        fettle = Fettle()
        self.addCleanup(fettle.close)
        fettle.data.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "none", fettle.data],
                                 capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest(f"cannot mount a small file system here: {mounted.stderr.strip()}")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", fettle.data]))
        fettle.start()
        job = fettle.json("submit", LAYERNORM, "--target", "cpu", "--candidates", 4, "--no-watch")
        fettle.until(lambda: len(fettle.json("candidates", job["id"])) >= 1, 120, "a candidate")
        rows = {r["digest"] for r in fettle.json("candidates", job["id"]) if r["verdict"]}
        filler = fettle.data / "filler"
        with open(filler, "wb", buffering=0) as out:
            try:
                while True:
                    out.write(b"\0" * 4096)
            except OSError:
                pass
        refused = fettle.run("submit", SOURCE / "tasks" / "histogram", "--target", "cpu",
                             "--candidates", 2, "--no-watch")
        self.assertNotEqual(refused.returncode, 0)
        self.assertRegex(refused.stderr.lower(), "full|space")
        filler.unlink()
        fettle.stop(signal.SIGKILL)
        fettle.start()
        after = {r["digest"] for r in fettle.json("candidates", job["id"])}
        self.assertLessEqual(rows, after)
        def ended():
            return fettle.json("jobs", job["id"])["state"] == "succeeded"
        fettle.until(ended, 240, "the job to end")


if __name__ == "__main__":
    unittest.main(verbosity=2)
