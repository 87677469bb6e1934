// SPDX-License-Identifier: Apache-2.0
// The CPU kernels that move and combine: loads, stores, conversions, strided copies, reductions; which
// kernels exist, and how an instruction set is chosen. Tests named case_N are the public fault reports of
// that number.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "backends/cpu/kernels.hpp"
#include "core/float_bits.hpp"
#include "unit/kernels_support.hpp"

namespace {

using namespace kernels_support;

class TransferKernels : public CpuKernels {};
INSTANTIATE_TEST_SUITE_P(Sets, TransferKernels, testing::ValuesIn(available()),
                         [](const auto& set) { return std::string(set.param); });

template <class Check>
void for_each_register(Check check) {
  check(float{}), check(double{}), check(std::int32_t{}), check(std::int64_t{}), check(Boolean{});
}

// ---- stores and conversions between registers
// --------------------------------------------------------------

/// A register's value as an integer type holds it: by modulus from integers, truncated and saturated from
/// floats.
template <class To, class From>
To to_integer(From x) {
  if constexpr (std::is_integral_v<From>) {
    return static_cast<To>(x);
  } else {
    const Real low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
    return std::isnan(x) ? To{0} : static_cast<To>(std::clamp(std::trunc(Real{x}), low, high));
  }
}

/// A float that the narrow formats round as they should round x; that it does is dtype_test's affair.
template <class From>
float to_float(From x) {
  if constexpr (std::is_same_v<From, float>) return x;
  if constexpr (std::is_integral_v<From>) return round_to_odd(std::int64_t{x});
  return round_to_odd(static_cast<double>(x));
}

template <class Bits>
void append(std::vector<unsigned char>& bytes, Bits bits) {
  const auto* begin = reinterpret_cast<const unsigned char*>(&bits);
  bytes.insert(bytes.end(), begin, begin + sizeof bits);
}

template <class From>
void append_as(std::vector<unsigned char>& bytes, DType dtype, From x) {
  switch (dtype) {
    case DType::boolean:
      return append(bytes, static_cast<std::uint8_t>(x != 0));
    case DType::int8:
      return append(bytes, to_integer<std::int8_t>(x));
    case DType::uint8:
      return append(bytes, to_integer<std::uint8_t>(x));
    case DType::int32:
      return append(bytes, to_integer<std::int32_t>(x));
    case DType::int64:
      return append(bytes, to_integer<std::int64_t>(x));
    case DType::float16:
      return append(bytes, static_cast<std::uint16_t>(encode<half_format>(to_float(x))));
    case DType::bfloat16:
      return append(bytes, static_cast<std::uint16_t>(encode_bfloat16(to_float(x))));
    case DType::float32:
      return append(bytes, static_cast<float>(x));
    case DType::float64:
      return append(bytes, static_cast<double>(x));
    case DType::float8_e4m3:
      return append(bytes, static_cast<std::uint8_t>(encode<e4m3_format>(to_float(x))));
    case DType::float8_e5m2:
      return append(bytes, static_cast<std::uint8_t>(encode<e5m2_format>(to_float(x))));
    default:
      return append(bytes, static_cast<std::uint8_t>(encode<e2m1_format>(to_float(x))));
  }
}

/// Two float4 codes to a byte, over what the memory held before.
std::vector<unsigned char> packed(const std::vector<unsigned char>& codes, unsigned char before) {
  std::vector<unsigned char> bytes((codes.size() + 1) / 2, before);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    bytes[i / 2] = static_cast<unsigned char>(i % 2 == 0 ? (bytes[i / 2] & 0xF0) | codes[i]
                                                         : (bytes[i / 2] & 0x0F) | codes[i] << 4);
  }
  return bytes;
}

