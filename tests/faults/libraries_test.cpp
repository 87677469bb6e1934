// SPDX-License-Identifier: Apache-2.0
// Machines with all, some and none of the libraries that GPUs need: what is chosen, and the complete text for
// what is missing, too old or does not fit together. The libraries are fakes (tests/fakes).
#ifdef STILETTO_HAS_CUDNN
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "backends/cudnn/devices.hpp"
#include "backends/cudnn/library_opening.hpp"
#include "backends/cudnn/library_search.hpp"
#include "unit/error_text.hpp"

namespace {

using stiletto::detail::cudnn::Libraries;
using stiletto::detail::cudnn::Library;
using stiletto::detail::cudnn::SearchFolders;

const std::string fakes = STILETTO_FAKES;
constexpr const char* or_name = "; or name the folder that holds it in STILETTO_CUDA_LIBRARIES";

/// A machine on which these folders of fakes are all there is.
Libraries machine(const std::vector<std::string>& folders) {
  SearchFolders search;
  search.loader = false;
  for (const std::string& folder : folders) search.after.push_back(std::filesystem::path(fakes) / folder);
  Libraries result;
  result.driver = open_driver(search, result.driver_version);
  open_toolkit(search, result);
  return result;
}

std::string problem(const std::vector<std::string>& folders) { return first_problem(machine(folders)); }

TEST(Libraries, complete) {
  const Libraries found = machine({"driver_13", "cuda_13", "cudnn_for_13"});
  EXPECT_EQ(first_problem(found), "");
  EXPECT_EQ(found.driver.path, fakes + "/driver_13/libcuda.so.1");
  EXPECT_EQ(found.driver.version, "13.0");
  EXPECT_EQ(found.nvrtc_builtins.path, fakes + "/cuda_13/libnvrtc-builtins.so.13.0");
  EXPECT_EQ(found.nvrtc.version, "13.0");
  EXPECT_EQ(found.runtime_version, 13000);
  EXPECT_EQ(found.cublas_lt.version, "13.0.0");
  EXPECT_EQ(found.cudnn_version, 91900U);
  EXPECT_EQ(found.cudnn.version, "9.19.0");
  for (const Library* library :
       {&found.driver, &found.nvrtc_builtins, &found.nvrtc, &found.runtime, &found.cublas_lt, &found.cudnn})
    EXPECT_NE(library->handle, nullptr) << library->name;
}

TEST(Libraries, the_first_folder_wins) {
  const Libraries found = machine({"driver_12", "driver_13", "cuda_12", "cudnn_for_12"});
  EXPECT_EQ(found.driver_version, 12040);
}

TEST(Libraries, the_newer_cuda_is_chosen_where_both_are_complete) {
  const Libraries found = machine({"driver_13", "cuda_12", "cudnn_for_12", "cuda_13", "cudnn_for_13"});
  EXPECT_EQ(first_problem(found), "");
  EXPECT_EQ(found.runtime_version, 13000);
  EXPECT_EQ(found.cudnn.path, fakes + "/cudnn_for_13/libcudnn.so.9");
}

TEST(Libraries, the_older_cuda_is_chosen_where_only_its_set_is_complete) {
  const Libraries found = machine({"driver_13", "cuda_13", "cuda_12", "cudnn_for_12"});
  EXPECT_EQ(first_problem(found), "");
  EXPECT_EQ(found.runtime_version, 12080);
}

TEST(Libraries, the_driver_limits_the_choice) {
  const Libraries found = machine({"driver_12", "cuda_13", "cudnn_for_13", "cuda_12", "cudnn_for_12"});
  EXPECT_EQ(first_problem(found), "");
  EXPECT_EQ(found.runtime_version, 12080);
}

TEST(Libraries, an_old_cudnn_in_the_way_is_passed_over) {
  const Libraries found = machine({"driver_13", "cuda_13", "cudnn_8", "broken", "cudnn_for_13"});
  EXPECT_EQ(first_problem(found), "");
}

TEST(Libraries, named_folders_that_are_not_there_are_said) {
  const char* const before = std::getenv("STILETTO_CUDA_LIBRARIES");
  const std::string kept = before == nullptr ? "" : before;
  setenv("STILETTO_CUDA_LIBRARIES", "/nowhere:/usr::/not/here", 1);
  const stiletto::detail::cudnn::SearchFolders folders = stiletto::detail::cudnn::search_folders();
  if (before == nullptr)
    unsetenv("STILETTO_CUDA_LIBRARIES");
  else
    setenv("STILETTO_CUDA_LIBRARIES", kept.c_str(), 1);
  EXPECT_EQ(folders.before, std::vector<std::string>{"/usr"});
  EXPECT_EQ(folders.absent, (std::vector<std::string>{"/nowhere", "/not/here"}));
}

TEST(LibraryTexts, nothing) {
  const Libraries found = machine({});
  EXPECT_EQ(found.driver.problem,
            "CUDA: no NVIDIA driver was found (libcuda.so.1); on a machine with an NVIDIA GPU install its "
            "driver, in a container start it with access to the GPU, and without a GPU use arrays on "
            "Device::cpu()");
  EXPECT_EQ(
      found.nvrtc.problem,
      std::string("CUDA: NVRTC, which compiles kernels, was not found (libnvrtc.so.13); install it (pip "
                  "install nvidia-cuda-nvrtc==13.*, or a CUDA toolkit)") +
          or_name);
  EXPECT_EQ(found.runtime.problem,
            std::string("CUDA: the CUDA runtime was not found (libcudart.so.13); install it (pip install "
                        "nvidia-cuda-runtime==13.*, or a CUDA toolkit)") +
                or_name);
  EXPECT_EQ(
      found.cublas_lt.problem,
      std::string("CUDA: cuBLASLt, which cuDNN needs, was not found (libcublasLt.so.13); install it (pip "
                  "install nvidia-cublas==13.*, or a CUDA toolkit)") +
          or_name);
  EXPECT_EQ(found.cudnn.problem,
            std::string("CUDA: cuDNN 9 was not found (libcudnn.so.9); install it (pip install "
                        "nvidia-cudnn-cu13)") +
                or_name);
  EXPECT_EQ(first_problem(found), found.driver.problem);
}

TEST(LibraryTexts, a_stub_is_no_driver) {
  EXPECT_EQ(machine({"driver_stub"}).driver.handle, nullptr);
  EXPECT_EQ(problem({"driver_stub"}), problem({}));
}

TEST(LibraryTexts, old_driver) {
  EXPECT_EQ(problem({"driver_11", "cuda_12", "cudnn_for_12"}),
            "CUDA: the NVIDIA driver (" + fakes +
                "/driver_11/libcuda.so.1) is too old: it runs CUDA 11.4 and Stiletto needs 12.0 or newer; "
                "update the driver");
}

TEST(LibraryTexts, driver_older_than_the_libraries) {
  EXPECT_EQ(
      problem({"driver_12", "cuda_13", "cudnn_for_13"}),
      "CUDA: the NVIDIA driver (" + fakes +
          "/driver_12/libcuda.so.1) runs CUDA 12.4, but the libraries found (" + fakes +
          "/cuda_13/libnvrtc.so.13) are for CUDA 13.0; update the driver, or install libraries for CUDA "
          "12 (pip install nvidia-cudnn-cu12)");
}

TEST(LibraryTexts, nvrtc_without_its_builtins) {
  EXPECT_EQ(problem({"driver_13", "nvrtc_alone", "cuda_13", "cudnn_for_13"}),
            "CUDA: libnvrtc-builtins.so.13.0 is missing beside " + fakes +
                "/nvrtc_alone/libnvrtc.so.13; reinstall NVRTC");
}

TEST(LibraryTexts, no_cudnn) { EXPECT_EQ(problem({"driver_13", "cuda_13"}), machine({}).cudnn.problem); }

TEST(LibraryTexts, old_cudnn) {
  EXPECT_EQ(
      problem({"driver_13", "cuda_13", "cudnn_old"}),
      "CUDA: cuDNN 9.1.0 (" + fakes +
          "/cudnn_old/libcudnn.so.9) is too old: Stiletto needs 9.10.0 or newer; update it (pip install "
          "nvidia-cudnn-cu13)" +
          or_name);
  EXPECT_EQ(problem({"driver_13", "cuda_13", "cudnn_8"}),
            "CUDA: cuDNN 8.9.7 (" + fakes +
                "/cudnn_8/libcudnn.so.9) is too old: Stiletto needs 9.10.0 or newer; update it (pip install "
                "nvidia-cudnn-cu13)" +
                or_name);
}

TEST(LibraryTexts, cudnn_for_another_cuda) {
  EXPECT_EQ(problem({"driver_13", "cuda_13", "cudnn_for_12"}),
            "CUDA: cuDNN 9.19.0 (" + fakes +
                "/cudnn_for_12/libcudnn.so.9) is for CUDA 12, but the NVRTC found (" + fakes +
                "/cuda_13/libnvrtc.so.13) is for CUDA 13; install the cuDNN for CUDA 13 (pip install "
                "nvidia-cudnn-cu13)" +
                or_name);
}

TEST(LibraryTexts, a_file_that_is_no_library) {
  const std::string text = problem({"driver_13", "cuda_13", "broken"});
  EXPECT_TRUE(text.starts_with("CUDA: " + fakes + "/broken/libcudnn.so.9 cannot be loaded (")) << text;
  EXPECT_TRUE(text.ends_with("); reinstall it")) << text;
}

TEST(LibraryTexts, no_stand_in) {
  // Its place is beside the library; a name that is nowhere shows what a missing file leads to.
  EXPECT_EQ(stiletto::detail::cudnn::find_companion("no_such_file"), "");
  EXPECT_NE(stiletto::detail::cudnn::find_companion("stiletto_driver_stand_in.so"), "");
}

TEST(Gpus, as_the_driver_shows_them) {
  std::string problem;
  const auto gpus = survey_gpus(machine({"driver_gpus"}).driver, problem);
  EXPECT_EQ(problem, "");
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[1].name, "a fake GPU");
  EXPECT_EQ(gpus[1].capability, 75);
  EXPECT_EQ(gpus[1].multiprocessors, 2);
  EXPECT_EQ(gpus[1].memory, 1U << 30);
}

TEST(Gpus, none) {
  std::string problem;
  EXPECT_TRUE(survey_gpus(machine({}).driver, problem).empty());
  EXPECT_EQ(problem, "");  // the driver's absence has been told already
  EXPECT_TRUE(survey_gpus(machine({"driver_13"}).driver, problem).empty());
  EXPECT_EQ(
      problem,
      "CUDA: the NVIDIA driver is installed but shows no GPU (A_FAKE_ERROR); check what nvidia-smi says, "
      "and CUDA_VISIBLE_DEVICES");
}

}  // namespace
#endif
