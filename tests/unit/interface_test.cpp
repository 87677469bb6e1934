// SPDX-License-Identifier: Apache-2.0
// The public interface by name and signature. Everything that is delivered so far is named here: what is
// renamed, reordered, removed or given another signature no longer compiles. Attention, norms, convolution,
// pooling, block scaling, targets, streams, saved plans and the cuDNN handles come later and are absent.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <sstream>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "stiletto/stiletto.hpp"

namespace {

namespace st = stiletto;
using st::Array;
using st::Axes;
using st::Device;
using st::Dims;
using st::DType;
using st::Shape;
using st::Strides;
using std::is_same_v;

// ---- error.hpp ------------------------------------------------------------------------------------------

template <class E>
constexpr bool is_error = std::is_base_of_v<st::Error, E> && std::is_constructible_v<E, const std::string&> &&
                          std::is_constructible_v<E, const char*>;
static_assert(std::is_base_of_v<std::runtime_error, st::Error>);
static_assert(is_error<st::ShapeError> && is_error<st::DTypeError> && is_error<st::TraceError>);
static_assert(is_error<st::AliasError> && is_error<st::ArgumentError> && is_error<st::DeviceError>);
static_assert(is_error<st::InternalError> && is_error<st::UnsupportedGraphError>);
static_assert(is_same_v<decltype(st::EngineReason::engine), std::string>);
static_assert(is_same_v<decltype(st::EngineReason::reason), std::string>);
static_assert(is_same_v<decltype(st::UnsupportedGraphError::graph), std::string>);
static_assert(is_same_v<decltype(st::UnsupportedGraphError::target), std::string>);
static_assert(is_same_v<decltype(st::UnsupportedGraphError::library), std::string>);
static_assert(is_same_v<decltype(st::UnsupportedGraphError::reasons), std::vector<st::EngineReason>>);
static_assert(is_same_v<decltype(st::UnsupportedGraphError::excluded_by), std::optional<std::string>>);
static_assert(is_same_v<decltype(st::UnsupportedGraphError::hint), std::string>);

// ---- dtype.hpp, device.hpp ------------------------------------------------------------------------------

static_assert(is_same_v<std::underlying_type_t<DType>, std::uint8_t>);
constexpr DType in_order[] = {DType::boolean,    DType::int8,        DType::uint8,       DType::int32,
                              DType::int64,      DType::float16,     DType::bfloat16,    DType::float32,
                              DType::float64,    DType::float8_e4m3, DType::float8_e5m2, DType::float8_e8m0,
                              DType::float4_e2m1};
constexpr bool dtypes_in_order() {
  for (std::size_t i = 0; i < std::size(in_order); ++i)
    if (static_cast<std::size_t>(in_order[i]) != i) return false;
  return true;
}
static_assert(dtypes_in_order());

template <class T, std::size_t bytes, DType dtype>
constexpr bool is_narrow_float =
    std::is_trivially_copyable_v<T> && sizeof(T) == bytes && std::is_default_constructible_v<T> &&
    std::is_constructible_v<T, float> && !std::is_convertible_v<float, T> &&
    std::is_constructible_v<float, T> && !std::is_convertible_v<T, float> && st::dtype_of<T>::value == dtype;
static_assert(is_narrow_float<st::half, 2, DType::float16>);
static_assert(is_narrow_float<st::bfloat16, 2, DType::bfloat16>);
static_assert(is_narrow_float<st::float8_e4m3, 1, DType::float8_e4m3>);
static_assert(is_narrow_float<st::float8_e5m2, 1, DType::float8_e5m2>);
static_assert(st::dtype_of<bool>::value == DType::boolean && st::dtype_of<std::int8_t>::value == DType::int8);
static_assert(st::dtype_of<std::uint8_t>::value == DType::uint8);
static_assert(st::dtype_of<std::int32_t>::value == DType::int32);
static_assert(st::dtype_of<std::int64_t>::value == DType::int64);
static_assert(st::dtype_of<float>::value == DType::float32 && st::dtype_of<double>::value == DType::float64);
static_assert(st::Scalar<bool> && st::Scalar<char> && st::Scalar<int> && st::Scalar<unsigned long long>);
static_assert(st::Scalar<float> && st::Scalar<double> && st::Scalar<st::half> && st::Scalar<st::bfloat16>);
static_assert(!st::Scalar<st::float8_e4m3> && !st::Scalar<Array> && !st::Scalar<std::string>);

static_assert(is_same_v<decltype(&Device::cpu), Device (*)()>);
static_assert(is_same_v<decltype(&Device::cuda), Device (*)(int)>);
static_assert(is_same_v<decltype(&Device::is_cpu), bool (Device::*)() const>);
static_assert(is_same_v<decltype(&Device::is_cuda), bool (Device::*)() const>);
static_assert(is_same_v<decltype(&Device::index), int (Device::*)() const>);

// ---- array.hpp ------------------------------------------------------------------------------------------

static_assert(is_same_v<Shape, Dims> && is_same_v<Strides, Dims> && std::is_default_constructible_v<Dims>);
static_assert(std::is_constructible_v<Dims, std::initializer_list<std::int64_t>>);
static_assert(std::is_convertible_v<std::initializer_list<std::int64_t>, Dims>);
static_assert(std::is_constructible_v<Dims, std::span<const std::int64_t>>);
static_assert(!std::is_convertible_v<std::span<const std::int64_t>, Dims>);
static_assert(is_same_v<decltype(std::declval<const Dims&>()[std::size_t{0}]), std::int64_t>);
static_assert(is_same_v<decltype(&Dims::size), std::size_t (Dims::*)() const>);
static_assert(is_same_v<decltype(&Dims::begin), const std::int64_t* (Dims::*)() const>);
static_assert(is_same_v<decltype(&Dims::end), const std::int64_t* (Dims::*)() const>);
static_assert(is_same_v<decltype(std::declval<const Dims&>() == std::declval<const Dims&>()), bool>);

template <class T>
constexpr bool converts_to_array = std::is_convertible_v<T, Array>;
static_assert(converts_to_array<bool> && converts_to_array<int> && converts_to_array<long> &&
              converts_to_array<float>);
static_assert(converts_to_array<double> && converts_to_array<st::half> && converts_to_array<st::bfloat16>);
static_assert(!converts_to_array<const char*> && !converts_to_array<std::vector<float>>);
static_assert(!std::is_constructible_v<bool, Array> && !std::is_convertible_v<Array, bool>,
              "if (x) must not compile");
static_assert(std::is_default_constructible_v<Array> && std::is_copy_constructible_v<Array>);
static_assert(is_same_v<decltype(&Array::dtype), DType (Array::*)() const>);
static_assert(is_same_v<decltype(&Array::shape), const Shape& (Array::*)() const>);
static_assert(is_same_v<decltype(&Array::strides), const Strides& (Array::*)() const>);
static_assert(is_same_v<decltype(&Array::rank), int (Array::*)() const>);
static_assert(is_same_v<decltype(&Array::dim), std::int64_t (Array::*)(int) const>);
static_assert(is_same_v<decltype(&Array::size), std::int64_t (Array::*)() const>);
static_assert(is_same_v<decltype(&Array::nbytes), std::size_t (Array::*)() const>);
static_assert(is_same_v<decltype(&Array::device), Device (Array::*)() const>);
static_assert(is_same_v<decltype(&Array::is_traced), bool (Array::*)() const>);
static_assert(is_same_v<decltype(&Array::has_memory), bool (Array::*)() const>);
static_assert(is_same_v<decltype(&Array::is_contiguous), bool (Array::*)() const>);
static_assert(is_same_v<decltype(&Array::item<float>), float (Array::*)() const>);
static_assert(is_same_v<decltype(&Array::to_vector<float>), std::vector<float> (Array::*)() const>);
static_assert(is_same_v<decltype(&Array::data<float>), float* (Array::*)() const>);
static_assert(
    is_same_v<decltype(&Array::at<float>), float (Array::*)(std::initializer_list<std::int64_t>) const>);
static_assert(is_same_v<decltype(&Array::raw_data), void* (Array::*)() const>);
static_assert(is_same_v<decltype(&Array::to), Array (Array::*)(Device) const>);
static_assert(is_same_v<decltype(&Array::copy), Array (Array::*)() const>);

using Make = Array (*)(Shape, DType, Device);
constexpr Make makers[] = {st::zeros, st::ones, st::empty};
constexpr Array (*full)(Shape, Array, DType, Device) = st::full;
constexpr Array (*from_span)(std::span<const float>, Shape, Device) = st::from_data<float>;
constexpr Array (*from_vector)(const std::vector<float>&, Shape, Device) = st::from_data<float>;
constexpr Array (*wrap)(void*, Shape, DType, Device, Strides, std::shared_ptr<void>) = st::wrap;
constexpr Array (*spec)(Shape, DType, Strides, std::optional<Device>) = st::spec;
constexpr std::ostream& (*print)(std::ostream&, const Array&) = st::operator<<;

// ---- ops.hpp, nn.hpp ------------------------------------------------------------------------------------

using Unary = Array (*)(const Array&);
using Binary = Array (*)(const Array&, const Array&);
using Ternary = Array (*)(const Array&, const Array&, const Array&);
using WithNumber = Array (*)(const Array&, double);
using Reduction = Array (*)(const Array&, Axes, bool);
constexpr Binary binary[] = {st::operator+,   st::operator-,  st::operator*,  st::operator/,  st::operator<,
                             st::operator<=,  st::operator>,  st::operator>=, st::operator==, st::operator!=,
                             st::logical_and, st::logical_or, st::maximum,    st::minimum,    st::pow,
                             st::fmod,        st::atan2,      st::matmul};
constexpr Unary unary[] = {st::operator-, st::abs,         st::exp,        st::log,      st::sqrt,
                           st::rsqrt,     st::square,      st::reciprocal, st::sin,      st::cos,
                           st::tan,       st::tanh,        st::erf,        st::ceil,     st::floor,
                           st::relu,      st::sigmoid,     st::silu,       st::softplus, st::gelu,
                           st::gelu_tanh, st::logical_not, st::transpose};
constexpr Ternary ternary[] = {st::where, st::clamp};
constexpr WithNumber with_number[] = {st::leaky_relu, st::clipped_relu, st::elu};
constexpr Reduction reductions[] = {st::sum,  st::mean,  st::max,   st::min,      st::abs_max,
                                    st::prod, st::norm1, st::norm2, st::logsumexp};
constexpr Array (*cast)(const Array&, DType) = st::cast;
constexpr Array (*softmax)(const Array&, int) = st::softmax;
constexpr Array (*permute)(const Array&, Dims) = st::transpose;
constexpr Array (*reshape)(const Array&, Shape) = st::reshape;
constexpr Array (*slice)(const Array&, std::vector<st::Slice>) = st::slice;
constexpr Array (*squeeze)(const Array&, Axes) = st::squeeze;
constexpr Array (*expand_dims)(const Array&, Axes) = st::expand_dims;
constexpr Array (*broadcast_to)(const Array&, Shape) = st::broadcast_to;
constexpr Array (*as_strided)(const Array&, Shape, Strides, std::int64_t) = st::as_strided;
constexpr void (*assign)(const Array&, const Array&) = st::assign;
constexpr void (*matmul_into)(const Array&, const Array&, const Array&, double, double) = st::matmul_into;

static_assert(std::is_default_constructible_v<Axes> && std::is_convertible_v<std::int64_t, Axes>);
static_assert(std::is_convertible_v<std::initializer_list<std::int64_t>, Axes>);
static_assert(is_same_v<decltype(st::Slice::begin), std::optional<std::int64_t>>);
static_assert(is_same_v<decltype(st::Slice::end), std::optional<std::int64_t>>);
static_assert(is_same_v<decltype(st::Slice::step), std::int64_t>);

// ---- compile.hpp ----------------------------------------------------------------------------------------

static_assert(is_same_v<st::Allocator, std::function<Array(Device, const Shape&, DType)>>);
static_assert(is_same_v<decltype(st::CompileOptions::io_dtype), std::optional<DType>>);
static_assert(is_same_v<decltype(st::CompileOptions::intermediate_dtype), DType>);
static_assert(is_same_v<decltype(st::CompileOptions::compute_dtype), DType>);
static_assert(is_same_v<decltype(st::CompileOptions::allocator), st::Allocator>);
static_assert(is_same_v<decltype(st::CompileOptions::max_workspace), std::optional<std::size_t>>);
static_assert(is_same_v<decltype(st::CompileOptions::deterministic), bool>);

static_assert(is_same_v<decltype(&st::Bindings::names), std::vector<std::string> (st::Bindings::*)() const>);
static_assert(is_same_v<decltype(&st::Bindings::get), Array (st::Bindings::*)(const std::string&) const>);
static_assert(
    is_same_v<decltype(&st::Bindings::set), void (st::Bindings::*)(const std::string&, const Array&)>);
static_assert(is_same_v<decltype(&st::Graph::execute), void (st::Graph::*)(const st::Bindings&) const>);
static_assert(is_same_v<decltype(&st::Graph::to_string), std::string (st::Graph::*)() const>);
static_assert(is_same_v<decltype(&st::Graph::to_dot), std::string (st::Graph::*)() const>);
static_assert(is_same_v<decltype(&st::Graph::to_html), std::string (st::Graph::*)() const>);
static_assert(is_same_v<decltype(&st::set_log), void (*)(const std::vector<st::LogTopic>&, st::LogSink)>);
static_assert(is_same_v<decltype(&st::Graph::to_json), std::string (st::Graph::*)() const>);

struct Opaque {};
static_assert(is_same_v<st::traced_t<float>, Array> && is_same_v<st::traced_t<const int&>, Array>);
static_assert(is_same_v<st::traced_t<st::half>, Array> && is_same_v<st::traced_t<Array>, Array>);
static_assert(is_same_v<st::traced_t<std::tuple<float, Array, std::pair<int, Array>>>,
                        std::tuple<Array, Array, std::pair<Array, Array>>>);
static_assert(is_same_v<st::traced_t<std::vector<Array>>, std::vector<Array>>);
static_assert(is_same_v<st::traced_t<Opaque>, Opaque> && is_same_v<st::traced<Opaque>::type, Opaque>);
static_assert(st::Traceable<Unary> && !st::Traceable<st::CompileOptions> &&
              !st::Traceable<const st::CompileOptions&>);
static_assert(is_same_v<st::result_t<Binary, Array, float>, Array>);
static_assert(is_same_v<st::result_t<void (*)(const Array&), Array>, void>);

using Function = st::Compiled<Array(Array, Array)>;
static_assert(std::is_default_constructible_v<Function> && std::is_copy_constructible_v<Function>);
static_assert(
    is_same_v<decltype(&Function::operator()), Array (Function::*)(const Array&, const Array&) const>);
static_assert(is_same_v<decltype(&Function::workspace), std::size_t (Function::*)() const>);
static_assert(is_same_v<decltype(&Function::graph), const st::Graph& (Function::*)() const>);
static_assert(is_same_v<decltype(&Function::bindings),
                        st::Bound<Array> (Function::*)(const Array&, const Array&) const>);
static_assert(is_same_v<decltype(st::Bound<Array>::bindings), st::Bindings>);
static_assert(is_same_v<decltype(st::Bound<Array>::outputs), Array>);
static_assert(is_same_v<decltype(st::Bound<void>::bindings), st::Bindings>);

template <class T>
const T& some();  // for types only
static_assert(is_same_v<decltype(st::compile(binary[0], some<Array>(), 2.0F)), Function>);
static_assert(
    is_same_v<decltype(st::compile(some<st::CompileOptions>(), binary[0], some<Array>(), 2)), Function>);
static_assert(is_same_v<decltype(st::jit(binary[0], some<Array>(), 2.0F)), Array>);
static_assert(is_same_v<decltype(st::jit(some<st::CompileOptions>(), assign, some<Array>(), 2.0F)), void>);
static_assert(
    is_same_v<decltype(st::supports(some<st::CompileOptions>(), binary[0], some<Array>(), 2)), st::Support>);
static_assert(is_same_v<decltype(st::Support::supported), bool>);
static_assert(is_same_v<decltype(st::Support::explanation), std::string>);

static_assert(is_same_v<decltype(&st::plan_cache), st::PlanCache& (*)()>);
static_assert(is_same_v<decltype(&st::set_allow_tf32), void (*)(bool)>);
static_assert(is_same_v<decltype(&st::PlanCache::hits), std::size_t (st::PlanCache::*)() const>);
static_assert(is_same_v<decltype(&st::PlanCache::misses), std::size_t (st::PlanCache::*)() const>);
static_assert(is_same_v<decltype(&st::PlanCache::entries), std::size_t (st::PlanCache::*)() const>);
static_assert(is_same_v<decltype(&st::PlanCache::bytes), std::size_t (st::PlanCache::*)() const>);
static_assert(is_same_v<decltype(&st::PlanCache::set_capacity), void (st::PlanCache::*)(std::size_t)>);
static_assert(is_same_v<decltype(&st::PlanCache::clear), void (st::PlanCache::*)()>);

// ---- everything runs ------------------------------------------------------------------------------------

TEST(Interface, arrays) {
  for (Make make : makers) EXPECT_EQ(make({2, 3}, DType::float16, Device::cpu()).shape(), (Dims{2, 3}));
  EXPECT_EQ(st::zeros({2}).dtype(), DType::float32);
  EXPECT_EQ(st::ones({2}).dtype(), DType::float32);
  EXPECT_EQ(st::empty({2}).dtype(), DType::float32);
  EXPECT_EQ(st::full({2}, 1.5).dtype(), DType::float32);
  const std::vector<float> values{1, 2};
  EXPECT_EQ(full({}, 2, DType::int8, Device::cpu()).rank(), 0);
  EXPECT_EQ(from_span(values, {2}, Device::cpu()).size(), 2);
  EXPECT_EQ(from_vector(values, {1, 2}, Device::cpu()).rank(), 2);
  EXPECT_EQ(st::from_data(std::span<const float>(values), {2}).to_vector<float>(), values);
  float memory[2] = {3, 4};
  EXPECT_EQ(wrap(memory, {2}, DType::float32, Device::cpu(), {}, {}).at<float>({1}), 4);
  EXPECT_EQ(st::wrap(memory, {2}, DType::float32, Device::cpu()).data<float>(), memory);
  EXPECT_FALSE(spec({2}, DType::float32, {}, {}).has_memory());
  EXPECT_EQ(st::spec({2}, DType::float32).device(), Device::cuda());
  std::ostringstream text;
  print(text, st::ones({}));
  EXPECT_EQ(text.str(), "1");
}

TEST(Interface, operations) {
  const Array x = st::full({4, 4}, 0.5), flag = x > 0;
  for (Unary f : unary) EXPECT_EQ(f(x).shape(), x.shape());
  for (Binary f : binary) EXPECT_EQ(f(x, x).shape(), x.shape());
  EXPECT_EQ(ternary[0](flag, x, 0).shape(), x.shape());
  EXPECT_EQ(ternary[1](x, 0, 1).shape(), x.shape());
  for (WithNumber f : with_number) EXPECT_EQ(f(x, 0.5).shape(), x.shape());
  EXPECT_EQ(st::leaky_relu(-x).at<float>({0, 0}), -0.005F) << "the slope's default is 0.01";
  EXPECT_EQ(st::elu(-x).at<float>({0, 0}), st::elu(-x, 1).at<float>({0, 0}));
  for (Reduction f : reductions) {
    EXPECT_EQ(f(x, {}, false).rank(), 0);
    EXPECT_EQ(f(x, 0, true).shape(), (Dims{1, 4}));
  }
  EXPECT_EQ(st::sum(x).item<float>(), 8);
  EXPECT_EQ(st::mean(x, {0, 1}).item<float>(), 0.5F);
  EXPECT_EQ(cast(x, DType::int8).dtype(), DType::int8);
  EXPECT_EQ(softmax(x, 0).at<float>({0, 0}), 0.25F);
  EXPECT_EQ(st::softmax(x).at<float>({0, 0}), 0.25F);
}

TEST(Interface, views_and_stores) {
  const Array x = st::zeros({2, 3});
  EXPECT_EQ(permute(x, {1, 0}).shape(), (Dims{3, 2}));
  EXPECT_EQ(reshape(x, {-1}).shape(), (Dims{6}));
  EXPECT_EQ(slice(x, {st::Slice{}, st::Slice{.begin = 1, .end = 3, .step = 1}}).shape(), (Dims{2, 2}));
  EXPECT_EQ(st::Slice{}.step, 1);
  EXPECT_EQ(squeeze(st::ones({1, 2}), 0).shape(), (Dims{2}));
  EXPECT_EQ(st::squeeze(st::ones({1, 2, 1})).shape(), (Dims{2}));
  EXPECT_EQ(expand_dims(x, {0, -1}).shape(), (Dims{1, 2, 3, 1}));
  EXPECT_EQ(broadcast_to(x, {4, 2, 3}).shape(), (Dims{4, 2, 3}));
  EXPECT_EQ(as_strided(x, {2}, {2}, 1).shape(), (Dims{2}));
  EXPECT_EQ(st::as_strided(x, {2}, {2}).raw_data(), x.raw_data());
  assign(x, 2);
  EXPECT_EQ(x.at<float>({1, 2}), 2);
  const Array c = st::zeros({2, 2});
  matmul_into(c, x, permute(x, {1, 0}), 1, 0);
  EXPECT_EQ(c.at<float>({0, 0}), 12);
  st::matmul_into(c, x, st::transpose(x));
  EXPECT_EQ(c.at<float>({0, 0}), 12) << "alpha is 1, beta 0";
}

TEST(Interface, compile_and_jit) {
  const Array x = st::ones({2});
  const st::CompileOptions all{.io_dtype = DType::float16,
                               .intermediate_dtype = DType::float32,
                               .compute_dtype = DType::float32,
                               .allocator = {},
                               .max_workspace = std::size_t{1} << 20,
                               .deterministic = true};
  const Function f = st::compile(all, binary[0], x, 2.0F);
  EXPECT_EQ(f(x, 2.0F).dtype(), DType::float16);
  EXPECT_EQ(f.workspace(), f.workspace());
  const auto [bindings, outputs] = f.bindings(x, 2.0F);
  f.graph().execute(bindings);
  EXPECT_EQ(static_cast<float>(outputs.at<st::half>({0})), 3);
  EXPECT_FALSE(bindings.names().empty());
  EXPECT_EQ(bindings.get("arg0").raw_data(), x.raw_data());
  st::Bindings changed = bindings;
  changed.set("arg0", x);
  EXPECT_FALSE(f.graph().to_string().empty() || f.graph().to_dot().empty() || f.graph().to_json().empty());
  EXPECT_EQ(st::jit(binary[0], x, 2.0F).at<float>({0}), 3);
  EXPECT_TRUE(st::supports(all, binary[0], x, 2.0F).supported);
  EXPECT_GE(st::plan_cache().entries(), 1U);
  EXPECT_GT(st::plan_cache().bytes(), 0U);
  EXPECT_GE(st::plan_cache().hits() + st::plan_cache().misses(), 1U);
  st::plan_cache().set_capacity(1024);
  st::plan_cache().clear();
}

template <class T>
T generic(const T& x) {
  using std::abs;
  using std::atan2;
  using std::ceil;
  using std::cos;
  using std::erf;
  using std::exp;
  using std::floor;
  using std::fmod;
  using std::log;
  using std::pow;
  using std::sin;
  using std::sqrt;
  using std::tan;
  using std::tanh;
  return pow(abs(sin(x) + cos(x) * tan(x)), T(2)) + sqrt(exp(x)) + log(x) + tanh(x) + erf(x) + floor(x) +
         ceil(x) + atan2(x, T(3)) + fmod(x, T(2)) / 2 - 1;
}

TEST(Interface, operations_are_found_by_argument_dependent_lookup) {
  const Array x = st::full({3}, 2.5F);
  EXPECT_NEAR(st::jit(generic<Array>, x).at<float>({0}), generic(2.5F), 1e-5F);
}

}  // namespace
