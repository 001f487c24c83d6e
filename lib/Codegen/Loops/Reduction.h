//===- Reduction.h - Sums and maxima in a fixed order -----------*- C++ -*-===//
//
// On a CPU, a reduction has 16 lanes of partial results: element i of a row is
// added to lane i mod 16, and a tree combines the lanes. The result has the
// same bits for every instruction set and any number of threads. On a GPU, the
// threads of a team have lanes each, which a tree combines in a fixed order.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_REDUCTION_H
#define BINADE_LIB_CODEGEN_LOOPS_REDUCTION_H

#include "Emitter.h"

namespace mlir::binade {

/// The axes of a reduction's operand. Adjacent axes that are all kept or all
/// reduced are merged.
struct Loops {
  struct Group {
    int64_t size;
    bool isReduced;
    bool operator==(const Group &other) const {
      return size == other.size && isReduced == other.isReduced;
    }
  };
  SmallVector<Group> groups;

  static Loops of(ArrayRef<int64_t> shape, ArrayRef<int64_t> reduced);
  /// Returns the loops of rows of `columns` elements each.
  static Loops rows(int64_t rows, int64_t columns);

  int64_t getKept() const;
  int64_t getReduced() const;
  /// Returns the size of the last group.
  int64_t getColumns() const { return groups.back().size; }
  int64_t getElements() const { return getKept() * getReduced(); }
  bool operator==(const Loops &other) const { return groups == other.groups; }

  /// Returns the operand's offset at entry `kept` of the kept axes and entry
  /// `reduced` of the reduced axes, without the last group, whose entry is
  /// `column`.
  Offset getOffset(OffsetSpace &space, Offset kept, Offset reduced,
                   const Offset &column) const;
};

/// Combines all lanes by a tree.
Value combineLanes(ImplicitLocOpBuilder &b, Value lanes,
                   llvm::function_ref<Value(Value, Value)> combine);

/// A reduction op, and how it combines elements.
struct Reduction {
  Operation *op;

  static std::optional<Reduction> from(Operation *op);
  Value getInput() const { return op->getOperand(0); }
  Value getResult() const { return op->getResult(0); }
  Loops getLoops() const;
  /// Whether there is a result per column of the operand, that is, the last
  /// axis is kept.
  bool leavesColumns() const { return !getLoops().groups.back().isReduced; }
  /// Returns the type of partial results: f64 for operands of f64, otherwise
  /// f32.
  Type getPartialType() const;
  Value combine(ImplicitLocOpBuilder &b, Value lhs, Value rhs) const;
  bool isOfMagnitudes() const;
  /// Returns the neutral element.
  double getNeutral() const;
  /// Returns how many partial results a thread needs for elements of `lanes`:
  /// the largest magnitude does not depend on the order.
  int64_t countPartials(int64_t lanes) const {
    return isOfMagnitudes() ? 1 : lanes;
  }
  /// Returns neutral partial results, one per lane.
  Value start(ImplicitLocOpBuilder &b, int64_t lanes = kLanes) const;
  /// Returns the i1 tensor if this is a sum that counts its true elements,
  /// otherwise null.
  Value getCounted() const;
  /// Returns x if this is a sum of x * x whose squares are exact in f64,
  /// otherwise null.
  Value getSquared() const;
  /// Returns the value whose lanes `accumulate` combines.
  Value getAccumulated() const;
  /// Returns `partial` combined with the operand's lanes at `offset`. If these
  /// are fewer, they are combined with the first lanes. More of them are only
  /// allowed for magnitudes.
  Value accumulate(Emitter &emitter, Value partial, const Offset &offset) const;
  /// Records that the result at `offset` is `total`, rounded to its format.
  void define(Emitter &emitter, Value total, const Offset &offset) const;
  /// Combines the entries `first`, `first` + `stride` ... of `partials`,
  /// `count` in all, in this order. Sums are computed in f64.
  Value combineAll(Emitter &emitter, Value partials, const Offset &first,
                   int64_t stride, int64_t count) const;
  /// Combines all lanes of all threads of the team.
  Value finish(Emitter &emitter, Value partial) const;
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_REDUCTION_H
