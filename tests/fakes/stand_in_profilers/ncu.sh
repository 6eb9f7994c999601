#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stands in for ncu in tests: what it does is named by the file "behaviour" beside the link it is started by.
here=$(dirname "$0")
case "$(cat "$here/behaviour")" in
  good) cat "$here/ncu.csv" ;;
  unknown) # One metric is not known to this device.
    case "$*" in
      *sm__inst_executed_pipe_tensor_op_hmma_type_hfma2*)
        echo "==ERROR== Failed to find metric sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum"; exit 1 ;;
    esac
    cat "$here/ncu.csv" ;;
  refused)
    echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"
    exit 1 ;;
  hangs) exec tail -f /dev/null ;;
  silent) echo "==PROF== No kernels were profiled." ;;
  *) exit 64 ;;
esac
