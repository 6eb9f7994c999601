# SPDX-License-Identifier: Apache-2.0
"""A worker without a device compiles what waits for the one that has it."""
import json
import subprocess
import unittest

from fettle_process import BIN, SOURCE, Fettle

TASK = SOURCE / "tasks" / "layernorm"


class CompileOnlyTest(unittest.TestCase):
    def setUp(self):
        self.fettle = Fettle()
        self.addCleanup(self.fettle.close)
        self.fettle.start("--no-worker", "--http", "off")

    def worker(self, name, *arguments):
        # Of its own cache, as on another machine.
        with open(self.fettle.home / f"{name}.log", "ab") as out:
            process = subprocess.Popen([BIN / "fettle", "worker", "--cache", self.fettle.home / name, *arguments],
                                       env=self.fettle.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_its_code_objects_reach_the_device(self):
        self.worker("device", "--device", "cpu")
        compiler = self.worker("compiler", "--compile-only")
        self.fettle.until(lambda: len(self.fettle.json("workers")) == 2, 60, "two workers")
        listed = self.fettle.run("workers", check=True).stdout
        self.assertIn("compiles for cpu", listed)
        for line in listed.splitlines():
            self.assertLessEqual(len(line), 80, line)
        self.fettle.run("submit", TASK, "--target", "cpu", "--proposer", "tuner", "--candidates", "4", check=True)
        job = self.fettle.json("jobs")[0]["id"]
        self.fettle.run("watch", job, timeout=400)
        self.assertEqual(self.fettle.json("jobs", job)["state"], "succeeded")
        evaluated = [result for _, result in self.fettle.results(job) if result["unit_id"].endswith(".evaluate")]
        self.assertEqual(len(evaluated), 4)
        ahead = [result for result in evaluated
                 if result["builds"] and all(build["cache_hit"] for build in result["builds"])]
        # Two are held by the device's worker from the start.
        self.assertGreaterEqual(len(ahead), 1, json.dumps([result["builds"] for result in evaluated])[:2000])
        self.assertIsNone(compiler.poll())


if __name__ == "__main__":
    unittest.main()
