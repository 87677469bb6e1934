#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The stiletto command: its answers, its exit statuses, and the usage text for arguments that make no sense.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# expect STATUS ARGUMENT...: runs the command; what it prints is in $SCRATCH/out and $SCRATCH/err.
expect() {
  local wanted="$1" status=0
  shift
  "$TOOL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" || status=$?
  if [ "$status" -ne "$wanted" ]; then
    cat "$SCRATCH/out" "$SCRATCH/err"
    fail "stiletto $* exits with $status, not with $wanted"
  fi
}

# says FILE TEXT: the file holds the line.
says() { grep -qxF -- "$2" "$SCRATCH/$1" || { cat "$SCRATCH/$1"; fail "there is no line: $2"; }; }

expect 0 --version
grep -qE '^stiletto [0-9]+\.[0-9]+\.[0-9]+$' "$SCRATCH/out" || fail "--version prints no version"
expect 0 --help
says out 'usage: stiletto COMMAND [ARGUMENT...]'
says out '  info [--json]     what this machine has, what will be used, and what is missing'
expect 2
says err 'stiletto: a command is missing'
says err 'usage: stiletto COMMAND [ARGUMENT...]'
expect 2 inform
says err 'stiletto: there is no command "inform"'
expect 2 info --yaml
says err 'stiletto: info does not know the argument "--yaml"'
[ ! -s "$SCRATCH/out" ] || fail "a refusal prints to standard output"

expect 0 info
says out Devices
[ ! -s "$SCRATCH/err" ] || fail "stiletto info prints to standard error"
expect 0 info --json
[ "$(head -c 1 "$SCRATCH/out")" = "{" ] || fail "stiletto info --json prints no object"
if [ -e /dev/full ]; then
  if "$TOOL" info >/dev/full 2>"$SCRATCH/err"; then fail "a full disk is not noticed"; fi
fi
