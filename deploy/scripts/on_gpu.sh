#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prepares a bare machine with a GPU to run what collect_libs.sh packed into .carry on another one: programs into
# build/bin, libraries where the loader and the runner's sandbox find them. Run in the repository's root, as root.
set -euo pipefail
mkdir -p build/bin build/tests
cp -f .carry/bin/* build/bin/
cp -n .carry/lib/* /usr/local/lib/
[ -d .carry/tests ] && cp -f .carry/tests/* build/tests/
for tool in bwrap zstd; do
  if ! command -v "$tool" >/dev/null; then
    [ -e ".carry/bin/$tool" ] || { echo "on_gpu.sh: $tool is neither here nor packed" >&2; exit 1; }
    cp ".carry/bin/$tool" /usr/local/bin/
  fi
done
ldconfig
nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.limit --format=csv
g++ --version | head -1 || echo "no g++: no reference can be compiled"
build/bin/fettle doctor
