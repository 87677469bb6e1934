# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What quickstart.sh, test.sh, bootstrap.sh and lint.sh share: talking to the person at the
# terminal, installing the packages that are missing, fetching oneDNN, configuring and building;
# cuda.sh beside it does the same for GPUs.
# Sourced, never run; the caller has already set `-euo pipefail`.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
ONEDNN="$ROOT/.deps/onednn"
STEP=0
STEPS="${STEPS:-0}"

say() { printf '%s\n' "$*"; }

# step TEXT: a numbered progress line when the caller has set STEPS.
step() {
  STEP=$((STEP + 1))
  if [ "$STEPS" -gt 0 ]; then printf '\n[%d/%d] %s\n' "$STEP" "$STEPS" "$*"; else printf '\n%s\n' "$*"; fi
}

# fail TEXT: one sentence that says what to do, then stop.
fail() {
  printf '\nerror: %s\n' "$*" >&2
  exit 1
}

# usage: the comment that the script begins with.
usage() { awk 'NR > 2 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"; }

# takes_nothing "$@": for scripts without arguments.
takes_nothing() {
  case "${1:-}" in
    "") ;;
    -h | --help) usage; exit 0 ;;
    *) fail "$(basename "$0") takes no arguments, not \"$1\"; --help says what it does" ;;
  esac
}

have() { command -v "$1" >/dev/null 2>&1; }

# shellcheck source=scripts/cuda.sh
. "$ROOT/scripts/cuda.sh"

# Exit status 0 if version $1 >= version $2.
version_at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

package_installed() {
  dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed
}

# The newest version of package $1 that apt could install, or nothing.
package_candidate() {
  { apt-cache policy "$1" 2>/dev/null || true; } | awk '/Candidate:/ { if ($2 != "(none)") print $2 }'
}

# Prints the first compiler that is g++ 12 or newer; nothing if there is none.
find_compiler() {
  local name
  for name in ${CXX:-} g++ c++ g++-15 g++-14 g++-13 g++-12; do
    if have "$name" && printf '#if (defined(__clang__) && __clang_major__ < 15) || (!defined(__clang__) && __GNUC__ < 12)\n#error too old\n#endif\n' |
      "$name" -std=c++20 -x c++ -E - >/dev/null 2>&1; then
      printf '%s\n' "$name"
      return
    fi
  done
}

has_onednn_fetched() { [ -e "$ONEDNN/lib/libdnnl.so" ] && [ -e "$ONEDNN/lib/cmake/dnnl/dnnl-config.cmake" ]; }

# oneDNN's development package where it is version 3 or newer; nothing otherwise.
onednn_package() {
  local name version
  for name in libdnnl-dev libonednn-dev; do
    version="$(package_candidate "$name")"
    if [ -n "$version" ] && version_at_least "$version" 3; then
      printf '%s\n' "$name"
      return
    fi
  done
}

# missing_packages: one name a line; reads apt's lists, which must be there for the oneDNN choice.
missing_packages() {
  local name version needs_pip=0
  if [ "${WITH_PIP:-no}" = yes ]; then needs_pip=1; fi
  have cmake || echo cmake
  have ninja || echo ninja-build
  if [ -z "$(find_compiler)" ]; then
    # Debian 12, 13 and Ubuntu 24.04 have g++ 12 or newer as `g++`; Ubuntu 22.04 has it as g++-12.
    version="$(package_candidate g++ | sed 's/^[0-9]*://')"
    if [ -z "$version" ] || version_at_least "$version" 12; then echo g++; else echo g++-12; fi
  fi
  for name in libgtest-dev libbenchmark-dev; do
    package_installed "$name" || echo "$name"
  done
  if ! has_onednn_fetched; then
    name="$(onednn_package)"
    if [ -n "$name" ]; then
      package_installed "$name" || echo "$name"
    else
      needs_pip=1
      package_installed libgomp1 || echo libgomp1
    fi
  fi
  if needs_cuda_fetch; then
    needs_pip=1
    package_installed zlib1g || echo zlib1g  # cuDNN's
  fi
  if [ "${WITH_NUMPY:-no}" = yes ] && ! /usr/bin/python3 -c 'import numpy' 2>/dev/null; then echo python3-numpy; fi
  if [ "$needs_pip" -eq 1 ]; then
    have python3 || echo python3
    python3 -m pip --version >/dev/null 2>&1 || echo python3-pip
    [ -e /etc/ssl/certs/ca-certificates.crt ] || echo ca-certificates
  fi
}

