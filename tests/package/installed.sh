#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs this build, moves the prefix elsewhere, and builds and runs an outside program against it
# with find_package.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

install_package "$BUILD" "$SCRATCH/prefix"
for file in include/stiletto/stiletto.hpp share/doc/stiletto/LICENSE share/doc/stiletto/THIRD-PARTY.txt; do
  [ -e "$SCRATCH/prefix/$file" ] || fail "$file is not installed"
done
use_package "$SCRATCH/prefix" "$SCRATCH/outside"
