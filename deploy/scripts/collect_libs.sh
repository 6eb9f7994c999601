#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copies programs and every shared library that they need, except glibc's own, into one folder, so that they start on
# another x86-64 Linux with an equal or newer glibc:
#   deploy/scripts/collect_libs.sh OUT build/bin/fettle build/bin/fettle-runner ...
#   LD_LIBRARY_PATH=OUT/lib OUT/bin/fettle doctor
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: collect_libs.sh OUT PROGRAM..." >&2; exit 2; }
out=$1; shift
mkdir -p "$out/bin" "$out/lib"
for program in "$@"; do
  cp -L "$program" "$out/bin/"
  ldd "$program" | awk '$3 ~ /^\// { print $3 }' |
    grep -vE '/(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libutil|libanl|libnss_[a-z]+)\.so' |
    while read -r library; do [ -e "$out/lib/$(basename "$library")" ] || cp -L "$library" "$out/lib/"; done
done
for program in "$out"/bin/*; do strip --strip-debug "$program"; done
du -sh "$out" | cut -f1
