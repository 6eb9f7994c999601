# SPDX-License-Identifier: Apache-2.0
"""fettle's workers on a real Slurm cluster, and what befalls them there: nothing is lost, nothing
counts twice, the budget is kept, the pool is filled again."""
import collections
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from fettle_process import BIN, Fettle, SOURCE  # noqa: E402
from slurm_cluster import Cluster, free_ports, missing  # noqa: E402
from stalling_proxy import StallingProxy  # noqa: E402

STAND_IN = pathlib.Path(os.environ.get("FETTLE_TEST_BIN", SOURCE / "build" / "release" / "tests")) / "fleet_stand_in"
NODES, GPUS = 3, 2
PLACES = NODES * GPUS


@unittest.skipIf(missing(), missing())
class FleetTest(unittest.TestCase):
    def setUp(self):
        self.fettle = Fettle()
        self.addCleanup(self.fettle.close)
        self.cluster = Cluster(NODES, GPUS)
        self.addCleanup(self.cluster.close)
        self.fettle.env["SLURM_CONF"] = str(self.cluster.conf)
        self.log = self.fettle.home / "units.log"
        self.port = self.worker_port = free_ports(2)

    def certificate(self):
        key, certificate = self.fettle.home / "key.pem", self.fettle.home / "ca.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                        "-keyout", key, "-out", certificate], check=True, capture_output=True)
        os.chmod(key, 0o600)
        return certificate, key

    def configure(self, unit_ms=200, width=PLACES, idle_s=60, partition="gpu", program=STAND_IN,
                  more=""):
        certificate, self.key = self.certificate()
        self.fleet = self.fettle.home / "fleet.yaml"
        self.fleet.write_text(f"""endpoint: localhost:{self.worker_port}
ca: {certificate}
program: {program}
poll_ms: 300
targets:
  cpu:
    partition: {partition}
    gres: gpu:h200:1
    width: {width}
    idle_s: {idle_s}
{more}    setup: |
      export FETTLE_STAND_IN_MS={unit_ms} FETTLE_STAND_IN_LOG={self.log}
""")

    def start(self, **settings):
        if settings or not hasattr(self, "fleet"):
            self.configure(**settings)
        self.fettle.start("--no-worker", "--http", "off", "--listen", f"localhost:{self.port}",
                          "--tls-certificate", self.fettle.home / "ca.pem", "--tls-key", self.key,
                          "--fleet", self.fleet)

    def task(self):
        """A task with many candidates that nobody compiles."""
        folder = self.fettle.home / "task"
        if not folder.exists():
            shutil.copytree(SOURCE / "tests" / "e2e" / "tasks" / "scale", folder)
            text = (folder / "task.yaml").read_text()
            values = ", ".join(map(str, range(40)))
            names = "TUVW"
            text = text.replace("tunables: {}", "tunables: {%s}" % ", ".join(f"{name}: [{values}]" for name in names))
            text = text.replace("  values: {}", "  values: {%s}" % ", ".join(f"{name}: 0" for name in names))
            (folder / "task.yaml").write_text(text)
        return folder

    def submit(self, candidates, *more):
        return self.fettle.json("submit", self.task(), "--target", "cpu", "--candidates", candidates,
                                "--no-watch", "--option", "plateau=0", *more)["id"]

    def job(self, job_id):
        return self.fettle.json("jobs", job_id)

    def begun(self):
        """(unit, attempt, began, pid, node, device, came) of every unit that a worker began."""
        if not self.log.exists():
            return []
        rows = [line.split() for line in self.log.read_text().splitlines()]
        return [(unit, int(attempt), float(began), int(pid), node, device, float(came))
                for unit, attempt, began, pid, node, device, came in (row for row in rows if len(row) == 7)]

    def working(self, count=PLACES, since=0.0, seconds=40):
        """Waits until so many workers have begun units."""
        def enough():
            return len({row[3] for row in self.begun() if row[2] >= since}) >= count
        self.fettle.until(enough, seconds, f"{count} workers at work; {self.cluster.tasks()}")

    def rows(self, query, *arguments):
        with sqlite3.connect(next(self.fettle.data.glob("*.db"))) as db:
            return db.execute(query, arguments).fetchall()

    def finish(self, job_id, candidates, seconds=60):
        def ended():
            return self.job(job_id)["state"] in ("succeeded", "failed", "cancelled")
        self.fettle.until(ended, seconds, f"the job to end: {self.job(job_id)}\n{self.cluster.tasks()}")
        job = self.job(job_id)
        self.assertEqual(job["state"], "succeeded", job)
        rows = self.fettle.json("candidates", job_id, "--limit", 0)
        self.assertEqual(len(rows), candidates)
        self.assertEqual(sorted(int(row["ordinal"]) for row in rows), list(range(1, candidates + 1)))
        self.assertEqual(len({row["digest"] for row in rows}), candidates, "a candidate ran twice")
        verdicts = collections.Counter(row["verdict"]["verdict"] for row in rows)
        self.assertLessEqual(set(verdicts), {"WIN", "NO_WIN"}, "a worker's end became a verdict")
        self.assertEqual(int(job["spent"]["candidates"]), candidates)
        done = collections.Counter(unit for (unit,) in self.rows(
            "SELECT id FROM units WHERE job_id = ? AND state = 'done'", job_id))
        self.assertEqual(set(done.values()), {1}, "a unit was counted twice")
        stored = self.rows("SELECT count(*), sum(device_ns) FROM evaluations WHERE job_id = ?", job_id)
        self.assertEqual(stored[0][0], sum(done.values()))
        self.assertEqual(int(job["spent"]["device_ms"]), stored[0][1] // 1_000_000)
        return job

    def alive(self):
        """Tasks that hold a place or wait for one."""
        return [task for task in self.cluster.tasks() if task[1] in ("RUNNING", "PENDING", "CONFIGURING")]

    def reasons(self, job_id):
        return [reason for (reason,) in self.rows(
            "SELECT reason FROM units WHERE job_id = ? AND state = 'returned'", job_id)]

    # --- What a user sees.

    def test_an_array_of_workers_comes_and_goes(self):
        self.start()
        job_id = self.submit(60)
        self.working()
        text = self.fettle.run("jobs", check=True).stdout
        self.assertRegex(text, rf"{job_id}: .*Slurm job \d+.*: 6 workers on their places")
        self.assertEqual(len(self.alive()), PLACES)
        self.finish(job_id, 60)
        places = {row[4:6] for row in self.begun()}
        self.assertEqual(len(places), PLACES, "Slurm gave every worker a device of its own")
        self.fettle.until(lambda: not self.alive(), 20, "the workers to be released")
        token = next(self.fettle.data.glob("fleet/*")) / "token"
        self.assertFalse(token.exists(), "a token outlived its job")
        shown = self.fettle.run("jobs", job_id, check=True).stdout
        self.assertRegex(" ".join(shown.split()),  # Lines fit 80 columns.
                         r"held \d+\.\d+ device-hours, used \d+\.\d+ of them")

    def test_no_more_workers_than_work(self):
        self.start(unit_ms=500)
        job_id = self.submit(2)
        self.finish(job_id, 2)
        self.assertLessEqual(len({row[3] for row in self.begun()}), 2)

    def test_a_job_names_its_account_and_partition(self):
        self.start(width=1)
        job_id = self.submit(200, "--account", "kernels", "--partition", "scavenge")
        self.working(1)
        self.assertEqual(self.cluster.run("squeue", "-h", "-o", "%a %P").split(), ["kernels", "scavenge"])
        self.fettle.run("cancel", job_id, check=True)
        self.fettle.until(lambda: not self.alive(), 20, "the workers of a cancelled job to end")
        refused = self.fettle.run("submit", self.task(), "--target", "sm_90a", "--account", "kernels",
                                  "--candidates", 1, "--no-watch")
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("--fleet", refused.stderr)

    def test_what_slurm_refuses_or_lets_wait_is_shown(self):
        self.start()
        job_id = self.submit(5, "--partition", "nowhere")
        def message():
            return self.job(job_id).get("message", "")
        self.fettle.until(lambda: "invalid partition" in message(), 20, "the refusal to be shown")
        self.fettle.run("cancel", job_id, check=True)
        blocker = self.cluster.run("sbatch", "--parsable", "--array=1-6", "--gres=gpu:1",
                                   "--output=/dev/null", "--wrap", "sleep 100").strip()
        self.fettle.until(lambda: [t[1] for t in self.cluster.tasks()].count("RUNNING") == PLACES, 20,
                          "the other user's jobs to run")
        job_id = self.submit(5)
        self.fettle.until(lambda: "waiting (Resources)" in message() or "waiting (Priority)" in message(),
                          20, "the reason to be shown")
        self.assertIn("waiting (", self.fettle.log.read_text())
        self.cluster.run("scancel", blocker)
        self.finish(job_id, 5)

    def test_the_real_worker(self):
        self.start(program=BIN / "fettle", width=2, more="    arguments: [--slots, 1]\n")
        job_id = self.fettle.json("submit", SOURCE / "tests" / "e2e" / "tasks" / "scale", "--target",
                                  "cpu", "--candidates", 1, "--no-watch", "--option",
                                  "time_cap_s=1")["id"]
        def ended():
            return self.job(job_id)["state"] in ("succeeded", "failed")
        self.fettle.until(ended, 100, f"the job to end; {self.cluster.tasks()}")
        self.assertEqual(self.job(job_id)["state"], "succeeded", self.job(job_id))

    # --- What befalls workers.

    def test_a_node_is_lost_under_load(self):
        self.start(unit_ms=250)
        job_id = self.submit(300)
        self.working()
        self.cluster.script("node-kill", "gn1")
        lost = time.time()
        self.finish(job_id, 300)
        self.assertTrue(self.reasons(job_id), "no lease came back")
        nodes = {row[4] for row in self.begun() if row[2] > lost + 1}
        self.assertNotIn("gn1", nodes)

    def test_a_worker_is_killed(self):
        self.start()
        job_id = self.submit(150)
        self.working()
        victim = self.begun()[-1]
        os.kill(victim[3], signal.SIGKILL)
        killed = time.time()
        # The job script starts it again in the same place.
        def back():
            return any(row[2] > killed and row[3] != victim[3] and row[4:6] == victim[4:6]
                       for row in self.begun())
        self.fettle.until(back, 20, "the worker to be started again")
        self.finish(job_id, 150)
        self.assertTrue(self.reasons(job_id))

    def test_a_worker_falls_silent_and_comes_back(self):
        self.start()
        job_id = self.submit(400)
        self.working()
        victim = self.begun()[-1][3]
        os.kill(victim, signal.SIGSTOP)
        stopped = time.time()
        def resume():
            try:
                os.kill(victim, signal.SIGCONT)
            except ProcessLookupError:
                pass
        self.addCleanup(resume)
        self.fettle.until(lambda: self.reasons(job_id), 20, "its leases to come back")
        self.assertTrue(all("no heartbeat" in reason for reason in self.reasons(job_id)))
        os.kill(victim, signal.SIGCONT)
        self.fettle.until(lambda: any(row[3] == victim and row[2] > stopped + 3 for row in self.begun()),
                          30, "the worker to join again")
        self.finish(job_id, 400)

    def test_the_network_stalls(self):
        self.worker_port = self.port + 1
        proxy = StallingProxy(self.worker_port, self.port)
        self.addCleanup(proxy.close)
        self.start()
        job_id = self.submit(400)
        self.working()
        proxy.flows.clear()
        self.fettle.until(lambda: self.reasons(job_id), 20, "the leases to come back")
        time.sleep(1)
        proxy.flows.set()
        self.finish(job_id, 400)
        self.assertTrue(all("not counted" in reason for reason in self.reasons(job_id)))
        self.assertEqual(len({row[3] for row in self.begun()}), PLACES, "the same workers go on")

    def test_preemption(self):
        self.start(partition="scavenge", unit_ms=250)
        job_id = self.submit(350)
        self.working()
        self.cluster.run("sbatch", "--partition=gpu", "--array=1-4", "--gres=gpu:1",
                         "--output=/dev/null", "--wrap", "sleep 3")
        self.fettle.until(lambda: self.reasons(job_id), 25, "workers to be preempted")
        self.assertTrue(all("not counted" in reason for reason in self.reasons(job_id)),
                        self.reasons(job_id))
        self.finish(job_id, 350)

    def test_scancel_fills_the_pool_again(self):
        self.start()
        job_id = self.submit(250)
        self.working()
        before = {row[3] for row in self.begun()}
        self.cluster.run("scancel", "-u", "root")
        cancelled = time.time()
        self.working(PLACES, since=cancelled + 0.5)
        self.assertFalse(before & {row[3] for row in self.begun() if row[2] > cancelled + 3})
        self.finish(job_id, 250)
        self.assertTrue(all("not counted" in reason for reason in self.reasons(job_id)),
                        self.reasons(job_id))

    def test_a_drained_node(self):
        self.start()
        job_id = self.submit(150)
        self.working()
        self.cluster.run("scontrol", "update", "nodename=gn1", "state=drain", "reason=test")
        self.finish(job_id, 150)
        self.assertEqual(self.reasons(job_id), [], "workers on a drained node go on")

    # --- What befalls those that place them.

    def test_slurmctld_is_killed(self):
        self.start()
        job_id = self.submit(300)
        self.working()
        self.cluster.wait_until_saved()
        self.cluster.script("controller-kill")
        def message():
            return self.job(job_id).get("message", "")
        self.fettle.until(lambda: "no answer about workers" in message(), 20, "the silence to be shown")
        self.cluster.script("controller-up")
        self.finish(job_id, 300)
        self.assertEqual(self.reasons(job_id), [], "workers do not need the controller")
        self.assertEqual(len({row[3] for row in self.begun()}), PLACES, "no worker was started twice")
        self.fettle.until(lambda: not self.alive(), 20, "the workers to be released")

    def test_the_server_is_killed(self):
        self.start(unit_ms=400)
        job_id = self.submit(120)
        self.working()
        tasks = {task[0] for task in self.alive()}
        self.fettle.stop(signal.SIGKILL)
        time.sleep(1)
        restarted = time.time()
        self.start()
        self.working(PLACES, since=restarted, seconds=15)
        self.assertEqual({task[0] for task in self.alive()}, tasks, "it asked for what it had")
        self.finish(job_id, 120)
        self.assertEqual(len({row[3] for row in self.begun()}), PLACES)
        self.fettle.until(lambda: not self.alive(), 20, "the workers to be released")

    def test_a_server_releases_what_an_earlier_one_left(self):
        self.start()
        job_id = self.submit(400)
        self.working()
        self.fettle.stop(signal.SIGKILL)
        with sqlite3.connect(next(self.fettle.data.glob("*.db"))) as db:
            db.execute("UPDATE jobs SET state = 'cancelled' WHERE id = ?", (job_id,))
        db.close()
        self.start()
        self.fettle.until(lambda: not self.alive(), 20, "the workers of an ended job to end")


if __name__ == "__main__":
    unittest.main(verbosity=2)
