#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Another project adds Stiletto with add_subdirectory, as a static library; its program runs. The static
# library that this made is then installed and used with find_package: one compilation serves both.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

project="$SCRATCH/project"
cp -r "$SOURCE/tests/package/subdirectory" "$project"
cp "$SOURCE/tests/package/consumer/main.cpp" "$project/"
"$CMAKE" -S "$project" -B "$project/build" -G Ninja -DSTILETTO_SOURCE="$SOURCE" -DBUILD_SHARED_LIBS=OFF \
  -DSTILETTO_INSTALL=ON -DSTILETTO_KERNEL_OPTIMIZATION=-O0 -Ddnnl_DIR="$DNNL_DIR" \
  -DCMAKE_CXX_COMPILER_LAUNCHER="$LAUNCHER" >"$project/log" 2>&1 || { cat "$project/log"; fail "configuring"; }
"$CMAKE" --build "$project/build" >"$project/log" 2>&1 || { cat "$project/log"; fail "building"; }
run_program "$project/build/consumer"

install_package "$project/build" "$SCRATCH/prefix"
use_package "$SCRATCH/prefix" "$SCRATCH/outside"
