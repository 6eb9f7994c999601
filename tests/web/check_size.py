"""Fails when what a browser loads first for the list pages is too large: check_size.py DIST_FOLDER."""
import gzip
import pathlib
import re
import sys

LIMIT_BYTES = 350_000  # Compressed.

dist = pathlib.Path(sys.argv[1])
page = (dist / "index.html").read_text()
names = ["index.html", *sorted(set(re.findall(r'(?:src|href)="/([^"]+)"', page)))]
# A chunk that the first script imports at once belongs to it; import("...") does not.
for name in list(names):
    if not name.endswith(".js"):
        continue
    text = (dist / name).read_text()
    for other in re.findall(r'(?:import|from)\s*"\./([^"]+\.js)"', text):
        names.append(str(pathlib.PurePosixPath(name).parent / other))
total = 0
for name in dict.fromkeys(names):
    size = len(gzip.compress((dist / name).read_bytes(), 9))
    total += size
    print(f"{size:8} {name}")
print(f"{total:8} in all, of at most {LIMIT_BYTES}")
if not any(name.endswith(".js") for name in names):
    sys.exit("no script is named by index.html")
sys.exit(total > LIMIT_BYTES)
