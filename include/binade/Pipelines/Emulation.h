//===- Emulation.h - Formats that a target emulates -------------*- C++ -*-===//

#ifndef BINADE_PIPELINES_EMULATION_H
#define BINADE_PIPELINES_EMULATION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <vector>

namespace mlir::binade {

/// The use in a step of a format for which its target has no instructions.
struct EmulatedFormat {
  Type type;
  int64_t conversions = 0; ///< Ops that convert from or to the format.
  /// An upper bound of the elements that they convert.
  int64_t elements = 0;
  /// Matmuls and convolutions with operands of the format.
  int64_t contractions = 0;
  /// An upper bound of the instructions per conversion.
  unsigned instructions = 0;
};

/// Returns the emulated formats in the order of first use. `step` is the result
/// of phase `materialize`; `target` is, for example, "cuda:sm_90", or empty for
/// CPUs.
std::vector<EmulatedFormat> findEmulatedFormats(func::FuncOp step,
                                                StringRef target);

/// Emits one warning with a note for each emulated format and the predicted
/// cost, or an error if `isStrict`. CPUs, which emulate all narrow formats, get
/// the error, but no warning.
LogicalResult reportEmulation(func::FuncOp step, StringRef target,
                              bool isStrict);

} // namespace mlir::binade

#endif // BINADE_PIPELINES_EMULATION_H
