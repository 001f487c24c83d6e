//===- Layout.h - Order of axes in memory -----------------------*- C++ -*-===//

#ifndef BINADE_IR_LAYOUT_H
#define BINADE_IR_LAYOUT_H

#include "mlir/IR/Operation.h"

namespace mlir::binade {

/// The order of the axes of a tensor in memory: axis i in memory is the
/// tensor's axis layout[i]. Empty for row-major order.
using Layout = SmallVector<int64_t, 5>;

/// One layout for each operand and each result of an op.
struct Layouts {
  SmallVector<Layout> operands, results;

  /// Creates row-major layouts.
  explicit Layouts(Operation *op)
      : operands(op->getNumOperands()), results(op->getNumResults()) {}
};

/// Uses the first layout that is not row-major, of results before operands, for
/// all values of the same rank.
Layouts followLayouts(Operation *op, const Layouts &known);

/// Returns the position of `axis` in memory.
int64_t findAxis(const Layout &layout, int64_t axis);

/// Returns the positions of `axes` in memory, ascending.
SmallVector<int64_t> findAxes(const Layout &layout, ArrayRef<int64_t> axes);

/// Reorders one number per axis to the order of the axes in memory.
SmallVector<int64_t> reorder(const Layout &layout, ArrayRef<int64_t> numbers);

} // namespace mlir::binade

#endif // BINADE_IR_LAYOUT_H
