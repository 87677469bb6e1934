// SPDX-License-Identifier: Apache-2.0
// Turning a product of the canonical graph into a matmul step: which axes are batch, rows and columns, which
// operands are packed first, and how much of what follows the product is done by the product itself.
#pragma once
#include <optional>
#include <set>
#include <vector>

#include "backends/cpu/schedule.hpp"

namespace stiletto::detail::cpu {

/// A use of an expression: by a store of the graph or by another expression.
struct Use {
  bool store = false;
  std::uint32_t index = 0;
};

class MatmulPlanner {
 public:
  /// The schedule that is being put together.
  class Host {
   public:
    Host() = default;
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;
    virtual ~Host() = default;
    virtual const Memory* resident(std::uint32_t expression) const = 0;
    virtual Memory temporary(DType dtype, const std::vector<std::size_t>& axes) = 0;
    virtual void write(std::uint32_t expression, AxisMask space, const Memory& memory) = 0;
    /// `result` is the expression that `memory` then holds.
    virtual void add_matmul(std::uint32_t result, const Memory& memory, MatmulStep step) = 0;
    virtual void mark_written(std::uint32_t store) = 0;
  };

  MatmulPlanner(const CanonicalGraph& graph, const Expressions& expressions,
                const std::vector<std::vector<Use>>& uses, Host& host)
      : graph_(graph), expressions_(expressions), uses_(uses), host_(host) {}

  void plan(std::uint32_t product);

  /// Where a value that is not stored itself may be written: the output that it ends in, if that has this
  /// dtype and nothing else was put there.
  std::optional<Memory> landing(std::uint32_t value, DType dtype);

 private:
  struct Axes {
    std::vector<std::size_t> batch, m, n, k;  // m and n: at most one, k: walked as one
  };
  struct Fused {
    PostOperation post;
    MatmulStep::Operand operand;
    std::uint32_t result = 0;  // the expression computed once this is done
    bool none = false;         // nothing to do: a cast that the write does anyway
  };

  const Expression& at(std::uint32_t i) const { return expressions_.list[i]; }
  Axes classify(const Expression& product) const;
  Memory operand(std::uint32_t expression, const Axes& axes, bool left, DType other);
  MatrixLayout layout(const Memory& memory, const Axes& axes, const std::vector<std::size_t>& rows,
                      const std::vector<std::size_t>& columns) const;
  std::int64_t size(const std::vector<std::size_t>& axes) const;
  std::vector<Fused> chain(std::uint32_t product, const Axes& axes) const;
  bool fuse(std::uint32_t user, std::uint32_t value, const Axes& axes, AxisMask space, Fused& fused) const;
  const Store* final_store(std::uint32_t value) const;
  /// A step that does the first `count` fused operations and writes c; false when no engine takes it.
  /// `destination` is the store behind c, whose old contents may be one of the operands.
  bool try_step(const MatmulProblem& base, const Axes& axes, const std::vector<Fused>& fused,
                std::size_t count, const Memory& c, const Tensor* destination, MatmulStep& step) const;
  static bool same_memory(const Tensor& a, const Tensor& b);
  static std::size_t trailing_casts(const std::vector<Fused>& fused, std::size_t begin, std::size_t end);
  bool may_be(const Fused& fused, const Tensor& destination) const;

  const CanonicalGraph& graph_;
  const Expressions& expressions_;
  const std::vector<std::vector<Use>>& uses_;
  Host& host_;
  std::set<std::uint32_t> landed_;  // outputs that hold a product until it is overwritten by what it becomes
};

}  // namespace stiletto::detail::cpu
