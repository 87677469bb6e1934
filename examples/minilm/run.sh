#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, fetches the model (84 MB, once), builds build/release's example and runs it on the
# sentences given, or on those of a file: examples/minilm/run.sh [option...] [sentence...]; --help lists the
# options.
set -euo pipefail
# What is installed, fetched and built is told on standard error, so that standard output is the program's.
STEPS=4
# Where there is no pip, the package has to bring it.
# shellcheck disable=SC2034
WITH_PIP=yes
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# shellcheck source=scripts/minilm.sh
. "$ROOT/scripts/minilm.sh"

prepare() {
  step "Installing what is missing"
  set_up
  fetch_minilm ||
    fail "all-MiniLM-L6-v2 could not be fetched (the message is above); check the network and that 180 MB are free, then run this again"
  step "Configuring"
  configure release
  step "Building examples/minilm"
  build release minilm
  step "Running build/release/examples/minilm/minilm"
}
prepare >&2
exec "$ROOT/build/release/examples/minilm/minilm" "$@"
