//===- Arithmetic.h - what ops compute of single lanes ----------*- C++ -*-===//
//
// A lane is the bits of a number in the low bits of 64, the others 0.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_SIMULATOR_ARITHMETIC_H
#define BINADE_LIB_SIMULATOR_ARITHMETIC_H

#include "mlir/IR/Operation.h"
#include <functional>

namespace mlir::binade {

using LaneFunction = std::function<uint64_t(const uint64_t *operands)>;

/// What `op` of the dialects arith and math computes of one lane of each
/// operand; null for other ops. f32 and f64 as IEEE 754 says, nothing
/// contracted.
LaneFunction getLaneFunction(Operation *op);

/// The number that bits of `type` stand for.
double toDouble(uint64_t bits, FloatType type);

/// The bits of a number that an attribute names.
uint64_t getBits(Attribute number);

/// The two numbers put together by a reduction of a vector.
LaneFunction getCombiner(Attribute kind, Type element);

/// Of an element in registers, and in memory.
unsigned getBitWidth(Type element);
unsigned getByteWidth(Type element);

} // namespace mlir::binade

#endif // BINADE_LIB_SIMULATOR_ARITHMETIC_H
