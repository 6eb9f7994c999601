#!/bin/bash
# A worker of one fettle job, as Slurm starts it. `fettle serve --fleet` fills in the head and the
# set-up of the target and keeps the result beside the worker's logs.
# SPDX-License-Identifier: Apache-2.0
# @HEAD@
# @SETUP@
# Slurm tells newer scripts when it will end them; otherwise the limit counts from now.
until=${SLURM_JOB_END_TIME:-$((limit_s > 0 ? $(date +%s) + limit_s : 0))}
[ "$until" -gt 0 ] && worker+=(--until "$until")

ending='' child=''
end() {
  ending=1
  [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
}
trap end TERM INT USR1

# Slurm does not start again what died by itself, so that is done here. A worker that ends with 0
# has nothing left to do; one that fails at each of several starts will not do better.
failed=0
while [ -z "$ending" ]; do
  begin=$SECONDS
  "${worker[@]}" &
  child=$!
  wait "$child"
  code=$?
  while kill -0 "$child" 2>/dev/null; do # The trap ended the wait.
    wait "$child"
    code=$?
  done
  child=''
  [ "$code" != 0 ] || exit 0
  [ -z "$ending" ] || exit 0
  [ $((SECONDS - begin)) -lt 60 ] || failed=0
  failed=$((failed + 1))
  echo "fettle worker ended with $code (try $failed)" >&2
  [ "$failed" -lt 5 ] || exit "$code"
  sleep "$failed" &
  wait $!
done
exit 0
