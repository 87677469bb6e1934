// SPDX-License-Identifier: Apache-2.0
// The program stiletto-plan-builder: builds cuDNN plans for GPUs that this machine does not have. The library
// starts it; it is of no use by hand.
#include "backends/cudnn/plan_builder_process.hpp"

int main(int argc, char** argv) { return stiletto::detail::cudnn::plan_builder_main(argc, argv); }
