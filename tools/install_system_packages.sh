#!/usr/bin/env bash
# Installs the distribution's packages that the build needs and this machine lacks, and says which.
# It does nothing when all are there, and needs root (or sudo) for apt-get only. `sanitizers` adds the
# packages of the sanitized builds and the fuzzers, `development` those of the tests, and `emulation`
# those that compile and run programs for other processors.
# Usage: tools/install_system_packages.sh [PYTHON [sanitizers] [development] [emulation]]
set -euo pipefail

python=${1:-python3}
missing=()
need() { # need <package> <test...>: the package when the test fails
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}

need g++ command -v g++
need cmake command -v cmake
need ninja-build command -v ninja
need ccache command -v ccache
need libgtest-dev test -e /usr/include/gtest/gtest.h
need python3 command -v "$python"
need python3-venv "$python" -c 'import ensurepip, venv'
need python3-dev "$python" -c \
  'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")'
for purpose in "${@:2}"; do
  case $purpose in
    sanitizers)
      need clang-16 command -v clang++-16
      need libclang-rt-16-dev test -e \
        /usr/lib/llvm-16/lib/clang/16/lib/linux/libclang_rt.fuzzer-x86_64.a
      ;;
    development)
      need chromium command -v chromium
      need chromium-driver command -v chromedriver
      ;;
    emulation)
      need qemu-user command -v qemu-x86_64
      need g++-aarch64-linux-gnu command -v aarch64-linux-gnu-g++
      need googletest test -e /usr/src/googletest/CMakeLists.txt
      ;;
  esac
done

[ ${#missing[@]} -eq 0 ] && exit 0
echo "[set-up] Missing system packages: ${missing[*]}"
command -v apt-get >/dev/null || {
  echo "[set-up] This is not a Debian or Ubuntu system: install what corresponds to them." >&2
  exit 1
}
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "[set-up] Run as root: apt-get install ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "[set-up] Installing them with apt-get."
quiet=(DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes)
"${as_root[@]}" env "${quiet[@]}" apt-get -qq update
"${as_root[@]}" env "${quiet[@]}" apt-get -qq install -y --no-install-recommends \
  "${missing[@]}" >/dev/null
