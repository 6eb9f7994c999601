# SPDX-License-Identifier: Apache-2.0
"""Drives jobs of proposer external with the kernels of bench/external, one round a call.

    bench/run external_run --round bench/external/round1 [--tasks NAME ...] [--target sm_90a] [--data FOLDER]
        [--candidates 200] [--tune-share 0.3] [--fit N] [--time-cap 20] [--limit 420] [--verify]
        [--state FILE.tar.gz] [--pack FOLDER]

Starts a server on the data folder, submits one job for each task of the round that has none there yet,
ends those that the round drops, hands in the round's kernels, waits for their verdicts and those of the
tuner's values (as long as --limit allows), prints verdicts, feedback and the bar, records the jobs, and
stops the server. --verify exports the best accepted variant of each task and runs it again from its bundle
after that. Jobs go on where they stopped: --state brings the data folder that an earlier call
packed. --pack writes state.tar.gz (the data folder), results.tar.gz (briefs, feedback, recordings,
evidence as JSON) and round.log there.
"""
import argparse
import concurrent.futures
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "e2e"))
from fettle_process import Fettle, SOURCE  # noqa: E402

ENDED = ("succeeded", "failed", "cancelled")


LOG = []


def say(text):
    LOG.append(str(text))
    print(text, flush=True)


