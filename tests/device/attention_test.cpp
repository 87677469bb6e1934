// SPDX-License-Identifier: Apache-2.0
// Public fault reports about attention that take a large GPU: masks beyond 2^32 elements, and gradients that
// have to be the same from run to run.
#include <stop_token>
#include <thread>

#include "support/attention_trial.hpp"
#include "support/cuda_api.hpp"
#include "support/raw_arrays.hpp"

namespace {

using namespace support;
using stiletto::Causal;
using stiletto::Device;
using stiletto::Slice;

const Device gpu = Device::cuda(0);
constexpr DType bf16 = DType::bfloat16;

/// 0 up to the diagonal and -1.7e38, whose bytes are equal, behind it.
Array explicit_mask(std::int64_t length) {
  const Array mask = stiletto::empty({1, 1, length, length}, bf16, gpu);
  auto* const bytes = static_cast<std::byte*>(mask.raw_data());
  cuda_call("cudaMemset", static_cast<void*>(bytes), 0xfe, mask.nbytes());
  for (std::int64_t row = 0; row < length; ++row)
    cuda_call("cudaMemset", static_cast<void*>(bytes + 2 * row * length), 0,
              static_cast<std::size_t>(2 * (row + 1)));
  return mask;
}

void expect_rows(const Trial& t, const AttentionOptions& options, const std::string& where) {
  SCOPED_TRACE(where);
  Array out;
  try {
    out = forward(t.arrays, options)[0];
  } catch (const stiletto::UnsupportedGraphError& error) {
    EXPECT_NE(std::string(error.what()).find("attention"), std::string::npos) << error.what();
    return;
  }
  for (const std::int64_t row : {std::int64_t{0}, std::int64_t{58253}, std::int64_t{58254}, out.dim(1) - 1}) {
    const Array made = stiletto::slice(out, {Slice{}, Slice{row, row + 1}}).to(Device::cpu());
    EXPECT_TRUE(
        agrees(made, attention_reference(one_query(t.input, row, 0, row + 1)).out, near(bf16, 1.6e-2L)))
        << row;
  }
}

TEST(PublicCases, case_51) {
  for (const std::int64_t length : {65537, 73728}) {
    SCOPED_TRACE(length);
    const Trial t = random_trial(51, bf16, {1, length, 1, 64}, {1, length, 1, 64}, gpu);
    expect_rows(t, {.bias = explicit_mask(length)}, "an explicit mask");
    const Array whole = stiletto::full({1}, static_cast<int>(length), DType::int32, gpu);
    expect_rows(t, {.causal = Causal::top_left, .seq_len_q = whole, .seq_len_kv = whole}, "lengths");
  }
}

Array noise(const stiletto::Shape& shape, std::uint64_t seed) {
  Random random(seed);
  const Array x = stiletto::empty(shape, bf16);
  auto* const values = x.data<stiletto::bfloat16>();
  for (std::int64_t i = 0; i < x.size(); ++i)
    values[i] = stiletto::bfloat16(static_cast<float>(random.below(2001) - 1000) / 1000);
  return x.to(gpu);
}

TEST(PublicCases, case_130) {
  const stiletto::Shape shape{16, 1024, 12, 64};
  const Arrays qkv{noise(shape, 1), noise(shape, 2), noise(shape, 3)};
  const Array d_out = noise(shape, 4);
  const CompileOptions options{.deterministic = true};
  const auto gradients = [&] { return backward(qkv, d_out, {}, Mode::jit, options); };
  Arrays first;
  try {
    first = gradients();
  } catch (const stiletto::UnsupportedGraphError& error) {
    EXPECT_NE(std::string(error.what()).find("deterministic"), std::string::npos) << error.what();
    return;
  }
  const std::jthread other([](const std::stop_token& stop) {
    const Stream stream;
    const stiletto::StreamGuard guard(stream.get());
    const Array x = noise({1024, 1024}, 5);
    while (!stop.stop_requested()) {
      stiletto::jit([](const Array& a) { return stiletto::matmul(a, a); }, x);
      cuda_synchronize(stream.get());
    }
  });
  std::vector<Bytes> wanted;
  wanted.reserve(first.size());
  for (const Array& x : first) wanted.push_back(elements_of(x));
  for (int round = 1; round < 10; ++round) {
    const Arrays made = gradients();
    for (std::size_t i = 0; i < made.size(); ++i)
      EXPECT_TRUE(elements_of(made[i]) == wanted[i]) << round << i;
  }
}

}  // namespace
