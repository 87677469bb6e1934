#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh clone to a result: installs what is missing (CUDA and cuDNN only where there is an NVIDIA
# driver; STILETTO_CUDA=ON or OFF before the command decides otherwise), builds all that an installation takes
# and the example in build/release, optimised, and classifies 1,797 handwritten digits with it.
set -euo pipefail
STEPS=4
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
takes_nothing "$@"

step "Installing what is missing"
set_up
step "Configuring"
configure release
step "Building the library, its programs and examples/digits"
build release stiletto_installed digits
step "Running build/release/examples/digits/digits"
"$ROOT/build/release/examples/digits/digits" ||
  fail "examples/digits exited with status $?; run build/release/examples/digits/digits under gdb, or report its output"
say ""
say "done in $SECONDS s; next: README.md, or ./scripts/test.sh for every test"