TEST_P(TransferKernels, stores_from_every_register_to_every_dtype) {
  for_each_register([this]<class T>(T) {
    const std::vector<T> all = grid<T>();
    for (std::size_t d = 0; d < dtype_count; ++d) {
      const auto dtype = static_cast<DType>(d);
      if (dtype == DType::float8_e8m0) continue;
      for (const std::size_t n : counts) {
        const std::vector<T> values(all.begin(),
                                    all.begin() + static_cast<std::ptrdiff_t>(std::min(n, all.size())));
        std::vector<unsigned char> expected;
        for (const T x : values) append_as(expected, dtype, x);
        if (dtype == DType::float4_e2m1) expected = packed(expected, 0xA5);
        std::vector<unsigned char> memory(expected.size() + 64, 0xA5);
        table.store[index(register_for<T>())][d](memory.data(), Block<T>(values).bytes, values.size());
        ASSERT_TRUE(std::all_of(memory.begin() + static_cast<std::ptrdiff_t>(expected.size()), memory.end(),
                                [](unsigned char byte) { return byte == 0xA5; }))
            << stiletto::to_string(dtype) << " writes past " << n << " elements";
        memory.resize(expected.size());
        ASSERT_EQ(memory, expected) << stiletto::to_string(dtype) << " from register "
                                    << static_cast<int>(register_for<T>()) << ", n = " << n;
      }
    }
  });
}

TEST_P(TransferKernels, conversions_follow_the_rules_of_stores) {
  for_each_register([this]<class From>(From) {
    const std::vector<From> all = grid<From>();
    const std::size_t n = std::min(all.size(), block_size) / lane_group * lane_group;
    const Block<From> in(std::vector<From>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n)));
    for_each_register([&]<class To>(To) {
      constexpr std::array<DType, register_count> dtypes = {DType::float32, DType::float64, DType::int32,
                                                            DType::int64, DType::boolean};
      const std::size_t from = index(register_for<From>()), to = index(register_for<To>());
      std::vector<To> expected(n);
      table.store[from][index(dtypes[to])](expected.data(), in.bytes, n);
      Block<To> out;
      table.convert[from][to](out.bytes, in.bytes, n);
      ASSERT_TRUE(same_bytes(out.bytes, expected.data(), n * sizeof(To))) << from << " to " << to;
      ASSERT_TRUE(out.is_untouched_from(n));
    });
  });
}

TEST_P(TransferKernels, case_100_floats_out_of_an_integers_range) {
  const std::vector<float> values = {300, -300, 127.5f, -128.5f, quiet_nan, infinity, 2.5f, 3.5f};
  std::array<std::int8_t, 8> narrow{};
  table.store[index(Register::f32)][index(DType::int8)](narrow.data(), Block<float>(values).bytes, 8);
  EXPECT_EQ(narrow, (std::array<std::int8_t, 8>{127, -128, 127, -128, 0, 127, 2, 3}));
  std::int32_t wide = 0;
  table.store[index(Register::f32)][index(DType::int32)](&wide, Block<float>({3e9f}).bytes, 1);
  EXPECT_EQ(wide, 2147483647);
}

// ---- loads
// -------------------------------------------------------------------------------------------------

Real value_of(DType dtype, const unsigned char* memory, std::size_t i) {
  const auto as = [&]<class T>(T x) {
    std::memcpy(&x, memory + i * sizeof x, sizeof x);
    return x;
  };
  switch (dtype) {
    case DType::boolean:
      return as(std::uint8_t{}) != 0 ? 1 : 0;
    case DType::int8:
      return as(std::int8_t{});
    case DType::uint8:
      return as(std::uint8_t{});
    case DType::int32:
      return as(std::int32_t{});
    case DType::int64:
      return static_cast<Real>(as(std::int64_t{}));
    case DType::float16:
      return decode<half_format>(as(std::uint16_t{}));
    case DType::bfloat16:
      return decode_bfloat16(as(std::uint16_t{}));
    case DType::float32:
      return as(float{});
    case DType::float64:
      return as(double{});
    case DType::float8_e4m3:
      return decode<e4m3_format>(as(std::uint8_t{}));
    case DType::float8_e5m2:
      return decode<e5m2_format>(as(std::uint8_t{}));
    case DType::float8_e8m0:
      return decode_e8m0(as(std::uint8_t{}));
    default:
      return decode<e2m1_format>(i % 2 == 0 ? memory[i / 2] & 0xF : memory[i / 2] >> 4);
  }
}

