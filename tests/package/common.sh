# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Shared by the package tests: a fresh scratch folder, and building and running the outside program.
# The variables SOURCE, BUILD, SCRATCH, CXX, CMAKE and so on come from tests/package/CMakeLists.txt.
set -euo pipefail
export CXX
unset LD_LIBRARY_PATH CMAKE_PREFIX_PATH dnnl_DIR stiletto_DIR
rm -rf "${SCRATCH:?}"
mkdir -p "$SCRATCH"

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

# install_package BUILD_TREE PREFIX: installs, then moves the result, so that a path baked in would show.
install_package() {
  "$CMAKE" --install "$1" --prefix "$SCRATCH/staging" >"$SCRATCH/install.log" ||
    { cat "$SCRATCH/install.log"; fail "cmake --install"; }
  mv "$SCRATCH/staging" "$2"
}

# use_package PREFIX FOLDER: builds the outside program in FOLDER with nothing but PREFIX and runs it.
use_package() {
  local prefix="$1" folder="$2"
  cp -r "$SOURCE/tests/package/consumer" "$folder"
  "$CMAKE" -S "$folder" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF >"$folder/log" 2>&1 &&
    "$CMAKE" --build "$folder/build" >>"$folder/log" 2>&1 || { cat "$folder/log"; fail "building the outside program"; }
  run_program "$folder/build/consumer"
  # The library and oneDNN must come from the prefix, not from where they were built.
  local loaded
  loaded="$(ldd "$folder/build/consumer")"
  if grep -E 'libstiletto|libdnnl' <<<"$loaded" | grep -vE "=> ($prefix|/usr|/lib)/"; then
    fail "a library is loaded from outside the prefix"
  fi
  if grep 'not found' <<<"$loaded"; then fail "a library is not found"; fi
}

run_program() {
  (cd / && "$1") || fail "$1 failed"
}
