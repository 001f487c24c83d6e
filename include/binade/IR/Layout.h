//===- Layout.h - the order of axes in memory -------------------*- C++ -*-===//

#ifndef BINADE_IR_LAYOUT_H
#define BINADE_IR_LAYOUT_H

#include "mlir/IR/Operation.h"

namespace mlir::binade {

/// The order in which the axes of a tensor stand in memory: axis i there is the
/// tensor's axis layout[i]. Empty for row-major order.
using Layout = SmallVector<int64_t, 5>;

/// One layout for each operand and each result of an op.
struct Layouts {
  SmallVector<Layout> operands, results;

  /// All row-major.
  explicit Layouts(Operation *op)
      : operands(op->getNumOperands()), results(op->getNumResults()) {}
};

/// The first layout known, results before operands, for all values of its rank.
Layouts followLayouts(Operation *op, const Layouts &known);

/// Where `axis` stands in memory.
int64_t findAxis(const Layout &layout, int64_t axis);

/// Where `axes` stand in memory, ascending.
SmallVector<int64_t> findAxes(const Layout &layout, ArrayRef<int64_t> axes);

/// One number per axis, in the order of the axes in memory.
SmallVector<int64_t> reorder(const Layout &layout, ArrayRef<int64_t> numbers);

} // namespace mlir::binade

#endif // BINADE_IR_LAYOUT_H
