// SPDX-License-Identifier: Apache-2.0
// The driver stand-in: it says what it is, knows the driver's functions, loads kernels and refuses the rest.
#ifdef STILETTO_HAS_CUDNN
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "backends/cudnn/library_opening.hpp"

namespace {

class DriverStandIn : public testing::Test {
 public:
  DriverStandIn(const DriverStandIn&) = delete;
  DriverStandIn& operator=(const DriverStandIn&) = delete;

 protected:
  DriverStandIn() : handle_(dlopen(STILETTO_DRIVER_STAND_IN, RTLD_NOW | RTLD_LOCAL)) {}
  ~DriverStandIn() override {
    if (handle_ != nullptr) dlclose(handle_);
  }
  void SetUp() override { ASSERT_NE(handle_, nullptr) << dlerror(); }

  template <class... A>
  int call(const char* name, A... arguments) {
    const auto function = reinterpret_cast<int (*)(A...)>(dlsym(handle_, name));
    return function == nullptr ? -1 : function(arguments...);
  }
  void* handle_;
};

constexpr int no_driver = 34;  // CUDA_ERROR_STUB_LIBRARY

TEST_F(DriverStandIn, is_told_from_a_driver) {
  EXPECT_NE(dlsym(handle_, "stiletto_driver_stand_in"), nullptr);
  int version = 0;
  EXPECT_EQ(call("cuDriverGetVersion", &version), 0);
  EXPECT_EQ(version, 13000);
  stiletto::detail::cudnn::SearchFolders nowhere;
  nowhere.loader = true;  // finds the stand-in by its SONAME, as cuDNN does
  EXPECT_EQ(open_driver(nowhere, version).handle, nullptr);
}

TEST_F(DriverStandIn, has_no_gpu) {
  int count = -1;
  EXPECT_EQ(call("cuDeviceGetCount", &count), 0);
  EXPECT_EQ(count, 0);
  EXPECT_EQ(call("cuInit", 0U), no_driver);
  EXPECT_EQ(call("cuMemAlloc_v2"), no_driver);
  EXPECT_EQ(call("cuLaunchKernel"), no_driver);
  EXPECT_EQ(call("cuMemcpyHtoDAsync_v2_ptsz"), no_driver);
}

TEST_F(DriverStandIn, loads_kernels) {
  void* library = nullptr;
  void* kernel = nullptr;
  EXPECT_EQ(call("cuLibraryLoadData", &library), 0);
  EXPECT_EQ(call("cuLibraryGetKernel", &kernel, library, "any"), 0);
  EXPECT_NE(library, nullptr);
  EXPECT_NE(kernel, nullptr);
  EXPECT_NE(kernel, library);
  int value = 0;
  EXPECT_EQ(call("cuKernelGetAttribute", &value, 0, kernel, 0), 0);
  EXPECT_GT(value, 0);
}

TEST_F(DriverStandIn, finds_functions_by_name) {
  auto find = [&](const char* name, int& status) {
    void* function = nullptr;
    call("cuGetProcAddress_v2", name, &function, 13000, 0ULL, &status);
    return function;
  };
  int status = -1;
  EXPECT_EQ(find("cuInit", status), dlsym(handle_, "cuInit"));
  EXPECT_EQ(status, 0);
  EXPECT_EQ(find("cuDeviceTotalMem", status), dlsym(handle_, "cuDeviceTotalMem_v2"));
  const auto newer = reinterpret_cast<int (*)()>(find("cuSomethingOfCuda14", status));
  ASSERT_NE(newer, nullptr);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(newer(), no_driver);
  EXPECT_EQ(find("somethingElse", status), nullptr);
  EXPECT_EQ(status, 1);
}

TEST_F(DriverStandIn, has_names_for_errors) {
  const char* text = nullptr;
  EXPECT_EQ(call("cuGetErrorName", no_driver, &text), 0);
  EXPECT_STREQ(text, "CUDA_ERROR_STUB_LIBRARY");
  EXPECT_EQ(call("cuGetErrorString", no_driver, &text), 0);
  EXPECT_STREQ(text,
               "there is no NVIDIA driver on this machine; Stiletto's stand-in only helps to build plans");
}

}  // namespace
#endif
