#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the test and benchmark programs for a machine with a GPU and packs them, stripped, with the libraries
# and data they need, into build/device/programs.tar.xz. There scripts/run_device.sh unpacks and runs them:
# that machine needs neither a compiler nor a network, only a driver, CUDA and cuDNN.
# Usage: scripts/pack_device.sh
set -euo pipefail
# shellcheck disable=SC2034 # read by the files below
STEPS=4
# shellcheck disable=SC2034
WITH_CUDA=yes
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
takes_nothing "$@"

LIMIT_MB=40
DEVICE="$ROOT/build/device"
TREE="$ROOT/build/release"
PACK="$DEVICE/programs"

# What is packed: target, and the program's place in the build tree.
PROGRAMS="
stiletto_tool tools/stiletto
stiletto_plan_builder stiletto-plan-builder
stiletto_device_tests tests/stiletto_device_tests
stiletto_numeric_tests tests/stiletto_numeric_tests
stiletto_cases_tests tests/stiletto_cases_tests
stiletto_plans_tests tests/stiletto_plans_tests
stiletto_dlpack_bridge tests/libstiletto_dlpack_bridge.so
stiletto_gpu_benchmarks benchmarks/stiletto_gpu_benchmarks
stiletto_timed_calls benchmarks/stiletto_timed_calls
digits examples/digits/digits
minilm examples/minilm/minilm"

is_target() { (cd "$ROOT" && ninja -C "$TREE" -t query "$1") >/dev/null 2>&1; }

# libraries_of FILE...: the shared libraries that a fresh machine may lack, one path a line. What belongs to
# the C library and the C++ run time has to be the other machine's own.
libraries_of() {
  ldd "$@" 2>/dev/null | awk '/=> \// { print $3 }' | sort -u |
    grep -Ev '/(libc|libm|libmvec|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libstiletto)\.so' || true
}

step "Installing what is missing"
set_up
step "Configuring"
configure release
step "Building the programs"
targets=()
files=()
while read -r target file; do
  [ -n "$target" ] || continue
  if is_target "$target"; then
    targets+=("$target")
    files+=("$TREE/$file")
  else
    say "left out: $target, which this version does not have"
  fi
done <<<"$PROGRAMS"
for target in "${targets[@]}"; do build release "$target"; done

step "Packing"
rm -rf "$PACK"
mkdir -p "$PACK/bin" "$PACK/lib/stiletto"
for file in "${files[@]}"; do
  case "$file" in
    *-plan-builder) cp "$file" "$PACK/lib/stiletto/" ;;
    *) cp "$file" "$PACK/bin/" ;;
  esac
done
cp "$TREE/stiletto_driver_stand_in.so" "$PACK/lib/stiletto/"
cp -L "$TREE"/libstiletto.so.*.*.* "$PACK/lib/"
mapfile -t libraries < <(libraries_of "${files[@]}" "$TREE"/libstiletto.so.*.*.*)
for library in "${libraries[@]}"; do cp -L "$library" "$PACK/lib/"; done
# The name that programs ask for: libstiletto.so.0.1 of libstiletto.so.0.1.0.
for library in "$PACK"/lib/libstiletto.so.*; do mv "$library" "${library%.*}"; done
mkdir "$PACK/bin/data"
cp "$ROOT"/examples/{digits,minilm}/data/* "$PACK/bin/data/"
# Built without a GPU, to be executed on one.
mkdir "$PACK/bin/plans"
"$TREE/tests/stiletto_plans_tests" --save "$PACK/bin/plans"
git -C "$ROOT" describe --always --dirty >"$PACK/version" 2>/dev/null || printf 'unknown\n' >"$PACK/version"
find "$PACK/bin" "$PACK/lib" -type f \( -perm -u+x -o -name '*.so*' \) -exec strip --strip-unneeded {} +
say "unpacked: $(du -sm "$PACK" | cut -f 1) MB, version $(cat "$PACK/version")"
rm -f "$DEVICE"/programs.tar.xz
XZ_OPT="-6 -T0" tar -C "$DEVICE" -cJf "$DEVICE/programs.tar.xz" programs
rm -rf "$PACK"
size="$(du -m "$DEVICE/programs.tar.xz" | cut -f 1)"
[ "$size" -lt "$LIMIT_MB" ] || fail "build/device/programs.tar.xz has $size MB, and $LIMIT_MB is the limit; see which file in it grew: tar -tvJf build/device/programs.tar.xz"
say "build/device/programs.tar.xz: $size MB; on the GPU machine: scripts/run_device.sh"
