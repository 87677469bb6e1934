#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each public header compiles alone, twice in one file, without a warning, and includes nothing but the
# standard library and other public headers: no vendor header reaches a user.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

check_header() {
  local name="$1" unit="$SCRATCH/${1//\//_}.cpp" depends others
  printf '#include <%s>\n#include <%s>\n' "$name" "$name" >"$unit"
  if ! "$CXX" -std=c++20 -Wall -Wextra -Wpedantic -Werror -I "$SOURCE/include" -fsyntax-only -MD -MF "$unit.d" "$unit"; then
    printf '<%s> does not compile alone\n' "$name"
    return 1
  fi
  depends="$(tr -d '\\' <"$unit.d" | tr ' ' '\n' | grep '^/' | grep -v -e "^$SOURCE/include/" -e "^$unit\$" || true)"
  others="$(grep -iE 'dnnl|onednn|eigen|cuda|cudnn|/omp\.h' <<<"$depends" || true)"
  if [ -n "$others" ]; then
    printf '<%s> includes a vendor header:\n%s\n' "$name" "$others"
    return 1
  fi
}

cd "$SOURCE/include"
failed=0
for header in $(find stiletto -name '*.hpp' | sort); do
  check_header "$header" || failed=1
done
[ "$failed" -eq 0 ] || fail "see above"
