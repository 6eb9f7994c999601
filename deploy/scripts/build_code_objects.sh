#!/bin/bash
# Rebuilds the small code objects that are kept in the tree: the kernels of device/kernels
# and the objects of tests/data/code_objects. Needs clang-22 with lld-22, and nvcc for the NVIDIA ones
# (which are left as they are where it is missing).
#
# usage: deploy/scripts/build_code_objects.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

amd() { # ARCH SOURCE OUT [OPTION...]
  local arch=$1 source=$2 out=$3
  shift 3
  clang-22 -x hip --offload-device-only --no-gpu-bundle-output --offload-arch="$arch" -O3 -nogpuinc \
    -nogpulib -nostdinc -fdeclspec -fuse-cuid=none "$@" "$source" -o "$out"
}

shims=$(mktemp -d)
trap 'rm -rf "$shims"' EXIT
cp compiler/gpu/shims/*.h "$shims"
cp compiler/gpu/shims/fettle_amd_device.h "$shims/fettle_device.h"
data=tests/data/code_objects
for arch in gfx90a gfx942 gfx950; do
  amd "$arch" device/kernels/kernels.hip "device/kernels/kernels.$arch.co"
  amd "$arch" "$data/facts_kernels.hip" "$data/facts_kernels.$arch.co" -I"$shims" -include fettle_hip.h
  amd "$arch" "$data/device_kernels.cu" "$data/device_kernels.$arch.co" -I"$shims" \
    -include fettle_cuda_on_amd.h
done
chmod 644 device/kernels/*.co "$data"/*.co

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [ -x "$nvcc" ]; then
  "$nvcc" -cubin -arch=sm_90a "$data/facts_kernels.cu" -o "$data/facts_kernels.sm_90a.cubin"
  # An old PTX version, so that older drivers take it.
  for kernel in digest draw; do
    "$nvcc" -ptx -arch=compute_75 -std=c++20 -fmad=false "device/kernels/$kernel.cu" -o - |
      sed '/^\/\//d; /^\.version/d; /^\.target/d; /^\.address_size/d'
  done | cat device/kernels/spin.ptx - > device/kernels/kernels.ptx
  # Built ahead too, because a driver takes some 100 ms for the PTX in every process.
  for arch in sm_80 sm_90a sm_100a; do
    "$(dirname "$nvcc")/ptxas" -arch="$arch" -O3 device/kernels/kernels.ptx \
      -o "device/kernels/kernels.$arch.cubin"
  done
  "$nvcc" -ptx -arch=compute_80 device/kernels/matrix_sm80.cu -o - |
    sed 's/^\.version .*/.version 7.0/; /^\/\//d' > device/kernels/matrix.ptx
  "$nvcc" -ptx -arch=sm_90a device/kernels/matrix_sm90.cu -o - |
    sed 's/^\.version .*/.version 8.0/; /^\/\//d' > device/kernels/matrix.sm_90a.ptx
  "$nvcc" -ptx -arch=compute_75 "$data/device_kernels.cu" -o - |
    sed 's/^\.version .*/.version 7.0/; /^\/\//d' > "$data/device_kernels.ptx"
else
  echo "no nvcc: the NVIDIA objects are left as they are"
fi
