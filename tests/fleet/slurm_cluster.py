# SPDX-License-Identifier: Apache-2.0
"""A Slurm cluster on loopback for one test run, and why there can be none."""
import os
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
import time

SCRIPT = pathlib.Path(__file__).with_name("slurm_cluster.sh")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel")


def missing():
    """Why no cluster can be brought up here; empty: one can."""
    if os.geteuid() != 0:
        return "a Slurm cluster of its own needs root"
    absent = [name for name in PROGRAMS if shutil.which(name, path=path()) is None]
    if absent:
        return (f"Slurm is not installed ({', '.join(absent)} missing; Debian: "
                "slurm-wlm slurm-wlm-basic-plugins munge)")
    return ""


def path():
    return os.environ["PATH"] + ":/usr/sbin:/sbin"


def free_ports(count):
    """The first of so many neighbouring ports that nothing listens on."""
    while True:
        first = random.randrange(20000, 30000)
        try:
            for port in range(first, first + count):
                with socket.socket() as one:
                    one.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue


class Cluster:
    def __init__(self, nodes=3, gpus=2):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fettle-slurm-"))
        self.folder.chmod(0o755)  # munged wants others to reach its socket.
        self.conf = self.folder / "c" / "slurm.conf"
        self.env = {**os.environ, "PATH": path(), "SLURM_CONF": str(self.conf),
                    "SLURM_CLUSTER_PORT": str(free_ports(nodes + 1))}
        try:
            self.script("up", nodes, gpus)
        except AssertionError:
            self.close()
            raise

    def script(self, command, *arguments):
        done = subprocess.run(["bash", SCRIPT, command, self.folder / "c", *map(str, arguments)],
                              env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, timeout=120)
        if done.returncode != 0:
            raise AssertionError(f"slurm_cluster.sh {command}: {done.stderr}\n{self.tail()}")

    def run(self, *command, check=True):
        return subprocess.run([*map(str, command)], env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=check).stdout

    def wait_until_saved(self, seconds=20):
        """Until slurmctld has written down the jobs there are. It does so every few seconds, and one that is killed
        before takes what runs for orphans when it comes back, and ends them."""
        state = self.folder / "c" / "state" / "job_state"
        asked = time.time()
        # A change of some job, so that there is something to write.
        some = self.run("squeue", "--noheader", "--states=RUNNING", "--format=%A").split()[0]
        self.run("scontrol", "update", f"jobid={some}", "comment=saved")
        while not state.exists() or state.stat().st_mtime < asked:
            if time.time() > asked + seconds:
                raise AssertionError(f"slurmctld saved nothing\n{self.tail()}")
            time.sleep(0.1)

    def tasks(self):
        """(id, state, node) of all."""
        lines = self.run("squeue", "--noheader", "--array", "--format=%i|%T|%N",
                         check=False).splitlines()
        return [tuple(line.split("|")) for line in lines]

    def tail(self):
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-800:]}"
                         for log in sorted((self.folder / "c" / "log").glob("slurm*.log")))

    def close(self):
        self.script("down")
        shutil.rmtree(self.folder, ignore_errors=True)
