#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The first C++ block of README.md compiles as it stands, and prints exactly the first block that
# follows it and is not C++.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

awk -v program="$SCRATCH/program.cpp" -v expected="$SCRATCH/expected.txt" '
  /^```/ && inside { close(file); inside = 0; if (file == expected) exit; next }
  /^```cpp/ && !seen { seen = inside = 1; file = program; next }
  /^```/ && seen { inside = 1; file = /^```(cpp|cmake|sh|bash|console)/ ? "/dev/null" : expected; next }
  /^```/ { inside = 1; file = "/dev/null"; next }
  inside { print >file }' "$SOURCE/README.md"
[ -s "$SCRATCH/program.cpp" ] || fail "README.md has no block that begins with \`\`\`cpp"
[ -s "$SCRATCH/expected.txt" ] || fail "README.md shows no output (a block of another kind) after its first program"

folder="$(dirname "$LIBRARY")"
"$CXX" -std=c++20 -Wall -Wextra -Werror -I "$SOURCE/include" "$SCRATCH/program.cpp" -o "$SCRATCH/program" \
  -L "$folder" -lstiletto -Wl,-rpath,"$folder" || fail "the program of README.md does not compile"
run_program "$SCRATCH/program" >"$SCRATCH/printed.txt"
diff -u "$SCRATCH/expected.txt" "$SCRATCH/printed.txt" || fail "the program of README.md prints something else (+) than README.md says (-)"