/// Every code of 16 bits, in order, is every code of 8 and 4 bits too, and a good many wider values.
TEST_P(TransferKernels, loads_to_every_register_that_holds_the_dtype) {
  std::vector<std::uint16_t> codes(65536);
  std::iota(codes.begin(), codes.end(), std::uint16_t{0});
  const auto* memory = reinterpret_cast<const unsigned char*>(codes.data());
  for_each_register([&]<class T>(T) {
    for (std::size_t d = 0; d < dtype_count; ++d) {
      const LoadKernel kernel = table.load[d][index(register_for<T>())];
      if (kernel == nullptr) continue;
      const auto dtype = static_cast<DType>(d);
      for (const std::size_t n : counts) {
        for (std::size_t offset = 0; offset + 8 * n <= 2 * codes.size(); offset += n < 1024 ? 60000 : 2048) {
          Block<T> out;
          kernel(out.bytes, memory + offset, n);
          for (std::size_t i = 0; i < n; ++i) {
            const Real expected = value_of(dtype, memory + offset, i);
            ASSERT_TRUE(std::isnan(expected) ? out[i] != out[i] : out[i] == expected)
                << stiletto::to_string(dtype) << " at byte " << offset << ", element " << i << " of " << n;
          }
          ASSERT_TRUE(out.is_untouched_from((n + lane_group - 1) / lane_group * lane_group));
        }
      }
    }
  });
}

/// Bits of every half and bfloat16, NaN's included, are the same in every instruction set.
TEST_P(TransferKernels, instruction_sets_agree_on_bits) {
  const Kernels& baseline = *kernels_for("baseline");
  for (std::uint32_t begin = 0; begin < 65536; begin += block_size) {
    std::array<std::uint16_t, block_size> codes{};
    std::iota(codes.begin(), codes.end(), static_cast<std::uint16_t>(begin));
    for (const DType dtype : {DType::float16, DType::bfloat16}) {
      Block<float> ours, theirs;
      table.load[index(dtype)][index(Register::f32)](ours.bytes, codes.data(), block_size);
      baseline.load[index(dtype)][index(Register::f32)](theirs.bytes, codes.data(), block_size);
      ASSERT_TRUE(same_bytes(ours.bytes, theirs.bytes, sizeof ours.bytes)) << begin;
      std::array<std::uint16_t, block_size> stored{}, expected{};
      table.store[index(Register::f32)][index(dtype)](stored.data(), ours.bytes, block_size);
      baseline.store[index(Register::f32)][index(dtype)](expected.data(), ours.bytes, block_size);
      ASSERT_EQ(stored, expected) << begin;
    }
  }
}

// ---- strided copies, fills
// ---------------------------------------------------------------------------------

