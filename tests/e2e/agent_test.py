# SPDX-License-Identifier: Apache-2.0
"""Jobs around a model through the real programs; a local HTTP server plays the model, kill -9 the crash."""
import hashlib
import http.server
import json
import os
import signal
import ssl
import subprocess
import threading
import time
import unittest

from external_test import TASK, GOOD, BROKEN
from fettle_process import Fettle, SOURCE


class Model(http.server.ThreadingHTTPServer):
    """An Anthropic-style server with a plan for everything; notes what it was asked and answered."""
    daemon_threads = True

    def __init__(self, certificate=None, key=None):
        super().__init__(("127.0.0.1", 0), Handler)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.lock = threading.Lock()
        self.answered = {}
        self.proposals = {}
        self.delay = 0
        self.keys = set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def tool_call(self, body):
        text = json.dumps(body["messages"])
        if "Choose the next change" in text:
            return "plan", {"bottleneck": "arithmetic", "technique": "no-loop", "change": "multiply once"}
        with self.lock:  # Who asks again after a crash gets the same answer.
            number = self.proposals.setdefault(text, len(self.proposals) + 1)
        source = BROKEN if number == 1 else GOOD.replace("2.0f", f"(2.0f + {number}.0f - {number}.0f)")
        return "propose", {"source": source, "rationale": "one multiplication"}


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.keys.add(self.headers["x-api-key"])
        name, arguments = self.server.tool_call(json.loads(raw))
        time.sleep(self.server.delay)
        events = [
            {"type": "message_start", "message": {"id": "m", "model": "m", "usage": {"input_tokens": 500}}},
            {"type": "content_block_start", "index": 0,
             "content_block": {"type": "tool_use", "id": "t", "name": name}},
            {"type": "content_block_delta", "index": 0,
             "delta": {"type": "input_json_delta", "partial_json": json.dumps(arguments)}},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 100}},
            {"type": "message_stop"}]
        answer = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
        try:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(answer)
            self.wfile.flush()
        except OSError:
            return
        with self.server.lock:
            key = hashlib.sha256(raw).hexdigest()
            self.server.answered[key] = self.server.answered.get(key, 0) + 1


class Agent(unittest.TestCase):
    def setUp(self):
        self.fettle = Fettle()
        self.addCleanup(self.fettle.close)
        self.model = Model()
        self.addCleanup(self.model.server_close)
        self.addCleanup(self.model.shutdown)
        self.models = self.fettle.home / "models.json"
        self.models.write_text(json.dumps({"format": 1, "default": "m", "models": {"m": {
            "provider": "anthropic", "base_url": f"http://127.0.0.1:{self.model.server_address[1]}",
            "context_tokens": 200000, "max_output_tokens": 4000,
            "usd_per_million": {"input": 1, "output": 1, "cache_read": 1, "cache_write": 1}}}}))

    def start(self):
        self.fettle.start("--models", self.models)

    def job(self, job_id):
        return self.fettle.json("jobs", job_id)

    def ended(self, job_id, seconds=240):
        self.fettle.until(lambda: self.job(job_id)["state"] in ("succeeded", "failed", "cancelled"), seconds,
                          "the job to end")
        return self.job(job_id)

    def test_kill_9_anywhere_neither_pays_twice_nor_loses_an_answer(self):
        self.model.delay = 0.05
        self.start()
        job = self.fettle.json("submit", TASK, "--target", "cpu", "--proposer", "llm", "--candidates", 6,
                               "--no-watch")["id"]
        spent = 0
        for wanted in (1, 2, 4, 7):  # Answers of the model.
            self.fettle.until(lambda: sum(self.model.answered.values()) >= wanted or
                              self.job(job)["state"] != "running", 120, f"{wanted} answers")
            before = self.job(job)["spent"]
            self.fettle.stop(signal.SIGKILL)
            self.start()
            after = self.job(job)["spent"]
            self.assertGreaterEqual(int(after["tokens"]), spent)
            self.assertGreaterEqual(int(after["candidates"]), int(before["candidates"]))
            spent = int(after["tokens"])
        last = self.ended(job)
        self.assertEqual(last["state"], "succeeded", last)
        rows = self.fettle.json("candidates", job)
        self.assertEqual(len({row["digest"] for row in rows}), len(rows))
        self.assertEqual(int(last["spent"]["candidates"]), len(rows))
        self.assertIn(f"spent: {len(rows)} of 6 candidates, ", self.fettle.run("jobs", job).stdout)
        self.assertLessEqual(len(rows), 6)
        self.assertIn("WIN", {row["verdict"]["verdict"] for row in rows})
        self.assertIn("COMPILE_ERROR", {row["verdict"]["verdict"] for row in rows})
        # An answer in flight at a kill may be asked for again; one that arrived never is. Four kills.
        repeats = sum(count - 1 for count in self.model.answered.values())
        self.assertLessEqual(repeats, 4, self.model.answered)

    def test_certificates_are_verified_and_key_files_private(self):
        certificate, private = self.fettle.home / "cert.pem", self.fettle.home / "cert.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                        "-keyout", private, "-out", certificate], check=True, capture_output=True)
        model = Model(certificate, private)
        self.addCleanup(model.server_close)
        self.addCleanup(model.shutdown)
        key = self.fettle.home / "model.key"
        key.write_text("sk-of-a-test-0123456789\n")
        key.chmod(0o644)
        good = {"provider": "anthropic", "base_url": f"https://localhost:{model.server_address[1]}",
                "context_tokens": 200000, "max_output_tokens": 4000, "key_file": str(key),
                "ca_file": str(certificate),
                "usd_per_million": {"input": 1, "output": 1, "cache_read": 1, "cache_write": 1}}
        unknown = {name: value for name, value in good.items() if name != "ca_file"}
        elsewhere = dict(good, base_url=good["base_url"].replace("localhost", "127.0.0.1"))
        self.models.write_text(json.dumps({"format": 1, "default": "good", "models": {
            "good": good, "unknown": unknown, "elsewhere": elsewhere}}))
        self.start()

        def job(name):
            return self.ended(self.fettle.json("submit", TASK, "--target", "cpu", "--proposer", "llm", "--model", name,
                                               "--candidates", 2, "--no-watch")["id"])
        refused = job("good")
        self.assertEqual(refused["state"], "failed")
        self.assertIn("chmod 600", refused["message"])
        key.chmod(0o600)
        for name in ("unknown", "elsewhere"):
            refused = job(name)
            self.assertEqual(refused["state"], "failed", refused)
            self.assertIn("certificate", refused["message"].lower())
            self.assertIn("ca_file", refused["message"])
            self.assertNotIn("attempts", refused["message"])
            self.assertEqual(int(refused["spent"]["tokens"]), 0)
        self.assertFalse(model.keys)  # No request was sent.
        done = job("good")
        self.assertEqual(done["state"], "succeeded", done)
        self.assertEqual(model.keys, {"sk-of-a-test-0123456789"})
        found = subprocess.run(["grep", "-rl", "sk-of-a-test", self.fettle.data, self.fettle.log],
                               capture_output=True, text=True)
        self.assertEqual(found.stdout, "")

    def test_demo_replays_the_bundled_recording(self):
        done = self.fettle.run("demo", "--proposer", "replay", "--candidates", 6, "--minutes", 6, timeout=600)
        text = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, text)
        self.assertIn("a replay of recorded work", text)
        self.assertFalse(self.model.answered)


if __name__ == "__main__":
    unittest.main(verbosity=2)
