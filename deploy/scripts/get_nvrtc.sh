#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Best effort: fetches NVRTC 12.4 (sm_90a; non-free) into a folder.
# FETTLE_NVRTC_LIBRARY=FOLDER/usr/lib/x86_64-linux-gnu/libnvrtc.so.12 then makes fettle use it where
# CUDA is not installed. Without CUDA's headers (their package is over 2 GB): kernels that include
# cuda_fp16.h and its kin do not compile with it.
#
# usage: deploy/scripts/get_nvrtc.sh FOLDER
# Exits 0 when it is there, 77 with the reason when it cannot be had.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/scripts/debian_suite.sh
. "$here/debian_suite.sh"
prefix=$(realpath -m "${1:?usage: get_nvrtc.sh FOLDER}")
if [ -e "$prefix" ] && [ ! -d "$prefix/.apt" ]; then
  echo "$prefix exists and was not made by this script" >&2
  exit 2
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for suite in trixie sid; do
  rm -rf "$prefix"
  mkdir -p "$prefix"
  if fetch_packages "$prefix" "$suite" non-free no libnvrtc12 libnvrtc-builtins12.4 \
    >"$log" 2>&1; then
    echo "NVRTC from $suite in $prefix, $(du -sm "$prefix" | cut -f1) MB"
    exit 0
  fi
done
rm -rf "$prefix"
echo "skipped: no NVRTC could be fetched: $(tail -n 1 "$log")"
exit 77
