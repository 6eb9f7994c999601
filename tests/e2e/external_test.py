# SPDX-License-Identifier: Apache-2.0
"""A job driven from outside: by `fettle propose`, and by a coding agent's client over MCP on stdio."""
import json
import os
import pathlib
import queue
import signal
import subprocess
import threading
import unittest

from fettle_process import BIN, Fettle

TASK = pathlib.Path(__file__).parent / "tasks" / "scale"
GOOD = """extern "C" __global__ void scale(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
"""
WRONG = GOOD.replace("2.0f", "2.5f")
BROKEN = GOOD.replace("2.0f * x[i]", "twice(x[i])")


class McpClient:
    """Speaks either revision of the protocol with a `fettle mcp` process."""

    def __init__(self, fettle, token_file, modern=True, server=None):
        self.modern = modern
        command = [BIN / "fettle", "mcp", "--token-file", token_file]
        command += ["--server", server or f"unix:{fettle.data}/fettle.sock"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=fettle.env, text=True)
        self.messages = queue.Queue()
        self.progress = []
        self.number = 0
        threading.Thread(target=self.read, daemon=True).start()
        if not modern:
            answer = self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                                 "clientInfo": {"name": "test", "version": "1"}})
            assert answer["protocolVersion"] == "2025-11-25", answer
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def read(self):
        for line in self.process.stdout:
            self.messages.put(json.loads(line))

    def send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def request(self, method, params, timeout=120):
        self.number += 1
        if self.modern:
            params = dict(params)
            params["_meta"] = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                               "io.modelcontextprotocol/clientCapabilities": {},
                               "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                               "progressToken": self.number}
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        while True:
            message = self.messages.get(timeout=timeout)
            if message.get("method") == "notifications/progress":
                self.progress.append(message["params"])
            elif message.get("id") == self.number:
                if "error" in message:
                    raise AssertionError(message["error"])
                return message["result"]

    def call(self, tool, **arguments):
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        text = json.dumps(result["structuredContent"], separators=(",", ":"), ensure_ascii=False)
        assert len(text.encode()) <= 24000, f"{tool} answered {len(text)} bytes"
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        if self.modern:
            assert result["resultType"] == "complete"
        return result["structuredContent"], result["isError"]

    def ok(self, tool, **arguments):
        document, is_error = self.call(tool, **arguments)
        assert not is_error, document
        return document

    def judged(self, candidate):
        while True:
            document = self.ok("wait", candidate=candidate, seconds=20)
            if document["state"] == "judged":
                return document

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()
        self.process.stderr.close()


