//===- Evaluate.h - Constants computed at import ----------------*- C++ -*-===//
// Shape arithmetic, masks and tables that exporters spell out node by node are
// computed here, so that shapes are static and a mask is one constant.
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

/// A tensor under evaluation. A splat has one element.
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

Elements unpack(DenseElementsAttr attribute);
/// Integers wrap to their width, floats are rounded once to their format.
DenseElementsAttr pack(const Elements &elements);

/// `elements` copied to `shape`, whose trailing axes it has or has as 1.
Elements broadcast(const Elements &elements, ArrayRef<int64_t> shape);

/// The one result of `op`, or null where this evaluator does not know the op:
/// every element computed in f64 or i64 and rounded once.
DenseElementsAttr evaluate(Operation *op, ArrayRef<DenseElementsAttr> operands);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_EVALUATE_H
