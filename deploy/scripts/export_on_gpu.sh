#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# On a machine with an NVIDIA GPU and PyTorch, after on_gpu.sh: optimizes a task, exports the winner, verifies the
# bundle with a rerun, runs its test vectors through the C++ operator on the GPU, and checks and times its PyTorch
# operator (bench/torch_binding.py). Prints figures; FOLDER keeps the bundle and torch.json.
#
# usage: deploy/scripts/export_on_gpu.sh FOLDER [TASK] [demo flags, such as --candidates 12 --minutes 4]
set -euo pipefail
out=${1:?usage: export_on_gpu.sh FOLDER [TASK] [demo flags]}
task=${2:-tasks/matmul}
shift $(( $# > 2 ? 2 : $# ))
mkdir -p "$out"
echo "== optimizing $task"
build/bin/fettle demo --data-dir "$out/data" --task "$task" --target auto --out "$out/bundle" "${@:---candidates=12}" && optimized=0 || optimized=$?
[ -e "$out/bundle/manifest.json" ] || { echo "no variant was accepted; nothing to export" >&2; exit 1; }
build/bin/fettle verify "$out/bundle"
echo "== test vectors through the C++ operator"
name=$(python3 -c 'import json,sys; m=json.load(open(sys.argv[1])); print(m["bundle"]["name"] + "_" + m["bundle"]["digest"][:8])' "$out/bundle/manifest.json")
root=$(realpath "$out/bundle")
if [ -e "$root/tests/check_vectors.cpp" ]; then
  g++ -std=c++17 -O1 -pthread -I"$root/include" "-DFETTLE_ROOT_$name=\"$root\"" "$root/tests/check_vectors.cpp" -o "$out/check_vectors" -ldl \
    '-Wl,--export-dynamic-symbol=fettle_rt_*'
  "$out/check_vectors" cuda
fi
echo "== the PyTorch operator"
python3 bench/torch_binding.py "$root" --json "$out/torch.json"
# The bundle is looked at even where the demo's own rerun did not agree with it, but that stays a failure.
[ "$optimized" = 0 ] || { echo "the demo ended with $optimized: see above" >&2; exit "$optimized"; }
