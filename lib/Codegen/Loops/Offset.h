//===- Offset.h - where an element stands, as a formula ---------*- C++ -*-===//
//
// A kernel asks for one element, or for 16 lanes of elements, of each tensor.
// Which one is a row-major offset: a sum of loop counters times constants.
// Movement of elements (broadcast, transpose, slice ...) rewrites the offset
// instead of the data. Quotients and remainders by constants are exact where
// the ranges of the counters allow it; what remains is a variable of its own.
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

/// constant + sum of coefficient * variable; never negative.
struct Offset {
  int64_t constant = 0;
  /// In order of the variables' numbers; no coefficient is 0.
  SmallVector<std::pair<const Variable *, int64_t>, 3> terms;

  Offset() = default;
  Offset(int64_t constant) : constant(constant) {}

  /// The largest value.
  int64_t maximum() const;
  /// Depth of the innermost loop that it depends on; lanes do not count.
  unsigned depth() const;
  /// Whether the lanes of a vector stand at different offsets.
  bool variesOverLanes() const;
  /// The factor of `variable`, 0 where it is no term.
  int64_t coefficientOf(const Variable *variable) const;
  /// Whether a difference is not an offset.
  bool isNegative() const;

  Offset operator+(const Offset &other) const;
  /// May be negative.
  Offset operator-(const Offset &other) const;
  Offset operator*(int64_t factor) const;
  bool operator==(const Offset &other) const;
  bool operator<(const Offset &other) const;
};

/// An integer in [0, extent).
struct Variable {
  enum class Kind {
    Counter,   ///< `value` / `step`, a loop counter
    Lane,      ///< the number of the lane
    Quotient,  ///< of `of` by `by`
    Remainder, ///< of `of` by `by`
    Shifted,   ///< `of` - `by`, clamped to the range
    Loaded,    ///< `value`, one number or one per lane
  };
  unsigned number;
  Kind kind;
  int64_t extent;
  /// Number of loops around the place where it becomes known.
  unsigned depth;
  bool variesOverLanes;
  Value value = {};
  int64_t step = 1;
  Offset of = {};
  int64_t by = 1;
};

/// Owns the variables of a kernel; equal quotients are one variable.
class OffsetSpace {
public:
  Offset counter(Value value, int64_t extent, unsigned depth, int64_t step = 1);
  /// The number of the lane; a single one needs no vector.
  Offset lanes(int64_t count);
  Offset loaded(Value value, int64_t extent, unsigned depth, bool perLane);
  /// `of` - `by`, which is known to be in [0, extent) at `depth`, and is
  /// clamped to that elsewhere.
  Offset shifted(const Offset &of, int64_t by, int64_t extent, unsigned depth);

  struct Division {
    Offset quotient, remainder;
    std::pair<Offset, Offset> asPair() const { return {quotient, remainder}; }
  };
  Division divide(const Offset &offset, int64_t divisor);

  /// Splits `offset` into unit * first + second, second < unit, with the
  /// largest `unit` that divides `divisor`.
  struct Split {
    int64_t unit;
    Offset first, second;
  };
  Split split(const Offset &offset, int64_t divisor) const;

  /// Numbers of columns after which a row should end, so that no lane of a
  /// vector is divided: from all divisions so far.
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
