#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# On a machine with an NVIDIA GPU and PyTorch, after on_gpu.sh: optimizes a task, exports the winner with PTX for later
# GPUs, verifies the bundle with a rerun, runs its test vectors through the C++ operator on the GPU, and checks and times
# its PyTorch operator over both interfaces of PyTorch (bench/torch_binding.py). Every step has a time limit; a step that
# fails does not stop the later ones. Prints a summary; FOLDER keeps bundle, logs and figures.
#
# usage: deploy/scripts/export_on_gpu.sh FOLDER [TASK] [flags of fettle demo]     (default: tasks/matmul, 8 candidates)
# shellcheck disable=SC2317  # Functions are called through `step`.
set -uo pipefail
out=${1:?usage: export_on_gpu.sh FOLDER [TASK] [flags of fettle demo]}
task=${2:-tasks/matmul}
shift $(( $# > 2 ? 2 : $# ))
mkdir -p "$out"
out=$(realpath "$out")
export XDG_CACHE_HOME=$out/cache XDG_CONFIG_HOME=$out/config FETTLE_DATA_DIR=$out/data
begin=$SECONDS
summary=()
failed=0

# step NAME SECONDS COMMAND...: runs it, its output also into FOLDER/NAME.log.
step() {
  local name=$1 limit=$2 at=$SECONDS code
  shift 2
  echo "== $name"
  timeout --kill-after=5 "$limit" "$@" 2>&1 | tee "$out/$name.log"
  code=${PIPESTATUS[0]}
  [ "$code" = 124 ] && echo "$name: stopped after $limit s"
  [ "$code" = 0 ] || failed=1
  summary+=("$(printf '%-16s %-6s %3d s' "$name" "$([ "$code" = 0 ] && echo ok || echo "FAIL $code")" $((SECONDS - at)))")
  return "$code"
}

finish() {
  echo "== summary ($((SECONDS - begin)) s)"
  printf '%s\n' "${summary[@]}"
  for kind in stable version; do
    [ -e "$out/torch_$kind.json" ] && python3 bench/torch_binding.py --summary "$out/torch_$kind.json"
  done
  exit "$failed"
}

vectors() {
  local name
  name=$(python3 -c 'import json,sys; m=json.load(open(sys.argv[1])); print(m["bundle"]["name"] + "_" + m["bundle"]["digest"][:8])' "$bundle/manifest.json")
  g++ -std=c++17 -O1 -pthread -I"$bundle/include" "-DFETTLE_ROOT_$name=\"$bundle\"" "$bundle/tests/check_vectors.cpp" \
    -o "$out/check_vectors" -ldl '-Wl,--export-dynamic-symbol=fettle_rt_*' && "$out/check_vectors" cuda
}

# The same variants again, with PTX that the driver of a later GPU compiles.
export_ptx() {
  local op server code
  op=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["op"]["name"])' "$bundle/manifest.json")
  build/bin/fettle serve --no-worker >"$out/serve.log" 2>&1 &
  server=$!
  for _ in $(seq 50); do build/bin/fettle jobs >/dev/null 2>&1 && break; sleep 0.2; done
  build/bin/fettle export --task "$op" --out "$out/ptx" --also compute_90 --no-vectors && build/bin/fettle verify "$out/ptx"
  code=$?
  kill "$server"
  wait "$server" 2>/dev/null
  return "$code"
}
export -f vectors export_ptx
export out

bundle=$out/bundle
export bundle
[ $# -gt 0 ] || set -- --candidates 8 --minutes 1
step demo 130 build/bin/fettle demo --task "$task" --target auto --out "$bundle" "$@"
[ -e "$bundle/manifest.json" ] || { echo "no variant was accepted; nothing to export" >&2; finish; }
step verify 20 build/bin/fettle verify "$bundle"
[ -e "$bundle/tests/check_vectors.cpp" ] && step vectors 40 bash -c vectors
step ptx 40 bash -c export_ptx
# Compiling against PyTorch's own headers takes long: it goes on meanwhile.
FETTLE_TORCH_ABI=version python3 bench/torch_binding.py "$bundle" --build-only >"$out/build_version.log" 2>&1 &
builder=$!
FETTLE_TORCH_ABI=stable python3 bench/torch_binding.py "$bundle" --compare-declarations >"$out/compare.log" 2>&1 &
comparer=$!
ptx=()
[ -e "$out/ptx/manifest.json" ] && ptx=(--ptx "$out/ptx")
FETTLE_TORCH_ABI=stable step torch_stable 60 python3 bench/torch_binding.py "$bundle" "${ptx[@]}" --json "$out/torch_stable.json"
wait "$builder"
FETTLE_TORCH_ABI=version step torch_version 90 python3 bench/torch_binding.py "$bundle" --json "$out/torch_version.json"
# What PyTorch's header says of the functions that the stable operator declares itself.
wait "$comparer"
step declarations 5 bash -c "cat '$out/compare.log'; exit $?"
finish
