#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every test that can run on this machine: installs what is missing, builds build/ci, runs ctest, lists
# what was skipped and why, and ends with ctest's summary. Exits with ctest's status.
set -euo pipefail
STEPS=4
# Plans for GPUs are built, and checked, on machines without one: that needs cuDNN everywhere.
WITH_CUDA=yes
[ "$(uname -m)" = x86_64 ] || WITH_CUDA=auto
# Arrays are exchanged with NumPy; ml_dtypes and the model of examples/minilm come by pip.
# shellcheck disable=SC2034
WITH_NUMPY=yes WITH_PIP=yes
if [ "$WITH_CUDA" = yes ]; then export STILETTO_REQUIRE_CUDNN=1; fi
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/minilm.sh
. "$ROOT/scripts/minilm.sh"
takes_nothing "$@"

# Reads ctest's log: each reason for a skip, the number of tests that gave it and one test of theirs.
list_skips() {
  awk '
    function add(reason) {
      if (reason == "") reason = "no reason given"
      count[reason]++
      if (!(reason in example)) example[reason] = name
    }
    / Test: / { name = $0; sub(/^.* Test: /, "", name); found = 0; last = "" }
    /: Skipped$/ { if (reading) add(text); reading = 1; text = ""; found = 1; next }
    reading && ($0 == "" || /^\[/ || /^<end of output>/) { add(text); reading = 0; next }
    reading { text = text == "" ? $0 : text " " $0; next }
    /^SKIPPED: / { add(substr($0, 10)); found = 1; next }   # a whole program, which ctest logs as passed
    /^Test Skipped\.$/ && !found { add(last) }
    /^Test (Disabled|Not Run)/ { add("disabled") }
    NF && !/^(<end of output>|Test time =|-+$)/ { last = $0 }
    END { for (reason in count) printf "  %d x %s (%s)\n", count[reason], reason, example[reason] }' "$1" | sort
}

# fetch_ml_dtypes: for the Python that runs the tests, into .deps/ml_dtypes, where tests/formats looks for it.
fetch_ml_dtypes() {
  local list="$ROOT/scripts/ml_dtypes.txt" folder="$ROOT/.deps/ml_dtypes" python=/usr/bin/python3 version work status=0
  have "$python" || python=python3
  version="$(sed -n 's/^ml_dtypes==\([^ ]*\) .*/\1/p' "$list")"
  if PYTHONPATH="$folder" "$python" -c "import ml_dtypes; assert ml_dtypes.__version__ == '$version'" 2>/dev/null; then return; fi
  say "fetching ml_dtypes $version (5 MB)"
  work="$(mktemp -d "$ROOT/.deps/ml_dtypes.XXXXXX")"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    --python-version "$("$python" -c 'import platform; print(platform.python_version())')" \
    --dest "$work/wheels" --requirement "$list" &&
    python3 -m zipfile -e "$work"/wheels/*.whl "$work/unpacked" && rm -rf "$folder" && mv "$work/unpacked" "$folder" || status=1
  rm -rf "$work"
  return "$status"
}

step "Installing what is missing"
set_up
fetch_ml_dtypes || say "ml_dtypes could not be fetched (the message is above): the narrow formats will not be compared with it"
fetch_minilm || say "all-MiniLM-L6-v2 could not be fetched (the message is above): the test of examples/minilm will be skipped"
formatted=0
if have clang-format-19; then "$ROOT/scripts/lint.sh" --format-only || formatted=$?; fi
step "Configuring"
configure ci
step "Building the library, tests, examples and benchmarks"
build ci
step "Running the tests"
build_tree="$ROOT/build/ci"
summary="$build_tree/summary.txt"
: >"$summary"
status=0
# The summary is held back, so that the list of skips comes before it and it comes last.
(cd "$ROOT" && ctest --preset ci --parallel "$(nproc)" 2>&1) |
  awk -v summary="$summary" '/^[0-9]+% tests passed/ { held = 1 } held { print >summary; fflush(); next } { print; fflush() }' || status=$?

skips="$(list_skips "$build_tree/Testing/Temporary/LastTest.log")"
say ""
if [ -n "$skips" ]; then say "Skipped, and why:"; say "$skips"; else say "No test was skipped."; fi
say ""
if [ "$status" -ne 0 ]; then
  say "Some tests failed: their output is above and in build/ci/Testing/Temporary/LastTest.log; one again: ctest --preset ci -R NAME"
fi
if [ "$formatted" -ne 0 ]; then
  say "The format of some files is wrong (listed near the top): run scripts/lint.sh --format-only for the list again"
  [ "$status" -ne 0 ] || status="$formatted"
fi
cat "$summary"
exit "$status"
