#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each public header compiles alone, twice in one file, without a warning, and includes nothing but the
# standard library and other public headers: no vendor header reaches a user. What cannot be traced is said in
# the first error.
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

# check_refused NAME ARGUMENTS FUNCTION: compile(FUNCTION, ARGUMENTS) is a compile error with the sentence.
check_refused() {
  local unit="$SCRATCH/refused_$1.cpp" said
  {
    printf '#include <stiletto/stiletto.hpp>\nstruct Plain { stiletto::Array a; };\n'
    printf 'void f(stiletto::Array x) { stiletto::compile(%s, %s); }\n' "$3" "$2"
  } >"$unit"
  said="$("$CXX" -std=c++20 -I "$SOURCE/include" -fsyntax-only "$unit" 2>&1)" && said="it compiles"
  if ! grep -m 1 'error:' <<<"$said" | grep -q 'Stiletto traces Array, arithmetic scalars'; then
    printf '%s: the first error is not that it cannot be traced:\n%s\n' "$1" "$(head -n 5 <<<"$said")"
    return 1
  fi
}

cd "$SOURCE/include"
failed=0
check_refused struct 'x, Plain{x}' '[](const stiletto::Array& a, const Plain& p) { return a + p.a; }' || failed=1
check_refused result 'x' '[](const stiletto::Array&) { return std::int64_t{3}; }' || failed=1
for header in $(find stiletto -name '*.hpp' | sort); do
  check_header "$header" || failed=1
done
[ "$failed" -eq 0 ] || fail "see above"
