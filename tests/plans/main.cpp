// SPDX-License-Identifier: Apache-2.0
// The tests of plans, and with --table the table of what has a plan on which GPU.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "plans/table.hpp"

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--table") == 0) {
    if (!plans::why_no_plans().empty()) {
      std::fprintf(stderr, "no plans can be built: %s\n", plans::why_no_plans().c_str());
      return 1;
    }
    std::fputs(plans::support_table().c_str(), stdout);
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  const int status = RUN_ALL_TESTS();
  const plans::Tally& counts = plans::tally();
  if (counts.rows > 0) {
    std::string differ;
    for (const std::string& name : counts.differ) differ += (differ.empty() ? ": " : "; ") + name;
    std::printf("%d rows, %d plans, %d refusals, %zu differ%s\n", counts.rows, counts.plans, counts.refusals,
                counts.differ.size(), differ.c_str());
  }
  return status;
}
