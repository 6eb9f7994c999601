#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a folder with which `fettle worker` starts on other x86-64 distributions, older ones too:
#   deploy/scripts/bundle_worker.sh OUT BIN_FOLDER
# It holds the programs, all their libraries, and a loader with its own C library for hosts whose own
# is older. OUT/relocate, run once where the folder will lie, decides what that place needs. Drivers
# and compilers are always the host's.
set -euo pipefail
[ $# = 2 ] || { echo "usage: bundle_worker.sh OUT BIN_FOLDER" >&2; exit 2; }
out=$1
bin=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
[ ! -e "$out" ] || { echo "$out is there already" >&2; exit 1; }
mkdir -p "$out"/{bin,lib,glibc}

copy_libraries() { # PROGRAM...
  local library name
  ldd "$@" | awk '$3 ~ /^\// { print $3 }' | sort -u | while read -r library; do
    name=$(basename "$library")
    case $name in
      ld-linux-x86-64.* | libc.* | libm.* | libmvec.* | libdl.* | libpthread.* | librt.* | \
        libresolv.* | libutil.* | libanl.* | libnss_*) cp -Ln "$library" "$out/glibc/" ;;
      *) cp -Ln "$library" "$out/lib/" ;;
    esac
  done
}

cp -L "$bin/fettle" "$bin/fettle-runner" "$bin/fettle-compiled" "$out/bin/"
patchelf=$(command -v patchelf)
cp -L "$patchelf" "$out/glibc/patchelf"
copy_libraries "$bin/fettle" "$bin/fettle-runner" "$bin/fettle-compiled" "$patchelf"
# Not among what ldd names, but opened by name: users, hosts, threads that are cancelled.
libraries=$(dirname "$(ldd "$bin/fettle" | awk '/libc\.so\.6/ { print $3 }')")
for name in libc.so.6 libm.so.6 libmvec.so.1 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2 \
  libutil.so.1 libanl.so.1 libnss_files.so.2 libnss_dns.so.2; do
  [ ! -e "$libraries/$name" ] || cp -Ln "$libraries/$name" "$out/glibc/"
done
cp -Ln "$libraries/libgcc_s.so.1" "$out/lib/"
cp -L /lib64/ld-linux-x86-64.so.2 "$out/glibc/ld.so"
strip --strip-debug "$out"/bin/*
getconf GNU_LIBC_VERSION | awk '{ print $2 }' >"$out/glibc/version"
cp "$here/deploy/bundle/relocate" "$out/relocate"
"$out/relocate" >/dev/null
echo "$out: $(du -sh "$out" | cut -f1)"
