#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what a build needs and this machine lacks (apt packages, oneDNN into .deps/onednn, CUDA and cuDNN
# into .deps/nvidia), and stops there. quickstart.sh and test.sh do the same before they build.
# Usage: scripts/bootstrap.sh [--cuda|--no-cuda]; without either, CUDA is fetched where there is an NVIDIA
# driver.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case "${1:-}" in
  --cuda) WITH_CUDA=yes ;;
  --no-cuda) WITH_CUDA=no ;;
  "") ;;
  -h | --help) usage; exit 0 ;;
  *) fail "bootstrap.sh takes --cuda or --no-cuda, not \"$1\"" ;;
esac
set_up
say "ready: CXX=$CXX cmake --preset dev && cmake --build --preset dev"
