#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs this build, moves the prefix elsewhere, and builds and runs an outside program against it
# with find_package.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

install_package "$BUILD" "$SCRATCH/prefix"
for file in include/stiletto/stiletto.hpp share/doc/stiletto/LICENSE share/doc/stiletto/THIRD-PARTY.txt bin/stiletto; do
  [ -e "$SCRATCH/prefix/$file" ] || fail "$file is not installed"
done

# The command and what lies beside the library work where they are, without the build tree.
report="$("$SCRATCH/prefix/bin/stiletto" info --json)" || fail "the installed stiletto info"
if [ "$HAS_CUDNN" = ON ]; then
  folder="$(dirname "$(find "$SCRATCH/prefix" -name stiletto_driver_stand_in.so)")"
  [ -x "$folder/stiletto-plan-builder" ] || fail "stiletto-plan-builder is not beside the driver stand-in"
  "$folder/stiletto-plan-builder" --version >/dev/null || fail "the installed stiletto-plan-builder does not start"
  # Where cuDNN is missing nothing is named; else it has to be a file of the prefix.
  planning="$(sed -n 's/.*"planning": {"with": "\([^"]*\)".*/\1/p' <<<"$report")"
  case "$planning" in
    "" | "$folder"/*) ;;
    *) fail "plans are built with $planning, which is not in the prefix" ;;
  esac
fi
use_package "$SCRATCH/prefix" "$SCRATCH/outside"
