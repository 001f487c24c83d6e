//===- Evaluate.h - Constant folding at import ------------------*- C++ -*-===//
// Evaluates ops whose operands are constants. Exporters compute shapes, masks
// and tables by many nodes; after folding, shapes are static and a mask is one
// constant.
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_IMPORT_ONNX_EVALUATE_H
#define BINADE_LIB_IMPORT_ONNX_EVALUATE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace mlir::binade::importer {

/// One element: integers and booleans in `i`, floats in `f`.
union Number {
  int64_t i;
  double f;
};

/// The elements of a tensor; of a splat, only one.
struct Elements {
  RankedTensorType type;
  std::vector<Number> numbers;

  bool isSplat() const {
    return numbers.size() == 1 && type.getNumElements() != 1;
  }
  const Number &operator[](size_t index) const {
    return numbers.size() == 1 ? numbers.front() : numbers[index];
  }
};

/// Returns the elements of a constant.
Elements unpack(DenseElementsAttr attribute);
/// Truncates integers to their width and rounds floats to their format.
DenseElementsAttr pack(const Elements &elements);

/// Broadcasts `elements` to `shape` by numpy's rules.
Elements broadcast(const Elements &elements, ArrayRef<int64_t> shape);

/// Returns the only result of `op`, with elements computed in f64 or i64 and
/// rounded once; null if the evaluator does not support the op.
DenseElementsAttr evaluate(Operation *op, ArrayRef<DenseElementsAttr> operands);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_EVALUATE_H
