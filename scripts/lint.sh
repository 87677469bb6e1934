#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the format (clang-format 19) and runs clang-tidy 19 over the C++ files, in parallel.
# Usage: scripts/lint.sh [--format-only] [FILE...]; without files: all that git knows.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

format_only=0
if [ "${1:-}" = --format-only ]; then
  format_only=1
  shift
fi
if [ "$#" -gt 0 ]; then
  files=("$@")
else
  cd "$ROOT"
  mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.cpp' '*.hpp' '*.inl' '*.inc' |
    while IFS= read -r file; do if [ -e "$file" ]; then printf '%s\n' "$file"; fi; done)
fi
[ "${#files[@]}" -gt 0 ] || fail "there is no C++ file to check"

have clang-format-19 || fail "clang-format-19 is not installed; run: apt-get install clang-format-19 clang-tidy-19"
printf '%s\0' "${files[@]}" | xargs -0 clang-format-19 --dry-run -Werror ||
  fail "the files above are not formatted; run: clang-format-19 -i FILE..."
say "format: ${#files[@]} files are right"
[ "$format_only" -eq 0 ] || exit 0

have clang-tidy-19 || fail "clang-tidy-19 is not installed; run: apt-get install clang-tidy-19"
[ -e "$ROOT/build/dev/compile_commands.json" ] || fail "build/dev is not configured; run: cmake --preset dev"
# Headers are checked through the sources that include them; a source that is not built is left out.
sources=()
for file in "${files[@]}"; do
  case "$file" in
    *.cpp) if grep -qF "$(realpath "$file")\"" "$ROOT/build/dev/compile_commands.json"; then sources+=("$file"); fi ;;
  esac
done
if [ "${#sources[@]}" -gt 0 ]; then
  printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$(jobs)" clang-tidy-19 --quiet -p "$ROOT/build/dev" ||
    fail "clang-tidy found the faults above"
fi
say "clang-tidy: ${#sources[@]} files are clean"
