#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Best effort: fetches a hiprtc that knows gfx950 (7.x, else 6.4) with the glibc it needs into a
# folder. FETTLE_HIPRTC_PREFIX=FOLDER then makes fettle compile AMD kernels with it.
#
# usage: deploy/scripts/get_hiprtc.sh FOLDER
# Exits 0 when it is there, 77 with the reason when it cannot be had: newer suites move, so a missing
# hiprtc must skip tests and not fail them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/scripts/debian_suite.sh
. "$here/debian_suite.sh"
prefix=$(realpath -m "${1:?usage: get_hiprtc.sh FOLDER}")
if [ -e "$prefix" ] && [ ! -d "$prefix/.apt" ]; then
  echo "$prefix exists and was not made by this script" >&2
  exit 2
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for attempt in "experimental libhiprtc7 libhiprtc-builtins7" "sid libhiprtc6 libhiprtc-builtins6" \
  "forky libhiprtc6 libhiprtc-builtins6"; do
  read -r suite packages <<<"$attempt"
  rm -rf "$prefix"
  mkdir -p "$prefix"
  # shellcheck disable=SC2086  # $packages is a list.
  if fetch_packages "$prefix" "$suite" main yes $packages libamd-comgr3 >"$log" 2>&1; then
    echo "hiprtc from $suite in $prefix, $(du -sm "$prefix" | cut -f1) MB"
    exit 0
  fi
done
rm -rf "$prefix"
echo "skipped: no hiprtc could be fetched: $(tail -n 1 "$log")"
exit 77
