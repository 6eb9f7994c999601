# SPDX-License-Identifier: Apache-2.0
"""Writes compile commands for clang-tidy: those of a build folder without g++'s precompiled headers, which
clang cannot read, and without -Werror, since clang's own warnings are not what is asked for.

    lint_database.py BUILD OUT     writes OUT/compile_commands.json
"""
import json
import pathlib
import re
import sys


def plain(command):
    return re.sub(r" -Winvalid-pch| -include \S*cmake_pch\S*| -Werror\b", "", command)


def main():
    build, out = map(pathlib.Path, sys.argv[1:])
    commands = json.loads((build / "compile_commands.json").read_text())
    for entry in commands:
        entry["command"] = plain(entry["command"])
    out.mkdir(parents=True, exist_ok=True)
    (out / "compile_commands.json").write_text(json.dumps(commands, indent=1))


if __name__ == "__main__":
    main()