def pack(folder, archive):
    """What is in the folder, but for sockets and the lock."""
    with tarfile.open(archive, "w:gz", compresslevel=6) as out:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name != "lock":
                out.add(path, path.relative_to(folder))
    say(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB")


def line(candidate):
    verdict = candidate["verdict"] or {}
    values = " ".join(f"{name}={value}" for name, value in sorted(candidate.get("values", {}).items()))
    return (f"  {candidate['digest'][:8]} {candidate['proposer']:8} {candidate['technique'][:24]:24} "
            f"{candidate.get('ratio') or 0:7.3f} {verdict.get('verdict', 'under way'):13} {values} "
            f"{verdict.get('message', '')[:90]}")


class Round:
    def __init__(self, arguments):
        self.arguments = arguments
        self.end = time.monotonic() + arguments.limit
        self.folder = arguments.round
        self.plan = json.loads((self.folder / "round.json").read_text())
        self.proposals = [proposal for proposal in self.plan["proposals"]
                          if not arguments.tasks or proposal["task"] in arguments.tasks]
        self.out = arguments.out
        self.out.mkdir(parents=True, exist_ok=True)
        self.jobs_file = arguments.data / "external_jobs.json"  # Task to job id.
        self.jobs = {}
        self.fettle = Fettle()
        self.fettle.data = arguments.data.resolve()
        self.fettle.env["FETTLE_DATA_DIR"] = str(self.fettle.data)
        if arguments.cache:
            self.fettle.env["XDG_CACHE_HOME"] = str(arguments.cache.resolve())

    def left(self):
        return self.end - time.monotonic()

    def run(self):
        data, state = self.arguments.data, self.arguments.state
        if state and state.exists() and not data.exists():
            with tarfile.open(state) as archive:
                archive.extractall(data, filter="data")
        data.mkdir(parents=True, exist_ok=True)
        if self.jobs_file.exists():
            self.jobs = json.loads(self.jobs_file.read_text())
        try:
            self.fettle.start("--http", "off")
            for proposal in self.proposals:
                self.submit(proposal["task"])
            self.drop()
            proposed = [proposal for proposal in self.proposals if self.propose(proposal)]
            for proposal in proposed:
                self.wait(proposal)
            say(f"{self.left():.0f} s left of {self.arguments.limit:.0f} for the tuner's values")
            self.settle({proposal["task"] for proposal in proposed})
            tasks = list(dict.fromkeys(proposal["task"] for proposal in self.proposals))
            best = {task: self.report(task) for task in tasks}
            if self.arguments.verify:
                self.verify({task: variant for task, variant in best.items() if variant})
        finally:
            try:
                self.fettle.stop(timeout=60)
            except subprocess.TimeoutExpired:  # What it stored survives this.
                self.fettle.stop(signal.SIGKILL)
            if self.fettle.log.exists():
                shutil.copy(self.fettle.log, self.out / "serve.log")
            self.fettle.close()
            if self.arguments.pack:
                self.arguments.pack.mkdir(parents=True, exist_ok=True)
                pack(data, self.arguments.pack / "state.tar.gz")
                pack(self.out, self.arguments.pack / "results.tar.gz")
                (self.arguments.pack / "round.log").write_text("\n".join(LOG))

    def submit(self, task):
        if task in self.jobs:
            return
        job = self.fettle.json("submit", SOURCE / "tasks" / task, "--target", self.arguments.target,
                               "--proposer", "external", "--candidates", self.arguments.candidates,
                               "--option", f"tune_share={self.arguments.tune_share}",
                               "--option", f"time_cap_s={self.arguments.time_cap}",
                               "--seed", self.arguments.seed, "--no-watch")
        self.jobs[task] = job["id"]
        self.jobs_file.write_text(json.dumps(self.jobs))
        say(f"{task}: job {job['id']}")

    def drop(self):
        """Ends jobs that the round gives up, so that the device is there for the others."""
        for task, why in self.plan.get("drop", {}).items():
            if task in self.jobs and self.fettle.json("jobs", self.jobs[task])["state"] not in ENDED:
                self.fettle.run("cancel", self.jobs[task], check=True)
                say(f"{task}: job {self.jobs[task]} cancelled: {why}")

    def command(self, proposal, *more):
        name = proposal["file"]
        command = ["propose", self.jobs[proposal["task"]], self.folder / name, "--key",
                   f"{self.folder.name}/{name}", "--parent", proposal.get("parent", "baseline"),
                   "--technique", proposal["technique"], "--rationale", proposal["rationale"]]
        for value in proposal.get("set", []):
            command += ["--set", value]
        if fit := min(proposal.get("fit", 0), self.arguments.fit):
            command += ["--fit", fit]
        return [*command, *more]

    def propose(self, proposal):
        """False when the job takes nothing more."""
        done = self.fettle.run(*self.command(proposal))
        while "has not started" in done.stderr and self.left() > 0:  # Its worker is still on the way.
            time.sleep(0.2)
            done = self.fettle.run(*self.command(proposal))
        say(f"{proposal['task']}: {proposal['file']} {done.stdout.strip()} {done.stderr.strip()}")
        return done.returncode == 0

    def wait(self, proposal):
        if self.left() < 5:
            return
        name = pathlib.Path(proposal["file"]).stem
        try:
            done = self.fettle.run(*self.command(proposal, "--wait", "--json"), timeout=self.left())
        except subprocess.TimeoutExpired as error:  # The job goes on at the next call.
            say(f"{proposal['task']}: {name} is not judged yet: {type(error).__name__}")
            return
        (self.out / f"{name}.json").write_text(done.stdout)
        text = self.fettle.run(*self.command(proposal, "--wait"))
        say(f"\n== {proposal['task']}: {name} ({proposal['technique']})\n{text.stdout}{text.stderr}")

    def settle(self, tasks):
        """Until nothing is under way: the tuner's values of what was handed in, and confirmations."""
        def busy(task):
            job = self.fettle.json("jobs", self.jobs[task])
            return job["state"] not in ENDED and "waits for proposals" not in json.dumps(job)

        while self.left() > 0 and any(busy(task) for task in tasks):
            time.sleep(0.5)

    def verify(self, variants):
        """Submit to bundle, and the bundle run again."""
        def one(task):
            bundle = self.out / "bundles" / task
            exported = self.fettle.run("export", variants[task], "--out", bundle)
            if exported.returncode != 0:
                return f"{task}: export exited {exported.returncode}: {exported.stderr[-300:]}"
            begin = time.monotonic()
            verified = self.fettle.run("verify", bundle, "--rerun", "--json")
            (self.out / f"{task}_rerun.json").write_text(verified.stdout)
            return (f"{task}: {variants[task]} exported, verify --rerun exited {verified.returncode} in "
                    f"{time.monotonic() - begin:.0f} s {verified.stderr.strip()[-300:]}")

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for text in pool.map(one, variants):
                say(text)

    def report(self, task):
        """Its best accepted variant, or None."""
        job = self.jobs[task]
        state = self.fettle.json("jobs", job)
        rows = self.fettle.json("candidates", job)
        (self.out / f"{task}_job.json").write_text(json.dumps({"job": state, "candidates": rows}, indent=1))
        (self.out / f"{task}_brief.json").write_text(self.fettle.run("brief", job).stdout)
        self.fettle.run("record", job, "--out", self.out / f"{task}_recording.json")
        say(f"\n== {task}: {state['state']}, {len(rows)} candidates; {state.get('message', '')}")
        for proposer in ("tuner", "external"):
            best = sorted((row for row in rows if row["proposer"] == proposer),
                          key=lambda row: -(row.get("ratio") or 0))
            say(f" {proposer}: {len(best)} candidates, ratios over declared (tuner) or tuned (external)")
            for row in best[:8 if proposer == "external" else 3]:
                say(line(row))
        best = None
        for variant in self.fettle.json("variants"):
            if variant.get("job_id") != job:
                continue
            shown = self.fettle.run("show", variant["id"])
            (self.out / f"{task}_{variant['id']}.json").write_text(
                self.fettle.run("show", variant["id"], "--json").stdout)
            if variant["status"] == "accepted":
                best = best or variant["id"]
                say(shown.stdout.split("\nCorrectness")[0])
        return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("external_data"))
    parser.add_argument("--round", type=pathlib.Path, required=True)
    parser.add_argument("--tasks", nargs="*", default=[], help="of the round's tasks only these")
    parser.add_argument("--target", default="auto")
    parser.add_argument("--candidates", type=int, default=200)
    parser.add_argument("--tune-share", type=float, default=0.3)
    parser.add_argument("--time-cap", type=float, default=20, help="seconds of timing per timed case and measurement")
    parser.add_argument("--fit", type=int, default=1000, help="at most so many values a proposal")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--limit", type=float, default=420, help="seconds for the whole call")
    parser.add_argument("--verify", action="store_true", help="export what was accepted and run its bundle again")
    parser.add_argument("--state", type=pathlib.Path, help="a data folder that was packed")
    parser.add_argument("--pack", type=pathlib.Path, help="where to pack data folder, results and log")
    parser.add_argument("--cache", type=pathlib.Path, help="compile cache, to share between calls")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("external_results"))
    Round(parser.parse_args()).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
