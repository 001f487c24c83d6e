//===- Build.h - small builders shared by op families -----------*- C++ -*-===//

#ifndef BINADE_IR_BUILD_H
#define BINADE_IR_BUILD_H

#include "binade/IR/Binade.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

namespace mlir::binade {

//===----------------------------------------------------------------------===//
// On tensors
//===----------------------------------------------------------------------===//

/// A constant of `type` (a ranked tensor) with one value everywhere.
Value buildSplat(ImplicitLocOpBuilder &b, Type type, double value);

/// `x` in `element` format: `x` itself where it is so already.
Value buildCast(ImplicitLocOpBuilder &b, Value x, Type element);

/// `x` in `format`, or where memory has not that format, rounded to it.
Value buildRounded(ImplicitLocOpBuilder &b, Value x, FloatType format);

/// `x` copied to the shape of `like`; axis i of `x` is axis `axes[i]`.
Value buildBroadcast(ImplicitLocOpBuilder &b, Value x, ArrayRef<int64_t> axes,
                     ArrayRef<int64_t> shape);

/// `x` under another shape: `x` itself where it has it already.
Value buildReshape(ImplicitLocOpBuilder &b, Value x, ArrayRef<int64_t> shape);

/// The permutation that swaps the last two axes of `type`, a ranked tensor.
SmallVector<int64_t> getSwapOfLastAxes(Type type);

/// What `x` is the transpose of, if only its last two axes are swapped.
Value getSwapped(Value x);

/// The operand that `x` shows in another shape, order or format; null where it
/// is something of its own.
Value getMoved(Value x);

/// What a tile's body gives: pieces of results, and summands.
struct TileYield {
  SmallVector<Value> joined, added;
};

/// A `binade.tile`: `body` builds its ops from the pieces of `sliced` and from
/// `whole`. Returns joined results, then sums.
SmallVector<Value>
buildTile(ImplicitLocOpBuilder &b, int64_t count, ValueRange sliced,
          ValueRange whole,
          function_ref<TileYield(ImplicitLocOpBuilder &, ValueRange)> body);

/// Whether `x` is a `binade.constant`.
bool isConstant(Value x);

/// {dy where `condition` holds else 0, the other way around}.
SmallVector<Value> selectGradients(ImplicitLocOpBuilder &b, Value dy,
                                   Value condition);

/// Row reduction, column reduction or full reduction, by where `axes` lie.
Schedule getReductionSchedule(Type type, ArrayRef<int64_t> axes);
LogicalResult inferReduction(std::optional<Location> location, Type type,
                             ArrayRef<int64_t> axes,
                             SmallVectorImpl<Type> &types);

/// Checks that `stream` is a word of 32 bits.
LogicalResult verifyStream(Operation *op, int64_t stream);
LogicalResult verifyDropout(Operation *op, const APFloat &ratio,
                            int64_t stream);
/// A number of `random_uniform` for each element of a tensor of `shape`.
Value buildRandomTensor(ImplicitLocOpBuilder &b, Value rng, int64_t stream,
                        ArrayRef<int64_t> shape);
FailureOr<SmallVector<Value>> decomposeDropout(ImplicitLocOpBuilder &b, Value x,
                                               Value rng, const APFloat &ratio,
                                               int64_t stream, Type type);

/// Number `index` of a generator's state, a tensor of two: seed or step.
Value buildRngWord(ImplicitLocOpBuilder &b, Value rng, int64_t index);

//===----------------------------------------------------------------------===//
// On elements: scalars or vectors
//===----------------------------------------------------------------------===//

/// The four words of 32 bits that Philox4x32-10 draws, in i64 as all operands
/// are. Of `stream` and `step` the low 32 bits count.
std::array<Value, 4> buildRandomWords(ImplicitLocOpBuilder &b, Value index,
                                      Value stream, Value step, Value seed);

/// A random word in an i64 as f32: a multiple of 2^-24 in [0, 1).
Value buildUniform(ImplicitLocOpBuilder &b, Value word);

/// A constant of the type of `like` (float or integer, scalar or vector).
Value splat(ImplicitLocOpBuilder &b, Value like, double value);

/// The float op on floats, the integer op on integers.
template <typename FloatOp, typename IntegerOp>
Value buildBinary(ImplicitLocOpBuilder &b, Value lhs, Value rhs) {
  if (isa<FloatType>(getElementTypeOrSelf(lhs.getType())))
    return FloatOp::create(b, lhs, rhs);
  return IntegerOp::create(b, lhs, rhs);
}

/// Whether `type`, of a tensor or an element, has integers without negative
/// ones: what of them an arithmetic op reads as.
bool isUnsigned(Type type);
/// The number that `bits`, of an integer of `type`, stand for; of unsigned ones
/// of 64 bits as those of an i64.
int64_t getInteger(const APInt &bits, Type type);

/// lhs / rhs; of integers as `div` says, without a trap for any of them.
Value buildQuotient(ImplicitLocOpBuilder &b, Value lhs, Value rhs,
                    bool isUnsigned);

Value buildComparison(ImplicitLocOpBuilder &b, Value lhs, Value rhs,
                      Comparison comparison, bool isUnsigned);
Value buildGelu(ImplicitLocOpBuilder &b, Value x, Approximation approximation);
Value buildSilu(ImplicitLocOpBuilder &b, Value x);
Value buildSiluGrad(ImplicitLocOpBuilder &b, Value dy, Value x);
Value buildGeluGrad(ImplicitLocOpBuilder &b, Value dy, Value x,
                    Approximation approximation);

} // namespace mlir::binade

#endif // BINADE_IR_BUILD_H