TEST_P(TransferKernels, strided_copies_and_fills) {
  const auto check = [this]<class T>(T, std::size_t log2_bytes) {
    std::vector<T> memory(8 * block_size);
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<T>(i * 2654435761u);
    for (const std::size_t n : counts) {
      for (const std::int64_t stride : {-3, -1, 0, 1, 2, 7}) {
        const std::size_t first = stride < 0 ? memory.size() - 1 : 0;
        const auto at = [&](std::size_t i) {
          return static_cast<std::size_t>(static_cast<std::int64_t>(first) +
                                          static_cast<std::int64_t>(i) * stride);
        };
        std::vector<T> gathered(n + 8, T{9});
        table.gather[log2_bytes](gathered.data(), &memory[first], stride, n);
        for (std::size_t i = 0; i < n + 8; ++i) ASSERT_EQ(gathered[i], i < n ? memory[at(i)] : T{9});
        std::vector<T> target(memory.size(), T{9}), expected = target;
        table.scatter[log2_bytes](&target[first], stride, gathered.data(), n);
        for (std::size_t i = 0; i < n; ++i) expected[at(i)] = gathered[i];
        ASSERT_EQ(target, expected) << "stride " << stride << ", n = " << n;
      }
    }
  };
  check(std::uint8_t{}, 0), check(std::uint16_t{}, 1), check(std::uint32_t{}, 2), check(std::uint64_t{}, 3);
  for_each_register([this]<class T>(T) {
    const T value{1};
    Block<T> out;
    table.fill[index(register_for<T>())](out.bytes, &value, 48);
    for (std::size_t i = 0; i < 48; ++i) ASSERT_EQ(out[i], value);
    ASSERT_TRUE(out.is_untouched_from(48));
  });
}

// ---- reductions
// --------------------------------------------------------------------------------------------

template <class T>
using SumType = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;

template <class A>
A combined(Combine combine, A a, A b) {
  switch (combine) {
    case Combine::sum:
      return a + b;
    case Combine::prod:
      return a * b;
    case Combine::max:
      return a != a || a > b ? a : b;
    default:
      return a != a || a < b ? a : b;
  }
}

/// Values whose sums and products are exact in any order.
template <class T>
std::vector<T> easy_values(std::size_t n, std::size_t seed) {
  std::vector<T> values(n, T{1});
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t k = (i + seed) * 37 % 101;
    if (std::is_same_v<T, Boolean>) {
      values[i] = k < 100 ? T{1} : T{0};
    } else if (k < 10) {
      values[i] = static_cast<T>(k % 2 == 0 ? -2 : 3 - static_cast<int>(k));
    }
  }
  return values;
}

template <class T, class A>
void check_combine(const Kernels& table, Combine combine) {
  const std::size_t c = index(combine), r = index(register_for<T>()), a = index(register_for<A>());
  ASSERT_EQ(accumulator_of(combine, register_for<T>()), register_for<A>());
  for (const std::size_t n : counts) {
    const std::vector<T> v = easy_values<T>(combine == Combine::prod ? std::min<std::size_t>(n, 200) : n, n);
    const std::vector<A> start = easy_values<A>(v.size(), 5);
    A total = 1, expected = 1;
    for (const T x : v) expected = combined<A>(combine, expected, static_cast<A>(x));
    table.reduce[c][r](&total, Block<T>(v).bytes, v.size());
    ASSERT_EQ(total, expected) << "reduction " << c << " of register " << r << ", n = " << n;

    Block<A> totals(start), merged(start);
    table.accumulate[c][r](totals.bytes, Block<T>(v).bytes, v.size());
    const Block<A> others(easy_values<A>(v.size(), 9));
    table.merge[c][a](merged.bytes, others.bytes, v.size());
    for (std::size_t i = 0; i < v.size(); ++i) {
      ASSERT_EQ(totals[i], combined<A>(combine, start[i], static_cast<A>(v[i]))) << c << " of register " << r;
      ASSERT_EQ(merged[i], combined<A>(combine, start[i], others[i])) << c << " of register " << r;
    }
    ASSERT_TRUE(totals.is_untouched_from(v.size()) && merged.is_untouched_from(v.size()));
  }
}

TEST_P(TransferKernels, reductions) {
  for_each_register([this]<class T>(T) {
    check_combine<T, SumType<T>>(table, Combine::sum);
    check_combine<T, SumType<T>>(table, Combine::prod);
    check_combine<T, T>(table, Combine::max);
    check_combine<T, T>(table, Combine::min);
  });
}

