// SPDX-License-Identifier: Apache-2.0
// The tests of plans; with --table FILE (docs/support.md) the tables there of what has a plan on which GPU
// are made anew for the cuDNN that is found, with --save FOLDER plans for an H200 are saved, which
// stiletto_device_tests loads on one.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "plans/support_page.hpp"
#include "support/saved_functions.hpp"

namespace {

int save_plans(const std::filesystem::path& folder) {
  const stiletto::CompileOptions options{.target = stiletto::Target::named("h200")};
  for (const support::SavedFunction& f : support::saved_functions()) {
    const auto argument = [&](int i) { return stiletto::spec(f.shapes[i], f.dtype); };
    stiletto::compile(options, f.function, argument(0), argument(1), argument(2)).save(folder / f.file());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  setenv("STILETTO_DIAGNOSIS", "0", 0);  // hundreds of refusals; its own tests turn it on
  if (argc == 3 && std::strcmp(argv[1], "--save") == 0) return save_plans(argv[2]);
  if (argc == 3 && std::strcmp(argv[1], "--table") == 0) return plans::write_support_page(argv[2]);
  if (argc == 4 && std::strcmp(argv[1], "--cells") == 0)  // a part of that, in a process of its own
    return plans::print_cells(std::strtoul(argv[2], nullptr, 10), std::strtoul(argv[3], nullptr, 10));
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
