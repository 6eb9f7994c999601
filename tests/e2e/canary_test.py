# SPDX-License-Identifier: Apache-2.0
"""A proposer with a shell on its own machine and the token of its role finds no secret.

The canary task has configurations that are right for the sizes written in it and wrong for all
others: they get as far as a confirmation and fail on held-out sizes. While the job runs, the
proposer asks for everything that its token may read, and searches its machine."""
import json
import pathlib
import re
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import unittest

from fettle_process import BIN, Fettle, SOURCE

TASK = SOURCE / "tests" / "e2e" / "tasks" / "canary"
DECLARED = {"52428", "50000", "50001", "59999"}
TOKEN = "proposer-0123456789abcdef0123456789abcdef"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Proposer:
    """A shell that sees the program, a home of its own and the network."""

    def __init__(self, endpoint):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="fettle-proposer-"))
        self.env = {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8",
                    "FETTLE_ENDPOINT": endpoint, "FETTLE_TOKEN": TOKEN}
        self.heard = []

    def close(self):
        shutil.rmtree(self.home, ignore_errors=True)

    def shell(self, *command, timeout=60):
        box = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent",
               "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink",
               "usr/lib64", "/lib64", "--symlink", "usr/bin", "/bin", "--proc", "/proc", "--dev",
               "/dev", "--tmpfs", "/tmp", "--bind", self.home, self.home, "--ro-bind",
               BIN / "fettle", self.home / "fettle", "--chdir", self.home]
        done = subprocess.run([*map(str, box), *map(str, command)], env=self.env, timeout=timeout,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.heard.append(f"$ {' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
        return done

    def fettle(self, *command, **more):
        return self.shell(self.home / "fettle", *command, **more)


@unittest.skipUnless(shutil.which("bwrap"), "bubblewrap is not installed")
class Canary(unittest.TestCase):
    def setUp(self):
        self.fettle = Fettle()
        self.addCleanup(self.fettle.close)
        self.fettle.data.mkdir(mode=0o700)
        tokens = self.fettle.data / "tokens.json"
        tokens.write_text(json.dumps(
            {"tokens": [{"name": "proposer", "role": "propose", "token": TOKEN}]}))
        tokens.chmod(0o600)
        endpoint = f"127.0.0.1:{free_port()}"
        self.fettle.start("--listen", endpoint)
        self.proposer = Proposer(endpoint)
        self.addCleanup(self.proposer.close)

    def ask_for_everything(self, job):
        ask = self.proposer.fettle
        ask("jobs", "--json")
        ask("jobs", job, "--json")
        listed = ask("candidates", job, "--json")
        ask("variants", "--json")
        for row in json.loads(listed.stdout or "[]")[-4:]:
            ask("show", row["digest"], "--job", job, "--json")
            ask("show", row["digest"], "--job", job, "--source")
        for row in json.loads(ask("variants", "--json").stdout or "[]"):
            ask("show", row["id"], "--json")
        with_events = ["timeout", "2", self.proposer.home / "fettle", "watch", job, "--json"]
        self.proposer.shell(*with_events)

    def secrets(self):
        """Every seed of the server's units, as text in the forms that it might be shown in."""
        with sqlite3.connect(self.fettle.data / "fettle.db") as db:
            rows = db.execute("SELECT seed, held_out_seed FROM units").fetchall()
        seeds = {seed for row in rows for seed in row if seed not in (0, None)}
        self.assertTrue(seeds)
        forms = set()
        for seed in seeds:
            forms |= {str(seed), str(seed % 2**64), f"{seed % 2**64:x}", f"{seed % 2**64:016x}"}
        return {form for form in forms if len(form) > 6}

    def test_finds_no_held_out_size_seed_or_database(self):
        job = self.fettle.json("submit", TASK, "--target", "cpu", "--candidates", 6,
                               "--no-watch")["id"]
        last_round = 0
        while self.fettle.json("jobs", job)["state"] not in ("succeeded", "failed", "cancelled"):
            last_round = len(self.proposer.heard)
            self.ask_for_everything(job)
        # What came back once the job had ended may hold the published seeds: it does not count.
        heard = "\n".join(self.proposer.heard[:last_round])
        self.assertIn("candidates", heard)
        for secret in self.secrets():
            self.assertNotIn(secret, heard)
        sizes = set(re.findall(r'\bn"?\s*[:=]\s*(5\d{4})\b', heard))
        self.assertLessEqual(sizes, DECLARED)
        # Its machine.
        found = self.proposer.shell("find", "/", "-xdev", "(", "-name", "*.db*", "-o", "-name",
                                    "tokens.json", "-o", "-name", "fettle.sock", ")", "-path",
                                    "*fettle*")
        self.assertEqual(found.stdout, "")
        environment = self.proposer.shell("env").stdout
        self.assertNotIn(str(self.fettle.home), environment)
        # What is not its to do.
        self.assertNotEqual(self.proposer.fettle("cancel", job).returncode, 0)
        self.assertNotEqual(self.proposer.shell(
            self.proposer.home / "fettle", "backup", self.proposer.home / "copy").returncode, 0)
        rejected = [row for row in self.fettle.json("candidates", job)
                    if row["verdict"].get("case") == "held_out"]
        for row in rejected:
            self.assertNotRegex(json.dumps(row["verdict"]), r'\bn"?\s*[:=]\s*5\d{4}')


if __name__ == "__main__":
    unittest.main(verbosity=2)
