//===- Arithmetic.h - Arithmetic on single lanes ----------------*- C++ -*-===//
//
// A lane is the bit pattern of an element, zero-extended to 64 bits.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_SIMULATOR_ARITHMETIC_H
#define BINADE_LIB_SIMULATOR_ARITHMETIC_H

#include "mlir/IR/Operation.h"
#include <functional>

namespace mlir::binade {

using LaneFunction = std::function<uint64_t(const uint64_t *operands)>;

/// Returns the function that `op` of the dialects arith or math computes for
/// one lane of each operand; null for other ops. f32 and f64 follow IEEE 754,
/// without contraction.
LaneFunction getLaneFunction(Operation *op);

/// Returns the value of a bit pattern of `type`.
double toDouble(uint64_t bits, FloatType type);

/// Returns the bit pattern of a number in an attribute.
uint64_t getBits(Attribute number);

/// Returns the function that combines two elements in a vector reduction of
/// `kind`; null if it is not supported.
LaneFunction getCombiner(Attribute kind, Type element);

/// Return the width of an element in registers, and in memory.
unsigned getBitWidth(Type element);
unsigned getByteWidth(Type element);

} // namespace mlir::binade

#endif // BINADE_LIB_SIMULATOR_ARITHMETIC_H
