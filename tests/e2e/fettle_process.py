# SPDX-License-Identifier: Apache-2.0
"""Runs the real programs for end-to-end tests: a server with a private data folder, and the CLI."""
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time

SOURCE = pathlib.Path(os.environ.get("FETTLE_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
BIN = pathlib.Path(os.environ.get("FETTLE_BIN", SOURCE / "build" / "bin"))


class Fettle:
    """One private installation: data folder, environment, server process."""

    def __init__(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="fettle-e2e-"))
        self.data = self.home / "data"
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "FETTLE_DATA_DIR": str(self.data),
            "XDG_CACHE_HOME": os.environ.get("FETTLE_E2E_CACHE", str(self.home / "cache")),
            "LANG": "C.UTF-8",
        }
        self.server = None
        self.log = self.home / "serve.log"

    def close(self):
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.home, ignore_errors=True)

    def start(self, *arguments):
        with open(self.log, "ab") as out:
            self.server = subprocess.Popen(
                [BIN / "fettle", "serve", "--data-dir", self.data, *arguments],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.env,
                start_new_session=True)
        self.until(lambda: self.run("jobs", "--json").returncode == 0, 30, "the server to answer")

    def stop(self, how=signal.SIGTERM, timeout=20):
        """Ends the server with all its processes gone; returns its exit code."""
        if self.server is None:
            return None
        group = self.server.pid
        if how == signal.SIGKILL:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                pass
        else:
            self.server.send_signal(how)
        code = self.server.wait(timeout)
        self.server = None
        return code

    def run(self, *arguments, timeout=300, check=False, **more):
        done = subprocess.run([BIN / "fettle", *map(str, arguments)], env=self.env, timeout=timeout,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)
        if check and done.returncode != 0:
            raise AssertionError(f"fettle {' '.join(map(str, arguments))} exited {done.returncode}\n"
                                 f"{done.stdout}\n{done.stderr}\n{self.tail()}")
        return done

    def json(self, *arguments, **more):
        return json.loads(self.run(*arguments, "--json", check=True, **more).stdout)

    def results(self, job_id):
        """(time of storing in ns, result document) of every unit of the job, in that order."""
        with sqlite3.connect(next(self.data.glob("*.db"))) as db:
            rows = db.execute("SELECT stored_ns, result_zst FROM evaluations WHERE job_id = ? "
                              "ORDER BY stored_ns", (job_id,)).fetchall()
        for stored_ns, blob in rows:
            raw = subprocess.run(["zstd", "-dc"], input=blob, capture_output=True, check=True).stdout
            yield stored_ns, json.loads(raw)

    def tail(self, size=4000):
        return self.log.read_text(errors="replace")[-size:] if self.log.exists() else ""

    def until(self, condition, seconds, what, pause=0.05):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.server is not None and self.server.poll() is not None:
                raise AssertionError(f"the server ended with {self.server.returncode}\n{self.tail()}")
            if condition():
                return
            time.sleep(pause)
        raise AssertionError(f"waited {seconds} s for {what}\n{self.tail()}")
