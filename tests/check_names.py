# SPDX-License-Identifier: Apache-2.0
"""One name, one type: two classes of one name in namespace fettle are one class to the linker.

    tests/check_names.py SOURCE_DIR

Lists class and struct names that are defined outside unnamed namespaces in more than one header.
"""
import collections
import pathlib
import re
import sys

DEFINITION = re.compile(r"^(?:template <[^>]*>\s*)?(?:class|struct|enum class|enum) (?:\[\[\w+\]\] )?"
                        r"(\w+)(?=[\s{])[^;=():]*(?::[^:][^;=()]*)?\{", re.M)
NAMESPACE = re.compile(r"^namespace (fettle(?:::\w+)*) \{", re.M)
FOLDERS = ("agent", "cli", "compiler", "core", "device", "exporter", "judge", "profiler", "proto",
           "server", "store", "verifier", "worker")


def main():
    root = pathlib.Path(sys.argv[1])
    found = collections.defaultdict(set)
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.h")):
            if "runtime_include" in path.parts:
                continue
            text = path.read_text()
            namespace = NAMESPACE.search(text)
            if not namespace:
                continue
            for name in DEFINITION.findall(text):
                found[namespace.group(1), name].add(str(path.relative_to(root)))
    twice = {key: places for key, places in found.items() if len(places) > 1}
    for (namespace, name), places in sorted(twice.items()):
        print(f"{namespace}::{name} is defined in {', '.join(sorted(places))}; rename one")
    if not found:
        print("no definitions found: is this the source folder?")
    return 1 if twice or not found else 0


if __name__ == "__main__":
    sys.exit(main())
