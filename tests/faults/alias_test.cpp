// SPDX-License-Identifier: Apache-2.0
// The alias rules of semantics.md one by one: what is allowed gives the right numbers, what is refused throws
// AliasError before anything is written.
#include <gtest/gtest.h>

#include "support/compare.hpp"
#include "support/errors.hpp"

namespace {

using namespace support;
using stiletto::AliasError;
using stiletto::Dims;
using stiletto::Slice;

const DType float32 = DType::float32;

Array iota(const Extents& shape) {
  return to_array(tabulate(float32, shape, [n = Real{0}](const Extents&) mutable { return n++; }));
}
Array columns(const Array& x, std::int64_t begin, std::int64_t end) {
  return stiletto::slice(x, {Slice{}, Slice{begin, end}});
}
Array part(const Array& x, std::int64_t begin, std::int64_t end, std::int64_t step = 1) {
  return stiletto::slice(x, {Slice{begin, end, step}});
}

/// Runs f both ways; both must refuse, and `memory` stay as it was.
template <class F, class... Args>
void refused(const Array& memory, F f, const Args&... args) {
  const Tensor before = read(memory);
  EXPECT_TRUE(throws<AliasError>([&] { stiletto::jit(f, args...); }));
  EXPECT_TRUE(throws<AliasError>([&] { stiletto::compile(f, args...)(args...); }));
  EXPECT_TRUE(agrees(memory, before, {.exact = true})) << "something was written";
}

void store_double(const Array& d, const Array& x) { stiletto::assign(d, x * 2); }

TEST(AliasAllowed, one_buffer_as_two_arguments) {
  const Array x = iota({4});
  EXPECT_TRUE(equals(stiletto::jit([](const Array& a, const Array& b) { return a + b; }, x, x), float32, {4},
                     {0, 2, 4, 6}));
  EXPECT_TRUE(
      equals(stiletto::jit([](const Array& a, const Array& b) { return stiletto::matmul(a, b); }, x, x),
             float32, {}, {14}));
}

TEST(AliasAllowed, a_destination_that_is_exactly_an_elementwise_input) {
  for (bool turned : {false, true}) {
    const Array storage = iota({3, 4});
    const Array x = turned ? stiletto::transpose(storage) : storage;
    stiletto::jit(store_double, x, x);
    stiletto::compile(store_double, x, x)(x, x);
    EXPECT_TRUE(equals(storage, float32, {3, 4}, {0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44}));
  }
}

TEST(AliasAllowed, through_the_epilogue_of_a_product) {
  const Array a = stiletto::ones({3, 2}), b = stiletto::ones({2, 4}), y = iota({3, 4});
  auto f = [](const Array& d, const Array& p, const Array& q) {
    stiletto::assign(d, stiletto::matmul(p, q) + d);
  };
  stiletto::jit(f, y, a, b);
  EXPECT_TRUE(equals(y, float32, {3, 4}, {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}));
  auto g = [](const Array& d, const Array& p, const Array& q) { stiletto::matmul_into(d, p, q, 1, 1); };
  stiletto::jit(g, y, a, b);
  EXPECT_TRUE(equals(y, float32, {3, 4}, {4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST(AliasAllowed, a_destination_behind_a_product) {
  // c is read elementwise, so it may be the destination, named as such or passed as another argument; the
  // product itself writes c only when it has nothing else to read from there.
  const Array a = stiletto::full({64, 1024}, 0.5F), b = stiletto::full({1024, 96}, 0.25F);  // products of 128
  auto scaled = [](const Array& c, const Array& p, const Array& q) {
    stiletto::assign(c, c * stiletto::matmul(p, q));
  };
  auto added = [](const Array& c, const Array& old, const Array& p, const Array& q) {
    stiletto::assign(c, stiletto::matmul(p, q) + old);
  };
  const Array c = stiletto::full({64, 96}, 2);
  stiletto::jit(scaled, c, a, b);
  for (float value : c.to_vector<float>()) ASSERT_EQ(value, 256);
  stiletto::jit(added, c, c, a, b);
  for (float value : c.to_vector<float>()) ASSERT_EQ(value, 384);
}

TEST(AliasAllowed, values_that_change_places) {
  // Everything is read before anything is written, in one pass over both arrays.
  const Array a = iota({4, 4}), b = stiletto::full({4, 4}, 7);
  auto swap_scaled = [](const Array& x, const Array& y) {
    const Array from_x = x + 1, from_y = y * 3;
    stiletto::assign(x, from_y);
    stiletto::assign(y, from_x);
  };
  stiletto::jit(swap_scaled, a, b);
  EXPECT_TRUE(equals(a, float32, {4, 4}, std::vector<Real>(16, 21)));
  EXPECT_EQ(b.at<float>({3, 3}), 16);
}

TEST(AliasRefused, an_input_read_after_a_store_that_was_overwritten) {
  const Array m = iota({4});
  auto f = [](const Array& d, const Array& x) {
    stiletto::assign(d, stiletto::zeros({4}));
    stiletto::assign(d, x + 1);
  };
  EXPECT_TRUE(throws<AliasError>([&] { stiletto::jit(f, m, m); }));
  EXPECT_TRUE(equals(m, float32, {4}, {0, 1, 2, 3}));
}

TEST(AliasAllowed, interleaved_views) {
  const Array m = iota({3, 4});
  stiletto::jit(store_double, columns(m, 0, 2), columns(m, 2, 4));  // column halves
  EXPECT_TRUE(equals(m, float32, {3, 4}, {4, 6, 2, 3, 12, 14, 6, 7, 20, 22, 10, 11}));
  const Array v = iota({8});
  stiletto::jit(store_double, part(v, 0, 8, 2), part(v, 1, 8, 2));  // every second element
  EXPECT_TRUE(equals(v, float32, {8}, {2, 1, 6, 3, 10, 5, 14, 7}));
  const Array packed = iota({2, 3, 2});  // (row, which of q k v, element)
  auto q = stiletto::squeeze(stiletto::slice(packed, {Slice{}, Slice{0, 1}}), 1);
  auto k = stiletto::squeeze(stiletto::slice(packed, {Slice{}, Slice{1, 2}}), 1);
  auto w = stiletto::squeeze(stiletto::slice(packed, {Slice{}, Slice{2, 3}}), 1);
  auto f = [](const Array& a, const Array& b, const Array& c) {
    stiletto::assign(a, c + 1);
    stiletto::assign(b, c + 2);
  };
  stiletto::jit(f, q, k, w);
  EXPECT_TRUE(equals(packed, float32, {2, 3, 2}, {5, 6, 6, 7, 4, 5, 11, 12, 12, 13, 10, 11}));
}

TEST(AliasAllowed, reductions_and_products_beside_the_destination) {
  const Array m = iota({4, 6});
  auto f = [](const Array& d, const Array& x) {
    stiletto::assign(d, stiletto::softmax(x, 1) * 0 + stiletto::sum(x, 1, true));
  };
  stiletto::jit(f, columns(m, 0, 3), columns(m, 3, 6));
  EXPECT_EQ(m.at<float>({1, 0}), 9.0F + 10 + 11);
}

TEST(AliasAllowed, extents_of_0_and_1_do_not_overlap) {
  const Array storage = iota({6});
  stiletto::jit([](const Array& d) { stiletto::assign(d, d * 0 + 5); },
                stiletto::as_strided(storage, {1, 3}, {0, 1}));
  EXPECT_TRUE(equals(storage, float32, {6}, {5, 5, 5, 3, 4, 5}));
  const Array nothing = stiletto::as_strided(storage, {0, 3}, {0, 0});
  stiletto::jit(store_double, nothing, nothing);
  stiletto::jit(store_double, part(storage, 2, 2), part(storage, 2, 2));
}

TEST(AliasAllowed, two_stores_to_the_same_view) {
  const Array y = iota({3}), x = stiletto::ones({2});
  auto f = [](const Array& d, const Array& v) {
    stiletto::assign(part(d, 0, 2), v * 3);
    stiletto::assign(part(d, 0, 2), v * 4);
  };
  stiletto::jit(f, y, x);
  EXPECT_TRUE(equals(y, float32, {3}, {4, 4, 2}));
}

TEST(AliasAllowed, an_input_read_before_the_store) {
  const Array y = iota({3});
  auto f = [](const Array& d, const Array& x) {
    const Array before = x + 10;
    stiletto::assign(d, x * 2);
    return before;
  };
  EXPECT_TRUE(equals(stiletto::jit(f, y, y), float32, {3}, {10, 11, 12}));
  EXPECT_TRUE(equals(y, float32, {3}, {0, 2, 4}));
}

// ---- refused ----

TEST(AliasRefused, a_destination_that_overlaps_itself) {
  const Array storage = iota({6}), x = stiletto::ones({4, 3});
  refused(storage, store_double, stiletto::as_strided(storage, {4, 3}, {1, 1}), x);
  refused(storage, store_double, stiletto::as_strided(storage, {4, 3}, {0, 1}), x);
  refused(storage, store_double, stiletto::as_strided(storage, {4, 3}, {1, 0}), x);
  EXPECT_THROW(stiletto::assign(stiletto::broadcast_to(part(storage, 0, 1), {4}), stiletto::ones({4})),
               AliasError);
  EXPECT_THROW(stiletto::matmul_into(stiletto::as_strided(storage, {2, 2}, {1, 1}), stiletto::ones({2, 2}),
                                     stiletto::ones({2, 2})),
               AliasError);
}

TEST(AliasRefused, a_shifted_input) {
  const Array storage = iota({12});
  refused(storage, store_double, part(storage, 0, 8), part(storage, 4, 12));
  refused(storage, store_double, part(storage, 4, 12), part(storage, 0, 8));
  refused(storage, store_double, part(storage, 1, 9), part(storage, 0, 8));
  const Array m = iota({4, 6});
  refused(m, store_double, columns(m, 0, 4), columns(m, 2, 6));
}

TEST(AliasRefused, the_same_memory_in_another_order) {
  const Array m = iota({4, 4});
  refused(m, store_double, m, stiletto::transpose(m));
  const Array v = iota({6});
  refused(v, store_double, v, stiletto::slice(v, {Slice{{}, {}, -1}}));
  const Array w = iota({8});
  refused(w, store_double, part(w, 0, 4), part(w, 0, 8, 2));
}

TEST(AliasRefused, an_input_read_at_other_indices) {
  const Array m = iota({4, 4});
  auto row = [](const Array& d, const Array& x) {
    stiletto::assign(d, d + stiletto::slice(x, {Slice{0, 1}}));
  };
  refused(m, row, m, m);
  auto reduced = [](const Array& d, const Array& x) { stiletto::assign(d, x - stiletto::mean(x, 1, true)); };
  refused(m, reduced, m, m);
  auto softmax = [](const Array& d, const Array& x) { stiletto::assign(d, stiletto::softmax(x, 1)); };
  refused(m, softmax, m, m);
  auto product = [](const Array& d, const Array& x) { stiletto::assign(d, stiletto::matmul(x, x)); };
  refused(m, product, m, m);
  auto into = [](const Array& d, const Array& x) { stiletto::matmul_into(d, x, x, 1, 1); };
  refused(m, into, m, m);
  auto captured = [&](const Array& x) { stiletto::assign(m, stiletto::transpose(m) + x); };
  refused(m, captured, stiletto::ones({4, 4}));
}

TEST(AliasRefused, an_input_read_after_the_store) {
  const Array m = iota({4, 4});
  auto f = [](const Array& d, const Array& x) {
    stiletto::assign(d, x * 2);
    return stiletto::exp(x) + 1;
  };
  refused(m, f, m, m);
}

TEST(AliasRefused, destinations_that_overlap_each_other) {
  const Array storage = iota({12}), x = stiletto::ones({8});
  auto f = [](const Array& d, const Array& e, const Array& v) {
    stiletto::assign(d, v * 3);
    stiletto::assign(e, v * 4);
  };
  refused(storage, f, part(storage, 0, 8), part(storage, 4, 12), x);
  const Array m = iota({4, 4});
  refused(m, f, m, stiletto::transpose(m), stiletto::ones({4, 4}));
  auto halves = [](const Array& d, const Array& v) {
    stiletto::assign(d, v);
    stiletto::assign(part(d, 2, 4), part(v, 0, 2) * 7);
  };
  refused(storage, halves, part(storage, 0, 8), x);
}

TEST(AliasRefused, raw_memory_that_overlaps_is_seen_too) {
  float memory[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const auto cpu = stiletto::Device::cpu();
  const Array d = stiletto::wrap(memory, {8}, float32, cpu),
              x = stiletto::wrap(memory + 4, {8}, float32, cpu);
  refused(d, store_double, d, x);
  // The same bytes under another type.
  const Array integers = stiletto::wrap(memory, {8}, DType::int32, cpu);
  refused(d, [](const Array& a, const Array& b) { stiletto::assign(a, b); }, x, integers);
}

TEST(AliasRefused, at_once_too) {
  const Array m = iota({4, 4});
  const Tensor before = read(m);
  EXPECT_THROW(stiletto::assign(m, stiletto::transpose(m)), AliasError);
  EXPECT_THROW(stiletto::matmul_into(m, m, m), AliasError);
  EXPECT_TRUE(agrees(m, before, {.exact = true}));
  stiletto::assign(m, m);
  EXPECT_TRUE(agrees(m, before, {.exact = true}));
}

}  // namespace
