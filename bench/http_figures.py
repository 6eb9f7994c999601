# SPDX-License-Identifier: Apache-2.0
"""Figures of the HTTP side: when list pages can be used, latency of list calls at a fixed rate while a
job runs, and what idle event streams cost.
Usage: bench/run http_figures [--data FOLDER] [--seconds N] [--rate N] [--streams N] [--repeats N]
                              [--only pages|calls|streams]

Uses a data folder with 100,000 candidates and 5,000 variants, which it makes where it is missing, and
runs a real job on the CPU target beside the calls. About three minutes on two cores."""
import argparse
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = ROOT / "build" / "bin"
CALLS = ["/api/v1/jobs?limit=100", "/api/v1/variants?limit=100", "/api/v1/variants?limit=100&sort=-ratio",
         "/api/v1/variants?limit=100&q=softmax", "/api/v1/jobs/{job}/candidates?limit=100",
         "/api/v1/jobs/{job}/candidates?limit=100&verdict=WIN", "/api/v1/jobs/{job}/events?limit=100",
         "/api/v1/cases?limit=100&target=gfx950", "/api/v1/catalog", "/api/v1/workers", "/api/v1/devices"]


def start(data, *arguments):
    env = {**os.environ, "FETTLE_DATA_DIR": str(data)}
    server = subprocess.Popen([BIN / "fettle", "serve", "--data-dir", data, "--http", "127.0.0.1:0", *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
    for line in server.stdout:
        found = re.search(r"dashboard at (http://127.0.0.1:(\d+)/login\S+)", line)
        if found:
            return server, int(found.group(2)), found.group(1)
    raise SystemExit("the server did not start")


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def latencies(port, token, job, rate, seconds):
    """Milliseconds by call: requests are sent at their times, whatever the answers take."""
    out, lock = {}, threading.Lock()
    begin = time.monotonic()
    count = int(rate * seconds)
    workers = 8

    def work(first):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for number in range(first, count, workers):
            due = begin + number / rate
            time.sleep(max(0, due - time.monotonic()))
            call = CALLS[number % len(CALLS)]
            connection.request("GET", call.format(job=job), headers={"Authorization": f"Bearer {token}", "Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            answer.read()
            took = (time.monotonic() - due) * 1e3  # From when it was due: waiting counts.
            assert answer.status == 200, (call, answer.status)
            with lock:
                out.setdefault(call, []).append(took)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return out


def streams(server, port, token, job, number, seconds):
    """Share of one core that idle streams cost, beyond the server without them."""
    def load(span):
        before, begin = cpu_seconds(server.pid), time.monotonic()
        time.sleep(span)
        return (cpu_seconds(server.pid) - before) / (time.monotonic() - begin)

    without = load(seconds)
    open_streams = []
    for index in range(number):
        path = f"/api/v1/jobs/{job}/stream?after=100000000" if index % 2 else "/api/v1/jobs/stream"
        stream = socket.create_connection(("127.0.0.1", port))
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        assert b" 200 " in stream.recv(4096)
        open_streams.append(stream)
    time.sleep(2)
    with_streams = load(seconds)
    alive = 0
    for stream in open_streams:
        stream.setblocking(False)
        try:
            data = stream.recv(1 << 20)
            alive += data != b""
        except BlockingIOError:
            alive += 1
        stream.close()
    return without, with_streams, alive


def pages(link, repeats):
    """Milliseconds until list pages can be used, by path; nothing without Node.js and Chromium."""
    node, chromium = shutil.which("node"), os.environ.get("FETTLE_CHROMIUM") or shutil.which("chromium")
    if not node or not chromium:
        print("pages: not measured, since there is no " + ("Node.js" if not node else "chromium"))
        return {}
    wanted = ["/jobs=Jobs", "/variants?status==Variants", "/variants?status=&sort=-ratio&q=softmax=Variants"]
    done = subprocess.run([node, ROOT / "web" / "bench" / "page_times.mjs", link, str(repeats), *wanted], check=True,
                          capture_output=True, text=True, env={**os.environ, "FETTLE_CHROMIUM": chromium})
    return json.loads(done.stdout)


def submit(data):
    """A job of many candidates: it must not end before its measurement does."""
    command = [BIN / "fettle", "submit", ROOT / "tasks" / "histogram", "--target", "cpu", "--candidates", "60",
               "--no-watch", "--json"]
    env = {**os.environ, "FETTLE_DATA_DIR": str(data)}
    return json.loads(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout)["id"]


def get(port, token, path):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    return json.loads(connection.getresponse().read())


def measure(data, options):
    token_file = data / "operate.token"
    if options.only in (None, "pages", "streams"):
        # Without a worker a submitted job stays open: its stream is idle, as are all others.
        server, port, link = start(data, "--no-worker")
        token = token_file.read_text().strip()
        try:
            if options.only in (None, "pages"):
                for path, times in pages(link, options.repeats).items():
                    print(f"{path}: interactive after {quantile(times, .5)} ms (median of {len(times)}; "
                          f"{min(times)} to {max(times)})", flush=True)
            if options.only in (None, "streams"):
                job = submit(data)
                without, with_streams, alive = streams(server, port, token, job, options.streams, options.seconds)
                print(f"{alive} of {options.streams} idle streams: {100 * with_streams:.2f} % of a core "
                      f"(the server without them: {100 * without:.2f} %)", flush=True)
        finally:
            server.terminate()
            server.wait()
    if options.only in (None, "calls"):
        server, port, _ = start(data)  # With its worker a job runs.
        token = token_file.read_text().strip()
        try:
            job = submit(data)
            largest = max(get(port, token, "/api/v1/jobs?limit=500")["jobs"], key=lambda one: one["candidate_count"])["id"]
            time.sleep(5)
            before = get(port, token, f"/api/v1/jobs/{job}")["job"]
            times = latencies(port, token, largest, options.rate, options.seconds)
            after = get(port, token, f"/api/v1/jobs/{job}")["job"]
            every = [took for values in times.values() for took in values]
            print(f"{options.rate:g} requests/s for {options.seconds} s beside a job ({before['state']} to {after['state']}, "
                  f"{before['candidate_count']} to {after['candidate_count']} candidates): p50 {quantile(every, .5):.1f} ms, "
                  f"p99 {quantile(every, .99):.1f} ms, most {max(every):.1f} ms")
            for call, values in sorted(times.items()):
                print(f"  {call}: p50 {quantile(values, .5):.1f} ms, p99 {quantile(values, .99):.1f} ms ({len(values)})")
        finally:
            server.terminate()
            server.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", choices=["pages", "calls", "streams"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(options.data or pathlib.Path(folder) / "data")
        if not (data / "fettle.db").exists():
            subprocess.run([BIN / "seed_store", "--data", data, "--tasks", ROOT / "tasks", "--jobs", "50",
                            "--candidates", "100000", "--variants", "5000"], check=True)
        measure(data, options)


if __name__ == "__main__":
    main()
