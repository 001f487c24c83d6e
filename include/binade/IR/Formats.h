//===- Formats.h - Limits of formats ----------------------------*- C++ -*-===//

#ifndef BINADE_IR_FORMATS_H
#define BINADE_IR_FORMATS_H

#include "mlir/IR/BuiltinTypes.h"

namespace mlir::binade {

/// Returns the largest finite value of `format`.
inline double getLargest(FloatType format) {
  return llvm::APFloat::getLargest(format.getFloatSemantics())
      .convertToDouble();
}

} // namespace mlir::binade

#endif // BINADE_IR_FORMATS_H