class External(unittest.TestCase):
    def setUp(self):
        self.fettle = Fettle()
        self.addCleanup(self.fettle.close)

    def job(self, candidates=20):
        job = self.fettle.json("submit", TASK, "--target", "cpu", "--proposer", "external",
                               "--candidates", candidates, "--no-watch")
        self.fettle.until(lambda: self.fettle.json("jobs", job["id"])["state"] == "running", 60,
                          "the job to start")
        return job["id"]

    def token(self, job):
        path = self.fettle.home / "propose.token"
        self.fettle.run("token", job, "--out", path, check=True)
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        return path

    def drive(self, modern):
        self.fettle.start()
        job = self.job()
        client = McpClient(self.fettle, self.token(job), modern)
        self.addCleanup(client.close)
        if modern:
            found = client.request("server/discover", {})
            self.assertEqual(found["supportedVersions"], ["2026-07-28", "2025-11-25"])
        tools = [tool["name"] for tool in client.request("tools/list", {})["tools"]]
        self.assertEqual(tools, ["brief", "try_kernel", "propose", "wait", "attempts", "show", "claim"])
        brief = client.ok("brief")
        self.assertEqual(brief["task"], "scale")
        self.assertIn("for (int k", client.ok("brief", section="source")["text"])
        self.assertTrue(client.ok("claim", direction="no-loop", holder="test")["granted"])

        tried = client.ok("try_kernel", source=BROKEN, mode="compile")
        self.assertFalse(tried["feedback"]["passed"])
        self.assertTrue(any("twice" in d["text"] for d in tried["feedback"]["compile"]["diagnostics"]))
        tried = client.ok("try_kernel", source=WRONG, mode="check")
        self.assertEqual(tried["feedback"]["verdict"]["verdict"], "INCORRECT")
        self.assertTrue(client.ok("try_kernel", source=GOOD, mode="bugs")["feedback"]["passed"])

        wrong = client.ok("propose", source=WRONG, technique="no-loop", key="one")
        self.assertEqual(client.ok("propose", source=WRONG, technique="no-loop", key="one")["candidate"],
                         wrong["candidate"])
        judged = client.judged(wrong["candidate"])
        self.assertEqual(judged["feedback"]["verdict"]["verdict"], "INCORRECT")
        repaired = client.ok("propose", parent=wrong["candidate"],
                             edits=[{"find": "2.5f", "replace": "2.0f"}], technique="no-loop")
        judged = client.judged(repaired["candidate"])
        self.assertEqual(judged["feedback"]["verdict"]["verdict"], "WIN", judged)
        self.assertEqual(judged["bar"]["incumbent"]["candidate"], repaired["candidate"])
        self.assertGreater(judged["feedback"]["ratio"], 1.1)
        attempts = client.ok("attempts")["attempts"]
        self.assertEqual([a["verdict"] for a in attempts], ["WIN", "INCORRECT"])
        self.assertIn("2.0f", client.ok("show", candidate="incumbent", part="source")["text"])
        if modern:
            self.assertTrue(client.progress)

        document, is_error = client.call("propose", source=GOOD, key="one")
        self.assertTrue(is_error)
        self.assertEqual(document["error"]["code"], "key_reused")
        document, is_error = client.call("wait", candidate="feed")
        self.assertEqual(document["error"]["code"], "unknown_candidate")
        document, is_error = client.call("wait", candidate=7)
        self.assertEqual(document["error"]["code"], "bad_request")
        document, is_error = client.call("brief", job="j000000000000")
        self.assertEqual(document["error"]["code"], "permission_denied")
        self.assertEqual(client.process.poll(), None)
        return job

    def test_the_current_revision(self):
        job = self.drive(modern=True)
        variants = self.fettle.json("variants")
        self.assertEqual([v["job_id"] for v in variants], [job])

    def test_the_revision_before(self):
        self.drive(modern=False)

    def test_what_is_under_way_is_answered_at_the_end_of_the_input(self):
        self.fettle.start()
        client = McpClient(self.fettle, self.token(self.job()))
        client.send({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {
            "name": "try_kernel", "arguments": {"source": GOOD, "mode": "compile"},
            "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                      "io.modelcontextprotocol/clientCapabilities": {}}}})
        client.process.stdin.close()
        self.assertEqual(client.process.wait(120), 0)
        answer = client.messages.get(timeout=30)
        self.assertEqual(answer["id"], 9)
        self.assertTrue(answer["result"]["structuredContent"]["feedback"]["passed"], answer)
        client.process.stdout.close()
        client.process.stderr.close()

    def test_propose_by_script_and_over_a_crash(self):
        self.fettle.start()
        job = self.job(candidates=4)
        self.assertEqual(self.fettle.json("brief", job)["task"], "scale")
        text = self.fettle.run("brief", job, "--section", "source", check=True).stdout
        self.assertEqual(self.fettle.json("brief", job, "--section", "source"), {"section": "source", "text": text})
        source = self.fettle.home / "kernel.cu"
        source.write_text(BROKEN)
        done = self.fettle.run("propose", job, source, "--wait", "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["feedback"]["verdict"]["verdict"], "COMPILE_ERROR")
        self.fettle.stop(signal.SIGKILL)
        self.fettle.start()
        patch = self.fettle.home / "repair.patch"
        patch.write_text("@@ -3 +3 @@\n-  if (i < n) y[i] = twice(x[i]);\n+  if (i < n) y[i] = 2.0f * x[i];\n")
        done = self.fettle.run("propose", job, patch, "--parent", answer["candidate"], "--wait",
                               "--technique", "no-loop")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("WIN", done.stdout)
        self.assertIn("to beat", done.stdout)
        source.write_text(WRONG)
        done = self.fettle.run("propose", job, source, "--try", "check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("wrong in", done.stdout)
        done = self.fettle.run("propose", job, patch)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("does not match", done.stderr)
        self.assertEqual(int(self.fettle.json("jobs", job)["spent"]["candidates"]), 2)

    def test_over_tcp_the_token_is_all(self):
        self.fettle.start("--listen", "127.0.0.1:0")
        log = self.fettle.tail()
        address = next(word.strip(",") for word in log.replace("=", " ").split()
                       if word.startswith("127.0.0.1:") and not word.strip(",").endswith(":0"))
        job = self.job()
        client = McpClient(self.fettle, self.token(job), server=address)
        self.addCleanup(client.close)
        self.assertEqual(client.ok("brief")["bar"]["job"], job)
        refused = self.fettle.run("jobs", "--endpoint", address, "--token-file",
                                  self.fettle.home / "propose.token")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("propose token", refused.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
