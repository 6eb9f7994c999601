# SPDX-License-Identifier: Apache-2.0
"""Writes compile commands for clang-tidy: those of a build folder with a copy of the precompiled header, since
clang cannot read what g++ precompiled, with clang's own standard library, and without -Werror, since clang's own
warnings are not what is asked for.

    lint_database.py BUILD OUT     writes OUT/compile_commands.json
"""
import json
import pathlib
import re
import sys


def main():
    build, out = map(pathlib.Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    copies = {}

    def copied(match):
        header = match.group(1)
        if header not in copies:
            copies[header] = out / f"pch{len(copies)}.h"
            copies[header].write_text(pathlib.Path(header).read_text())
        return f"-include {copies[header].resolve()}"

    commands = json.loads((build / "compile_commands.json").read_text())
    for entry in commands:
        command = re.sub(r" -Winvalid-pch| -Werror\b", "", entry["command"])
        command = re.sub(r"-include (\S*cmake_pch\S*)", copied, command)
        entry["command"] = command.replace(" -std=", " -stdlib=libc++ -fexperimental-library -std=", 1)
    (out / "compile_commands.json").write_text(json.dumps(commands, indent=1))


if __name__ == "__main__":
    main()
