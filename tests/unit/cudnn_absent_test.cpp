// SPDX-License-Identifier: Apache-2.0
// What is cuDNN's, in builds without its backend.
#ifndef STILETTO_HAS_CUDNN
#include "stiletto/cudnn.hpp"
#include "unit/error_text.hpp"

namespace {

using stiletto::Array;
using unit::expect_text;

TEST(CudnnAbsent, builds_without_it_say_so) {
  const std::string rest =
      ": this build has no cuDNN backend; configure with -DSTILETTO_CUDA=ON (scripts/bootstrap.sh --cuda "
      "fetches "
      "the headers)";
  EXPECT_EQ(stiletto::cudnn_frontend_version(), 0);
  expect_text([] { stiletto::cudnn_version(); }, "DeviceError: cudnn_version" + rest);
  expect_text([] { stiletto::add_node(nullptr, {}, {}, {}); }, "DeviceError: add_node" + rest);
  expect_text([] { stiletto::update_node(nullptr, nullptr, {}, {}); }, "DeviceError: update_node" + rest);
  expect_text([] { stiletto::from_cudnn_graph<Array(Array)>(nullptr, {1}, {2}); },
              "DeviceError: from_cudnn_graph" + rest);
}

}  // namespace
#endif
