//===- Emulation.h - formats that a target lacks ----------------*- C++ -*-===//

#ifndef BINADE_PIPELINES_EMULATION_H
#define BINADE_PIPELINES_EMULATION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <vector>

namespace mlir::binade {

/// What a step does in a format for which its target has no instructions.
struct EmulatedFormat {
  Type type;
  int64_t conversions = 0;   ///< Ops that make or read numbers of the format.
  int64_t elements = 0;      ///< All numbers that they convert, at most.
  int64_t products = 0;      ///< Matrix products and convolutions of such.
  unsigned instructions = 0; ///< Of a conversion, at most.
};

/// In the order of first use. `step` is left by phase `materialize`; `target`
/// is "cuda:sm_90", or empty for CPUs.
std::vector<EmulatedFormat> findEmulatedFormats(func::FuncOp step,
                                                StringRef target);

/// One warning with a line for each emulated format and what all of them cost;
/// with `isStrict` an error in its place. Of CPUs, which have none of the
/// narrow formats, only who is strict hears.
LogicalResult reportEmulation(func::FuncOp step, StringRef target,
                              bool isStrict);

} // namespace mlir::binade

#endif // BINADE_PIPELINES_EMULATION_H
