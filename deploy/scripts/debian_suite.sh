# SPDX-License-Identifier: Apache-2.0
# Sourced by get_hiprtc.sh and get_nvrtc.sh: fetches packages of a newer Debian suite into a private
# prefix with an apt state of its own. The host's package database stays as it is; no root is needed.
# shellcheck shell=bash

# The archive that the host itself uses; DEBIAN_URI overrides it.
archive_uri() {
  if [ -n "${DEBIAN_URI:-}" ]; then
    echo "$DEBIAN_URI"
    return
  fi
  local codename
  # shellcheck source=/dev/null
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  # shellcheck disable=SC2016  # apt expands these.
  apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk -v release="$codename" '$1 == release && $2 == "main" { print $3; exit }'
}

# fetch_packages PREFIX SUITE COMPONENT RECURSE PACKAGE...
# RECURSE yes: with all dependencies, glibc included; no: these packages alone. experimental is an
# overlay over sid, so both are read.
fetch_packages() {
  local prefix=$1 suite=$2 component=$3 recurse=$4
  shift 4
  local uri apt suites=$suite s
  uri=$(archive_uri)
  [ -n "$uri" ] || { echo "no Debian archive in the apt sources; set DEBIAN_URI" >&2; return 1; }
  [ "$suite" = experimental ] && suites="sid experimental"
  apt=$prefix/.apt
  mkdir -p "$apt"/etc/{apt.conf.d,preferences.d,trusted.gpg.d} "$apt"/state/lists/partial \
    "$apt"/cache/archives/partial "$apt"/debs
  rm -f "$apt"/cache/archives/*.deb "$apt"/debs/*.deb
  : >"$apt/status" # An empty dpkg status: every dependency is fetched.
  for s in $suites; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $s $component"
  done >"$apt/etc/sources.list"
  # Check-Valid-Until is off because an archive copy may carry an expired Release file.
  cat >"$apt/options" <<OPTIONS
Dir::Etc "$apt/etc";
Dir::Etc::sourcelist "$apt/etc/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Debug::NoLocking "true";
OPTIONS
  APT_CONFIG=$apt/options apt-get update -qq || return 1
  if [ "$recurse" = yes ]; then
    APT_CONFIG=$apt/options apt-get -t "$suite" -y -qq --download-only install "$@" || return 1
    mv "$apt"/cache/archives/*.deb "$apt/debs/"
  else
    (cd "$apt/debs" && APT_CONFIG=$apt/options apt-get download -qq "$@") || return 1
  fi
  local deb
  for deb in "$apt"/debs/*.deb; do dpkg -x "$deb" "$prefix" || return 1; done
  rm -f "$apt"/debs/*.deb
}
