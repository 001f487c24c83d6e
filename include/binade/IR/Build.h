//===- Build.h - Builders shared by op families -----------------*- C++ -*-===//

#ifndef BINADE_IR_BUILD_H
#define BINADE_IR_BUILD_H

#include "binade/IR/Binade.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

namespace mlir::binade {

//===----------------------------------------------------------------------===//
// Ops on tensors
//===----------------------------------------------------------------------===//

/// Builds a constant of `type`, a ranked tensor, whose elements are all
/// `value`.
Value buildSplat(ImplicitLocOpBuilder &b, Type type, double value);

/// Casts `x` to `element`; returns `x` itself if it has that element type.
Value buildCast(ImplicitLocOpBuilder &b, Value x, Type element);

/// Casts `x` to `format`; rounds it to `format` if that is not a storage
/// format.
Value buildRounded(ImplicitLocOpBuilder &b, Value x, FloatType format);

/// Broadcasts `x` to `shape`; axis i of `x` becomes axis `axes[i]`.
Value buildBroadcast(ImplicitLocOpBuilder &b, Value x, ArrayRef<int64_t> axes,
                     ArrayRef<int64_t> shape);

/// Reshapes `x` to `shape`; returns `x` itself if it has that shape.
Value buildReshape(ImplicitLocOpBuilder &b, Value x, ArrayRef<int64_t> shape);

/// Returns the permutation that swaps the last two axes of `type`, a ranked
/// tensor.
SmallVector<int64_t> getSwapOfLastAxes(Type type);

/// Returns the operand of `x` if `x` is a transpose of the last two axes; else
/// null.
Value getSwapped(Value x);

/// Returns the operand if `x` is a view, transpose or cast of it; else null.
Value getMoved(Value x);

/// What the body of a tile yields: slices of results, and summands.
struct TileYield {
  SmallVector<Value> joined, added;
};

/// Builds a `binade.tile` whose body `body` builds from slices of `sliced` and
/// from `whole`; it is called again for the remainder, if `shape` has one.
/// Returns the concatenated results, then the sums.
SmallVector<Value>
buildTile(ImplicitLocOpBuilder &b, const TileShape &shape, ValueRange sliced,
          ValueRange whole,
          function_ref<TileYield(ImplicitLocOpBuilder &, ValueRange)> body);

/// Whether `x` is a `binade.constant`.
bool isConstant(Value x);

/// Returns {`dy` where `condition` holds, else 0; 0 where it holds, else `dy`}.
SmallVector<Value> selectGradients(ImplicitLocOpBuilder &b, Value dy,
                                   Value condition);

/// Returns row, column or full reduction, depending on the position of `axes`.
Schedule getReductionSchedule(Type type, ArrayRef<int64_t> axes);
LogicalResult inferReduction(std::optional<Location> location, Type type,
                             ArrayRef<int64_t> axes,
                             SmallVectorImpl<Type> &types);

/// Checks that `stream` is a 32-bit word.
LogicalResult verifyStream(Operation *op, int64_t stream);
LogicalResult verifyDropout(Operation *op, const APFloat &ratio,
                            int64_t stream);
/// Builds the `random_uniform` of the elements `index`, an i64 tensor.
Value buildRandomValues(ImplicitLocOpBuilder &b, Value rng, int64_t stream,
                        Value index, int64_t perCounter = 1);
/// Builds `x` in f32, with the elements scaled whose random value `uniform` is
/// at least `ratio`, and the others replaced by 0.
Value buildDropout(ImplicitLocOpBuilder &b, Value x, Value uniform,
                   const APFloat &ratio);
/// Builds a `random_uniform` of `shape`, with one value per element and
/// `perCounter` values per counter.
Value buildRandomTensor(ImplicitLocOpBuilder &b, Value rng, int64_t stream,
                        ArrayRef<int64_t> shape, int64_t perCounter = 1);
FailureOr<SmallVector<Value>> decomposeDropout(ImplicitLocOpBuilder &b, Value x,
                                               Value rng, const APFloat &ratio,
                                               int64_t stream, Type type);

/// Returns element `index` of the generator's state, a tensor of seed and step.
Value buildRngWord(ImplicitLocOpBuilder &b, Value rng, int64_t index);

//===----------------------------------------------------------------------===//
// Ops on elements, which are scalars or vectors
//===----------------------------------------------------------------------===//

/// Returns the four 32-bit words that Philox4x32-10 draws, in i64 like all
/// operands. Only the low 32 bits of `stream` and `step` are used.
std::array<Value, 4> buildRandomWords(ImplicitLocOpBuilder &b, Value index,
                                      Value stream, Value step, Value seed);

/// Converts a random word in an i64 to f32: a multiple of 2^-24 in [0, 1).
Value buildUniform(ImplicitLocOpBuilder &b, Value word);

/// Builds a constant of the type of `like` (float or integer, scalar or
/// vector).
Value splat(ImplicitLocOpBuilder &b, Value like, double value);

/// Builds the float op for floats, the integer op for integers.
template <typename FloatOp, typename IntegerOp>
Value buildBinary(ImplicitLocOpBuilder &b, Value lhs, Value rhs) {
  if (isa<FloatType>(getElementTypeOrSelf(lhs.getType())))
    return FloatOp::create(b, lhs, rhs);
  return IntegerOp::create(b, lhs, rhs);
}

/// Whether `type`, of a tensor or element, has integers that cannot be
/// negative, so that arithmetic treats them as unsigned.
bool isUnsigned(Type type);
/// Returns the value of `bits`, an integer of `type`. Unsigned integers of 64
/// bits are returned as the i64 with the same bits.
int64_t getInteger(const APInt &bits, Type type);

/// Returns lhs / rhs; for integers as `binade.div` defines it, without traps.
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
