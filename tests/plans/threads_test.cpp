// SPDX-License-Identifier: Apache-2.0
// Plans that cuDNN builds for an absent GPU in eight threads at once: through compile, and through jit's
// cache with and without a plan there. Under ThreadSanitizer this looks at everything around cuDNN's library,
// which itself is not instrumented.
#include "support/threads.hpp"
#include "compiler/plan_cache.hpp"
#include "plans/fixture.hpp"
#include "unit/trace_support.hpp"

namespace {

using plans::Array;
using plans::CompileOptions;
using plans::dense;
using plans::DType;
using stiletto::spec;

class PlanThreads : public plans::PlanTest {
 protected:
  const CompileOptions options = plans::on_h200();

  /// As jit does, whose arguments would have to be on the GPU.
  std::shared_ptr<const stiletto::detail::Executable> jit(std::int64_t rows) const {
    unit::Recording recording;
    const Array x = recording.like(spec({rows, 64}, DType::float16));
    const Array w = recording.like(spec({64, 32}, DType::float16));
    recording.trace.add_result(dense(x, w));
    recording.trace.end();
    return stiletto::detail::find_or_build(recording.trace, options, {});
  }
};

TEST_F(PlanThreads, hits_and_misses_at_once) {
  stiletto::plan_cache().clear();
  support::together([&](int id) {
    for (const std::int64_t rows : {64, 128}) {
      const auto shared = jit(rows);  // new for all threads at once
      EXPECT_NE(shared->to_string().find("cudnn eng"), std::string::npos);
      const std::int64_t mine = 1000 + 8 * id;
      if (id % 2 == 0) {
        EXPECT_EQ(jit(mine), jit(mine));
      } else if (rows == 64) {
        const auto compiled = stiletto::compile(options, dense, spec({mine, 64}, DType::float16),
                                                spec({64, 32}, DType::float16));
        EXPECT_NE(compiled.graph().to_string().find("cudnn eng"), std::string::npos);
      }
      EXPECT_EQ(jit(rows), shared) << "all have the plan of the fastest";
    }
  });
  EXPECT_EQ(stiletto::plan_cache().entries(), 2U + support::thread_count / 2U);
}

}  // namespace
