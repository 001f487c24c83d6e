//===- Rows.h - Rows of a tensor --------------------------------*- C++ -*-===//

#ifndef BINADE_LIB_REFERENCE_ROWS_H
#define BINADE_LIB_REFERENCE_ROWS_H

#include "binade/Reference/Tensor.h"

namespace mlir::binade {

/// Calls `use(index of the row, index of its first element, length)`, also for
/// rows of length 0.
template <typename Use> void forEachRow(const Tensor &x, Use use) {
  int64_t length = x.getShape().back();
  int64_t rows = ShapedType::getNumElements(x.getShape().drop_back());
  for (int64_t row = 0; row < rows; ++row)
    use(row, row * length, length);
}

} // namespace mlir::binade

#endif // BINADE_LIB_REFERENCE_ROWS_H
