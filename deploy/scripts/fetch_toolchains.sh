#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Best effort, for tests: NVRTC 12.4 where CUDA is not installed, and hiprtc where ROCm is not, each in
# a folder of its own below FOLDER. FOLDER/environment, to be sourced, then makes fettle use them. What is
# there already is not fetched again.
#
# usage: deploy/scripts/fetch_toolchains.sh FOLDER
# Prints a line for each. Always exits 0: without a network, or when newer suites have moved, tests skip.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(realpath -m "${1:?usage: fetch_toolchains.sh FOLDER}")
limit=${FETTLE_FETCH_SECONDS:-180}
mkdir -p "$folder"
: >"$folder/environment"

# loadable NAME...: whether the loader, or a usual folder of CUDA or ROCm, has one of the libraries.
loadable() {
  local name path
  for name in "$@"; do
    ldconfig -p 2>/dev/null | grep -q "$name" && return 0
    for path in /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib /opt/rocm/lib; do
      [ -e "$path/$name" ] && return 0
    done
  done
  return 1
}

# fetch WHAT SCRIPT: runs the script unless its result is there.
fetch() {
  local what=$1 script=$2 out
  if [ -e "$folder/$what/.fetched" ]; then
    echo "$what: fetched before"
    return 0
  fi
  out=$(timeout "$limit" "$here/$script" "$folder/$what" 2>&1)
  case $? in
    0) touch "$folder/$what/.fetched"; echo "$what: $(tail -n 1 <<<"$out")" ;;
    124) rm -rf "${folder:?}/$what"; echo "$what: skipped: not fetched within $limit s"; return 1 ;;
    *) rm -rf "${folder:?}/$what"; echo "$what: $(tail -n 1 <<<"$out")"; return 1 ;;
  esac
}

if loadable libnvrtc.so.13 libnvrtc.so.12; then
  echo "nvrtc: of the system"
elif fetch nvrtc get_nvrtc.sh; then
  library=$(find "$folder/nvrtc/usr/lib" -name 'libnvrtc.so.12*' | sort | head -n 1)
  echo "export FETTLE_NVRTC_LIBRARY=\"$library\"" >>"$folder/environment"
fi
if loadable libhiprtc.so.7 libhiprtc.so.6; then
  echo "hiprtc: of the system"
elif fetch hiprtc get_hiprtc.sh; then
  echo "export FETTLE_HIPRTC_PREFIX=\"$folder/hiprtc\"" >>"$folder/environment"
fi
exit 0
