"""Runs the dashboard's browser tests: run_e2e.py NODE WEB_FOLDER [PLAYWRIGHT ARGUMENTS]."""
import os
import pathlib
import shutil
import subprocess
import sys

node, web, *more = sys.argv[1:]
chromium = os.environ.get("FETTLE_CHROMIUM") or shutil.which("chromium")
if not chromium:
    print("skipped: no chromium here; Debian's package is named in deploy/packages.txt")
    sys.exit(77)
command = [node, str(pathlib.Path(web) / "node_modules" / "@playwright" / "test" / "cli.js"), "test", *more]
sys.exit(subprocess.run(command, cwd=web, env={**os.environ, "FETTLE_CHROMIUM": chromium, "CI": "1"}).returncode)