TEST_P(TransferKernels, maxima_and_minima_keep_nan_wherever_it_stands) {
  const auto check = [this]<class T>(T) {
    const std::size_t r = index(register_for<T>());
    for (const Combine combine : {Combine::max, Combine::min}) {
      for (std::size_t n = 1; n < 70; ++n) {
        for (std::size_t position = 0; position <= n; ++position) {
          std::vector<T> v(n, T(2));
          T total = 1;
          (position < n ? v[position] : total) = std::numeric_limits<T>::quiet_NaN();
          table.reduce[index(combine)][r](&total, Block<T>(v).bytes, n);
          ASSERT_TRUE(std::isnan(total)) << position << " of " << n;
        }
      }
      Block<T> totals({T(quiet_nan), 1, 2});
      table.accumulate[index(combine)][r](totals.bytes, Block<T>({1, T(quiet_nan), 3}).bytes, 3);
      EXPECT_TRUE(std::isnan(totals[0]) && std::isnan(totals[1]) && !std::isnan(totals[2]));
    }
  };
  check(float{}), check(double{});
}

TEST_P(TransferKernels, sums_of_floats_lose_nothing) {
  std::vector<float> v(block_size, 0x1p-20f);
  v[0] = 0x1p20f, v[500] = 3e38f, v[501] = 3e38f, v[700] = -3e38f, v[701] = -3e38f;
  double total = 0;
  table.reduce[index(Combine::sum)][index(Register::f32)](&total, Block<float>(v).bytes, 500);
  EXPECT_EQ(total, 0x1p20 + 499 * 0x1p-20);
  total = 0;
  table.reduce[index(Combine::sum)][index(Register::f32)](&total, Block<float>(v).bytes, block_size);
  EXPECT_TRUE(std::isfinite(total));
}

// ---- which kernels exist
// -----------------------------------------------------------------------------------

TEST_P(TransferKernels, every_kernel_that_should_exist_does) {
  for (std::size_t d = 0; d < dtype_count; ++d) {
    const auto dtype = static_cast<DType>(d);
    EXPECT_NE(table.load[d][index(register_of(dtype))], nullptr) << stiletto::to_string(dtype);
    for (std::size_t r = 0; r < register_count; ++r) {
      EXPECT_NE(table.store[r][d], nullptr) << stiletto::to_string(dtype) << r;
      const bool has_double = register_of(dtype) == Register::f32 && r == index(Register::f64);
      EXPECT_EQ(table.load[d][r] != nullptr, r == index(register_of(dtype)) || has_double)
          << stiletto::to_string(dtype);
    }
  }
  for (std::size_t op = 0; op < op_count; ++op) {
    const bool is_pointwise =
        op >= static_cast<std::size_t>(Op::negate) && op <= static_cast<std::size_t>(Op::clamp);
    const bool any =
        std::any_of(std::begin(table.map[op]), std::end(table.map[op]), [](auto k) { return k != nullptr; });
    EXPECT_EQ(any, is_pointwise && op != static_cast<std::size_t>(Op::cast)) << "operation " << op;
    EXPECT_EQ(table.map[op][index(Register::f32)] != nullptr, table.map[op][index(Register::f64)] != nullptr)
        << op;
    EXPECT_EQ(table.map[op][index(Register::i32)] != nullptr, table.map[op][index(Register::i64)] != nullptr)
        << op;
  }
}

TEST(KernelChoiceDeathTest, the_environment_names_an_instruction_set) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a fresh process, where nothing has been chosen yet
  const auto chosen_with = [](const char* value) {
    setenv("STILETTO_CPU_ISA", value, 1);
    std::fputs(kernels().name, stderr);
    std::exit(0);
  };
  for (const char* set : available()) {
    EXPECT_EXIT(chosen_with(set), testing::ExitedWithCode(0), kernels_for(set)->name);
  }
  EXPECT_EXIT(chosen_with("avx1024"), testing::ExitedWithCode(0), kernels_for(available().back())->name);
  EXPECT_EQ(kernels_for("avx1024"), nullptr);
}

}  // namespace
