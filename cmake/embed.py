"""Writes a header and a source with the bytes of files (see embed.cmake)."""
import pathlib
import sys

name, function, header, source, *specs = sys.argv[1:]
files, names = [], []
for spec in specs:  # "path", or "name=path".
    label, _, path = spec.rpartition("=")
    files.append(path)
    names.append(label or pathlib.Path(path).name)
pathlib.Path(header).parent.mkdir(parents=True, exist_ok=True)
pathlib.Path(header).write_text(
    "#pragma once\n#include <span>\n#include \"core/embedded_file.h\"\nnamespace fettle {\n"
    f"std::span<const EmbeddedFile> {function}();\n}}  // namespace fettle\n")
lines = [f'#include "{name}"', "namespace fettle {", "namespace {"]
for i, path in enumerate(files):
    data = pathlib.Path(path).read_bytes()
    lines.append(f"constexpr unsigned char kData{i}[] = {{")
    for at in range(0, len(data), 32):
        lines.append(",".join(str(b) for b in data[at:at + 32]) + ",")
    lines.append("0};")
lines.append("}  // namespace")
lines.append(f"std::span<const EmbeddedFile> {function}() {{")
lines.append(f"  static const EmbeddedFile files[] = {{")
for i in range(len(files)):
    lines.append(f'    {{"{names[i]}", {{reinterpret_cast<const char*>(kData{i}), '
                 f"sizeof kData{i} - 1}}}},")
lines += ["  };", "  return files;", "}", "}  // namespace fettle", ""]
pathlib.Path(source).write_text("\n".join(lines))
