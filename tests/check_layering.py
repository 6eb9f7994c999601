"""Fails when a folder includes a header it must not know about (ARCHITECTURE.md)."""
import pathlib
import re
import sys

MAY_INCLUDE = {
    "core": set(),
    "proto": {"core"},
    "judge": {"core"},
    "compiler": {"core"},
    "device": {"core"},
    "store": {"core"},
    "agent": {"core"},
    "verifier": {"core", "compiler", "device"},
    "profiler": {"core", "compiler", "device"},
    "worker": {"core", "compiler", "device", "verifier", "profiler", "judge", "proto"},
    "exporter": {"core", "compiler", "judge", "store"},
    "server": {"core", "agent", "store", "judge", "exporter", "proto"},
    "cli": {"core", "proto", "store", "worker", "exporter", "server"},
}
# cli/ includes store/ only for `fettle backup` and `gc`, server/ only to start it (`fettle serve`), and worker/ likewise and for its local
# commands; device/ and compiler/ it reaches through worker/.
VENDOR = re.compile(r"^\s*#\s*include\s+<(hip/|cuda|nvrtc|hiprtc|sqlite3|grpcpp/)")
VENDOR_OWNERS = {"device", "compiler", "store", "server", "worker", "cli", "proto"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')

root = pathlib.Path(sys.argv[1])
bad = []
checked = 0
for folder, allowed in MAY_INCLUDE.items():
    for path in sorted((root / folder).rglob("*")):
        if path.suffix not in {".h", ".cc"}:
            continue
        if "runtime_include" in path.parts:  # Headers for candidate code, not ours.
            continue
        checked += 1
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if match:
                top = match.group(1).split("/")[0]
                wire = match.group(1).endswith(".pb.h")
                if wire and folder != "proto" and "proto" not in allowed:
                    bad.append(f"{path.relative_to(root)}:{number}: {folder} must not include the wire")
                if top in MAY_INCLUDE and top != folder and top not in allowed:
                    bad.append(f"{path.relative_to(root)}:{number}: {folder} must not include {match.group(1)}")
            if VENDOR.match(line) and folder not in VENDOR_OWNERS:
                bad.append(f"{path.relative_to(root)}:{number}: vendor header outside its folder")
print("\n".join(bad) or f"{checked} files keep to the layering")
sys.exit(bool(bad) or checked == 0)