# Installs what is missing: as root directly, else through sudo, else it says what to ask for.
install_packages() {
  have dpkg-query && have apt-get ||
    fail "this script installs with apt-get (Debian 12 or newer, Ubuntu 22.04 or newer); on another system install CMake 3.22, Ninja, g++ 12, GoogleTest, Google Benchmark and oneDNN 3 yourself and run: cmake --preset release && cmake --build --preset release"
  local missing as_root=""
  missing="$(missing_packages | xargs)"
  if [ -z "$missing" ]; then
    say "all packages are installed"
    return
  fi
  if [ "$(id -u)" -ne 0 ]; then
    if have sudo; then
      as_root="sudo"
    else
      fail "these packages are missing and there is no sudo here; ask an administrator to run: apt-get install --no-install-recommends $missing"
    fi
  fi
  say "refreshing apt's lists"
  # One broken entry among someone's sources need not stop the rest: the installation below will tell.
  $as_root apt-get update -qq || say "apt-get update reported the error above; trying with the lists there are"
  missing="$(missing_packages | xargs)"
  say "installing: $missing"
  # shellcheck disable=SC2086 # a list of names
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >"$ROOT/.deps/apt.log" 2>&1 ||
    { tail -n 20 "$ROOT/.deps/apt.log" >&2; fail "apt-get could not install: $missing; its last lines are above and all of them in .deps/apt.log; check the network and /etc/apt/sources.list, then run this again"; }
}

# Fetches the pinned oneDNN into .deps/onednn unless the distribution's own is version 3.
fetch_onednn() {
  local name work wheel
  if has_onednn_fetched; then return; fi
  name="$(onednn_package)"
  if [ -n "$name" ] && package_installed "$name"; then
    say "oneDNN: the distribution's own ($(package_candidate "$name"))"
    return
  fi
  [ "$(uname -m)" = x86_64 ] ||
    fail "there is no ready-made oneDNN 3 for $(uname -m) on this distribution; build oneDNN 3 from source and set dnnl_DIR to the folder of its dnnl-config.cmake"
  say "fetching oneDNN 3.2 (39 MB)"
  work="$(mktemp -d "$ROOT/.deps/onednn.XXXXXX")"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    --dest "$work/wheels" --requirement "$ROOT/scripts/onednn.txt" ||
    { rm -rf "$work"; fail "oneDNN could not be fetched (pip's message is above); check the network, then run this again"; }
  for wheel in "$work"/wheels/*.whl; do
    python3 -m zipfile -e "$wheel" "$work/unpacked"
  done
  mkdir "$work/prefix"
  cp -a "$work"/unpacked/*.data/data/. "$work/prefix/"
  # A wheel holds no links: three copies of the library become one file and its two names.
  ln -sf libdnnl.so.3.2 "$work/prefix/lib/libdnnl.so.3"
  ln -sf libdnnl.so.3 "$work/prefix/lib/libdnnl.so"
  rm -rf "$ONEDNN"
  mv "$work/prefix" "$ONEDNN"
  rm -rf "$work"
}

# As many compilers at once as there are cores, but no more than one for each 1.5 GB of memory.
jobs() {
  local memory
  memory="$(awk '/^MemAvailable:/ { print int($2 / 1500000) }' /proc/meminfo)"
  [ "$memory" -ge 1 ] || memory=1
  if [ "$(nproc)" -lt "$memory" ]; then nproc; else printf '%s\n' "$memory"; fi
}

# Everything before the build: packages, oneDNN, CUDA where it is wanted, and the choice of compiler.
set_up() {
  mkdir -p "$ROOT/.deps"
  install_packages
  fetch_onednn
  fetch_cuda
  version_at_least "$(cmake --version | awk 'NR == 1 { print $3 }')" 3.22 ||
    fail "the cmake found first in PATH ($(command -v cmake)) is older than 3.22; remove it or put a newer one before it"
  CXX="$(find_compiler)"
  [ -n "$CXX" ] || fail "no g++ 12 or newer was found; install one and name it in CXX, for example: CXX=g++-12"
  export CXX
}

# configure PRESET
configure() {
  (cd "$ROOT" && cmake --preset "$1" >"$ROOT/.deps/configure.log" 2>&1) ||
    { tail -n 30 "$ROOT/.deps/configure.log" >&2; fail "CMake could not configure build/$1 (its message is above); if the tree was made by another compiler or CMake, delete build/$1 and run this again"; }
  say "build/$1 is configured, compiler: $CXX ($("$CXX" -dumpfullversion -dumpversion))"
}

# build PRESET [TARGET...]: ninja prints its own progress.
build() {
  (cd "$ROOT" && cmake --build --preset "$1" --parallel "$(jobs)" ${2:+--target "${@:2}"}) ||
    fail "the build stopped; the first 'error:' above says why (no such line: the compiler ran out of memory, so try CMAKE_BUILD_PARALLEL_LEVEL=1 cmake --build --preset $1)"
}
