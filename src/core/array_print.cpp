// SPDX-License-Identifier: Apache-2.0
// Printing arrays: nested brackets of values, the middle of long axes elided; only the type where there are
// no values.
#include <ostream>
#include <string>

#include "core/array_body.hpp"
#include "core/device_memory.hpp"
#include "core/float_bits.hpp"

namespace stiletto {
namespace {

constexpr std::int64_t longest_whole = 1000;  // elements printed without eliding
constexpr std::int64_t edge = 3;              // elements kept at each end of an elided axis

/// An array on a GPU of at most so many bytes comes over as a whole; of a larger one, which is elided, come
/// the elements that are shown.
constexpr std::size_t largest_fetched = std::size_t{1} << 20;

using Element = void (*)(std::ostream&, const void* first, std::int64_t offset);

template <class T, class Shown = T>
void print_as(std::ostream& out, const void* first, std::int64_t offset) {
  out << static_cast<Shown>(static_cast<const T*>(first)[offset]);
}
void print_boolean(std::ostream& out, const void* first, std::int64_t offset) {
  out << (static_cast<const bool*>(first)[offset] ? "true" : "false");
}
void print_e8m0(std::ostream& out, const void* first, std::int64_t offset) {
  out << detail::decode_e8m0(static_cast<const std::uint8_t*>(first)[offset]);
}
void print_e2m1(std::ostream& out, const void* first, std::int64_t offset) {
  const unsigned packed = static_cast<const std::uint8_t*>(first)[offset >> 1];
  out << detail::decode<detail::e2m1_format>(offset % 2 == 0 ? packed & 15U : packed >> 4U);
}

Element element_printer(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return print_boolean;
    case DType::int8:
      return print_as<std::int8_t, int>;
    case DType::uint8:
      return print_as<std::uint8_t, int>;
    case DType::int32:
      return print_as<std::int32_t>;
    case DType::int64:
      return print_as<std::int64_t>;
    case DType::float16:
      return print_as<half, float>;
    case DType::bfloat16:
      return print_as<bfloat16, float>;
    case DType::float32:
      return print_as<float>;
    case DType::float64:
      return print_as<double>;
    case DType::float8_e4m3:
      return print_as<float8_e4m3, float>;
    case DType::float8_e5m2:
      return print_as<float8_e5m2, float>;
    case DType::float8_e8m0:
      return print_e8m0;
    case DType::float4_e2m1:
      return print_e2m1;
  }
  return print_boolean;
}

struct Printer {
  std::ostream& out;
  const detail::ArrayBody& body;
  Element element;
  bool elide;

  void axis(std::size_t i, std::int64_t offset) const {
    if (i == body.shape.size()) return value(offset);
    const std::int64_t extent = body.shape[i];
    out << '[';
    for (std::int64_t k = 0; k < extent; ++k) {
      if (k > 0) separate(i);
      if (elide && extent > 2 * edge && k == edge) {
        out << "...";
        separate(i);
        k = extent - edge;
      }
      axis(i + 1, offset + k * body.strides[i]);
    }
    out << ']';
  }
  void value(std::int64_t offset) const {
    if (body.device.is_cpu()) return element(out, body.data(), offset);
    alignas(8) std::byte fetched[8] = {};
    detail::read_element(body, offset, fetched, "operator<<");
    element(out, fetched, 0);
  }
  void separate(std::size_t i) const {
    if (i + 1 == body.shape.size()) {
      out << ", ";
    } else {
      out << ",\n" << std::string(i + 1, ' ');
    }
  }
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Array& array) {
  const detail::ArrayBody* body = detail::ArrayAccess::body_or_null(array);
  if (body == nullptr) return out << "empty Array";
  if (!array.has_memory()) {
    out << (array.is_traced() ? "traced " : "spec ") << body->dtype << body->shape;
    return body->device.is_cuda() ? out << " on " << body->device : out;
  }
  if (array.size() == 0 && body->shape.size() != 1) return out << "no elements of shape " << body->shape;
  const bool elide = array.size() > longest_whole;
  const bool fetch = !elide || array.nbytes() <= largest_fetched;
  const detail::ArrayBody values = fetch ? detail::on_host(*body, "operator<<") : *body;
  Printer{out, values, element_printer(body->dtype), elide}.axis(0, 0);
  return out;
}

}  // namespace stiletto
