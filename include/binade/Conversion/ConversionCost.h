//===- ConversionCost.h - what emulated formats take ------------*- C++ -*-===//

#ifndef BINADE_CONVERSION_CONVERSIONCOST_H
#define BINADE_CONVERSION_CONVERSIONCOST_H

#include "mlir/IR/BuiltinTypes.h"

namespace mlir::binade {

/// Operations of integer arithmetic that a conversion of one number is.
struct ConversionCost {
  unsigned encode = 0; ///< From f32, with saturation.
  unsigned decode = 0; ///< To f32.
};

/// For a float of at most 8 bits, where a target has no instructions for it.
ConversionCost countConversion(FloatType format);

} // namespace mlir::binade

#endif // BINADE_CONVERSION_CONVERSIONCOST_H
