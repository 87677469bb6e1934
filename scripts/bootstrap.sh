#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what a build needs and this machine lacks (apt packages, oneDNN into .deps/onednn), and
# stops there. quickstart.sh and test.sh do the same before they build.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

set_up
say "ready: CXX=$CXX cmake --preset dev && cmake --build --preset dev"
