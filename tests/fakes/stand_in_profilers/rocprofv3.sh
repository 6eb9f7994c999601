#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stands in for rocprofv3 in tests: writes the documented CSV with those rows of the recording that --pmc asks
# for, and fails where there are none, as the real one does for counters that a device lacks.
here=$(dirname "$0")
asked=
folder=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  case "$1" in
    --pmc) shift; while [ "${1#--}" = "$1" ]; do asked="$asked $1"; shift; done; continue ;;
    -d) folder=$2; shift ;;
  esac
  shift
done
out="$folder/counters_counter_collection.csv"
head -n 1 "$here/rocprofv3.csv" > "$out"
found=0
for counter in $asked; do
  grep "\"$counter\"" "$here/rocprofv3.csv" >> "$out" && found=1
done
[ $found = 1 ] && exit 0
rm "$out"
echo "rocprofv3: no such counter:$asked"
exit 1
