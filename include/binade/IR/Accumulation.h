//===- Accumulation.h - Matmuls with modelled accumulators ------*- C++ -*-===//

#ifndef BINADE_IR_ACCUMULATION_H
#define BINADE_IR_ACCUMULATION_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Whether `format` has FP8 elements as matrix units multiply them.
bool isMultipliedInFp8(QuantizedAttr format);

/// Returns why the products of `op` with operands quantized to `operands`, the
/// list of a decision, cannot be added as `#binade.accumulation` says: "has an
/// operand in ..."; empty if they can.
std::string explainUnaccumulated(PrecisionOpInterface op, ArrayAttr operands);

/// Builds the `scaled_matmul` with `accumulation` for `op`, whose operands are
/// dequantized. Emits an error if it has no such form.
FailureOr<Value> buildAccumulated(ImplicitLocOpBuilder &b, MatmulOp op,
                                  AccumulationAttr accumulation);

} // namespace mlir::binade

#endif // BINADE_IR_ACCUMULATION_H
