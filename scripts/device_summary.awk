# SPDX-License-Identifier: Apache-2.0
# Reads the logs and exit statuses of scripts/run_device.sh (SUITE.SHARD.log, SUITE.SHARD.status): prints counts
# per suite and what was refused, writes failures.txt and graphs.md into the folder `out`, and exits with 0 only
# when something ran and nothing failed.
function base(path) { sub(/.*\//, "", path); return path }
FNR == 1 {
  split(base(FILENAME), part, ".")
  suite = part[1]
  shard = part[1] "." part[2]
  if (!(suite in seen)) { seen[suite] = 1; suites[++suite_count] = suite }
  failing = 0
}
FILENAME ~ /\.status$/ {
  if (FNR == 1) {
    ++processes[suite]
    if ($1 == 77) {
      ++skipped[suite]  # a program that says why
    } else if ($1 != 0) {
      # A failed test says so itself; a process that ends otherwise is a failure of its own.
      if (!reported[shard]) {
        ++broken[suite]
        print "==== " shard ": ended with status " $1 "; the end of its log:\n" last[shard] "\n" > (out "/failures.txt")
      }
    } else if (!(shard in gtest)) {
      ++run[suite]; ++passed[suite]  # a plain program that ended well
    }
  }
  next
}
{ last[shard] = substr(last[shard] "\n" $0, length(last[shard]) > 3000 ? 400 : 1) }
# With --gtest_brief the number of failures is not printed.
/^\[==========\] [0-9]+ tests? from .* ran\./ { run[suite] += $2; failed[suite] += $2; gtest[shard] = 1; left = $2 }
/^\[  (PASSED  |SKIPPED )\] [0-9]+ test/ {
  if ($2 == "PASSED") passed[suite] += $4; else skipped[suite] += $4
  failed[suite] -= $4
  left -= $4
  reported[shard] = left > 0
}
/^(SKIPPED|TIMEOUT): / { note[suite] = note[suite] "\n    " shard ": " $0 }
/: Skipped$/ { skipping = 1; next }
skipping { if ($0 != "" && $0 !~ /^\[/) ++why[suite "\t" $0]; else skipping = 0 }
# The text of a failure, from gtest's first line to the test's last.
/: Failure$/ { failing = 1; print "==== " shard > (out "/failures.txt") }
/^\[  FAILED  \]/ { if (failing) print $0 "\n" > (out "/failures.txt"); failing = 0 }
failing { print > (out "/failures.txt") }
# Graphs, from tests/support/checked_backend.cpp.
/^\[  GRAPHS  \]\t/ {
  split($0, f, "\t")
  if (!(f[2] in row_known)) { row_known[f[2]] = 1; rows[++row_count] = f[2] }
  column_known[f[3]] = 1
  graphs_run[f[2], f[3]] += f[4]; graphs_refused[f[2], f[3]] += f[5]; graphs_out[f[2], f[3]] += f[6]
  total_run += f[4]; total_refused += f[5]; total_out += f[6]
}
/^\[  REFUSED \]\t/ { split($0, f, "\t"); refused[f[3]] += f[2] }
/^\[  EITHER  \]\t/ { split($0, f, "\t"); either[f[3]] += f[2] }
/^\[  GRAPHS  \] [0-9]+ times in all/ { repeated[substr($0, index($0, "all: ") + 5)] += $4 }

function cell(r, c,    text) {
  if (!((r, c) in graphs_run)) return ""
  text = graphs_run[r, c] ? graphs_run[r, c] : ""
  if (graphs_refused[r, c]) text = text (text == "" ? "" : " / ") "refused " graphs_refused[r, c]
  return text == "" ? "–" : text
}
function sort(list, n,    i, j, x) {
  for (i = 2; i <= n; ++i) {
    x = list[i]
    for (j = i - 1; j > 0 && list[j] > x; --j) list[j + 1] = list[j]
    list[j + 1] = x
  }
}
function write_table(    n, i, c, line, order) {
  n = split("boolean int8 uint8 int32 int64 float16 bfloat16 float32 float64 float8_e4m3 float8_e5m2 float8_e8m0 float4_e2m1 mixed", order, " ")
  line = "| operation |"
  for (i = 1; i <= n; ++i) if (order[i] in column_known) line = line " " order[i] " |"
  print line > (out "/graphs.md")
  gsub(/[^|]+/, "---", line)
  print line > (out "/graphs.md")
  sort(rows, row_count)
  for (c = 1; c <= row_count; ++c) {
    line = "| " rows[c] " |"
    for (i = 1; i <= n; ++i) if (order[i] in column_known) line = line " " cell(rows[c], order[i]) " |"
    print line > (out "/graphs.md")
  }
}
END {
  for (i = 1; i <= suite_count; ++i) {
    s = suites[i]
    printf "%-11s %4d processes  run %5d  passed %5d  failed %4d  skipped %4d", s, processes[s], run[s], passed[s], failed[s], skipped[s]
    printf "%s%s\n", broken[s] ? "  ENDED BADLY " broken[s] : "", note[s]
    tests += run[s]; bad += failed[s] + broken[s]
  }
  for (key in why) { split(key, f, "\t"); print "skipped in " f[1] ": " why[key] " x " f[2] }
  if (row_count) {
    printf "\ngraphs: %d ran on the GPU, %d were refused by cuDNN, %d were outside the sample\n", total_run, total_refused, total_out
    for (reason in refused) print "  refused, as expected: " refused[reason] " x " reason
    for (reason in either) print "  either: " either[reason] " x " reason
    for (failure in repeated) print "  FAILED " repeated[failure] " x " failure
    write_table()
  }
  if (!tests) print "no test ran"
  exit bad || !tests
}
