//===- Offset.h - Symbolic offsets of elements ------------------*- C++ -*-===//
//
// An offset is the row-major position of the element, or of the lanes, that a
// kernel accesses in a tensor: a sum of loop counters with constant factors.
// Ops that move elements (broadcast, transpose, slice ...) rewrite the offset
// instead of the data. Quotients and remainders by constants are simplified
// where the ranges of the counters allow it; the remaining ones become
// variables.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_OFFSET_H
#define BINADE_LIB_CODEGEN_LOOPS_OFFSET_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"
#include <deque>
#include <map>

namespace mlir::binade {

struct Variable;

/// constant + sum of coefficient * variable. Not negative, except for
/// differences.
struct Offset {
  int64_t constant = 0;
  /// In the order of the variables' numbers; no coefficient is 0.
  SmallVector<std::pair<const Variable *, int64_t>, 3> terms;

  Offset() = default;
  Offset(int64_t constant) : constant(constant) {}

  /// Returns the largest value.
  int64_t maximum() const;
  /// Returns the depth of the innermost loop that the offset depends on; lanes
  /// do not count.
  unsigned depth() const;
  /// Whether the offset differs between the lanes of a vector.
  bool variesOverLanes() const;
  /// Returns the factor of `variable`, 0 if it is not a term.
  int64_t coefficientOf(const Variable *variable) const;
  /// Whether a difference has a negative term, and may not be an offset.
  bool isNegative() const;

  Offset operator+(const Offset &other) const;
  /// Returns the difference, which may be negative.
  Offset operator-(const Offset &other) const;
  Offset operator*(int64_t factor) const;
  bool operator==(const Offset &other) const;
  bool operator<(const Offset &other) const;
};

/// A symbolic integer in [0, extent).
struct Variable {
  enum class Kind {
    Counter,   ///< a loop counter, `value` / `step`
    Lane,      ///< the number of the lane in its vector
    Quotient,  ///< `of` / `by`
    Remainder, ///< `of` % `by`
    Shifted,   ///< `of` - `by`, clamped to [0, extent)
    Loaded,    ///< `value`, one index or one per lane
  };
  unsigned number;
  Kind kind;
  int64_t extent;
  /// Number of loops around the definition of the variable.
  unsigned depth;
  bool variesOverLanes;
  Value value = {};
  int64_t step = 1;
  Offset of = {};
  int64_t by = 1;
};

/// Owns the variables of a kernel. Equal quotients (remainders) are one
/// variable.
class OffsetSpace {
public:
  /// Returns `value` / `step`, which is in [0, extent), for a loop counter that
  /// is a multiple of `step`.
  Offset counter(Value value, int64_t extent, unsigned depth, int64_t step = 1);
  /// Returns the number of the lane, 0 if `count` is 1.
  Offset lanes(int64_t count);
  /// Returns an index in [0, extent) that was loaded, one or one per lane.
  Offset loaded(Value value, int64_t extent, unsigned depth, bool perLane);
  /// Returns `of` - `by`, which must be in [0, extent) inside the loop at
  /// `depth`. Elsewhere it is clamped to this range.
  Offset shifted(const Offset &of, int64_t by, int64_t extent, unsigned depth);

  struct Division {
    Offset quotient, remainder;
    std::pair<Offset, Offset> asPair() const { return {quotient, remainder}; }
  };
  /// Divides, with new variables only for terms that cannot be simplified.
  Division divide(const Offset &offset, int64_t divisor);

  /// An offset as unit * first + second with second < unit, for the largest
  /// `unit` found that divides `divisor`.
  struct Split {
    int64_t unit;
    Offset first, second;
  };
  Split split(const Offset &offset, int64_t divisor) const;

  /// Returns a length for each division whose quotient may differ between the
  /// lanes of a vector. It does not differ if vectors do not cross the ends of
  /// rows of this length.
  const SmallVectorImpl<int64_t> &getCuts() const { return cuts; }

private:
  Offset add(Variable variable);
  Offset derived(Variable::Kind kind, const Offset &of, int64_t by,
                 int64_t extent, unsigned depth);

  std::deque<Variable> variables;
  std::map<std::tuple<Variable::Kind, Offset, int64_t, unsigned>,
           const Variable *>
      known;
  std::map<int64_t, const Variable *> laneVariables;
  SmallVector<int64_t> cuts;
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_OFFSET_H
