//===- Reduction.h - sums and maxima in a fixed order -----------*- C++ -*-===//
//
// 16 lanes of partial results, element i in lane i mod 16 of its row, then a
// tree over the lanes: the same bits on every target and for every number of
// threads.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_REDUCTION_H
#define BINADE_LIB_CODEGEN_LOOPS_REDUCTION_H

#include "Emitter.h"

namespace mlir::binade {

/// The axes of a reduction's operand, neighbours of one kind put together.
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
  /// Rows of `columns` elements each.
  static Loops rows(int64_t rows, int64_t columns);

  int64_t getKept() const;
  int64_t getReduced() const;
  /// Size of the last group.
  int64_t getColumns() const { return groups.back().size; }
  int64_t getElements() const { return getKept() * getReduced(); }
  bool operator==(const Loops &other) const { return groups == other.groups; }

  /// The operand's offset of entry `kept` of the kept axes, entry `reduced` of
  /// the reduced ones; the last group's entry, `column`, stands for itself.
  Offset getOffset(OffsetSpace &space, Offset kept, Offset reduced,
                   const Offset &column) const;
};

/// All lanes put together, by a tree over them.
Value combineLanes(ImplicitLocOpBuilder &b, Value lanes,
                   llvm::function_ref<Value(Value, Value)> combine);

/// A reduction op and how it adds up.
struct Reduction {
  Operation *op;

  static std::optional<Reduction> from(Operation *op);
  Value getInput() const { return op->getOperand(0); }
  Value getResult() const { return op->getResult(0); }
  Loops getLoops() const;
  /// Whether there is a result for each column of the operand, not for rows.
  bool leavesColumns() const { return !getLoops().groups.back().isReduced; }
  /// f32, or f64 for operands of f64.
  Type getPartialType() const;
  Value combine(ImplicitLocOpBuilder &b, Value lhs, Value rhs) const;
  bool isOfMagnitudes() const;
  /// What changes nothing when it is combined.
  double getNeutral() const;
  /// Neutral partial results, one per lane.
  Value start(ImplicitLocOpBuilder &b, int64_t lanes = kLanes) const;
  /// What it counts, where it adds up the ones of a truth; null where not.
  Value getCounted() const;
  /// Of what it adds up the squares, where those are exact as f64; null where
  /// not.
  Value getSquared() const;
  /// `partial` with the operand's lanes at `offset`, as many or fewer, added to
  /// its first ones.
  Value accumulate(Emitter &emitter, Value partial, const Offset &offset) const;
  /// Says that the result is `total`, rounded to its format, at `offset`.
  void define(Emitter &emitter, Value total, const Offset &offset) const;
  /// Entries `first`, `first` + `stride` ... of `partials`, `count` of them,
  /// put together in this order; sums in f64.
  Value combineAll(Emitter &emitter, Value partials, const Offset &first,
                   int64_t stride, int64_t count) const;
  /// The result of all lanes of all threads that walk together.
  Value finish(Emitter &emitter, Value partial) const;
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_REDUCTION_H
