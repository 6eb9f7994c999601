"""Packs a folder of web files as server/http/assets.h reads them: a line of JSON, then gzip bytes."""
import gzip
import hashlib
import json
import pathlib
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".woff2": "font/woff2",
    ".png": "image/png",
}

root, target = map(pathlib.Path, sys.argv[1:])
files, packed, offset = [], [], 0
for path in sorted(p for p in root.rglob("*") if p.is_file()):
    raw = path.read_bytes()
    data = gzip.compress(raw, 9, mtime=0)
    name = "/" + path.relative_to(root).as_posix()
    files.append({
        "path": name,
        "type": TYPES[path.suffix],
        "offset": offset,
        "size": len(data),
        "etag": '"%s"' % hashlib.sha256(raw).hexdigest()[:24],
        # The bundler puts a digest into these names.
        "immutable": name.startswith("/assets/"),
    })
    packed.append(data)
    offset += len(data)
if not any(f["path"] == "/index.html" for f in files):
    sys.exit(f"pack_web.py: {root} holds no index.html")
target.write_bytes(json.dumps({"files": files}).encode() + b"\n" + b"".join(packed))
