//===- Binade.h - The binade dialect ----------------------------*- C++ -*-===//

#ifndef BINADE_IR_BINADE_H
#define BINADE_IR_BINADE_H

#include "binade/IR/EmptyTensors.h"
#include "binade/IR/Fallback.h"
#include "binade/IR/Formats.h"
#include "binade/IR/Layout.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributeInterfaces.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "binade/IR/BinadeDialect.h.inc"
#include "binade/IR/BinadeEnums.h.inc"

namespace binade {
struct NumberRange;
} // namespace binade

#define GET_ATTRDEF_CLASSES
#include "binade/IR/BinadeAttrs.h.inc"

namespace mlir::binade {

/// An op through which no gradient flows.
template <typename ConcreteOp>
class NotDifferentiable
    : public OpTrait::TraitBase<ConcreteOp, NotDifferentiable> {};

/// The values of integers that are indices of rows or classes: [low, high), or
/// `ignored`.
struct IndexRange {
  int64_t low = 0, high = 0;
  std::optional<int64_t> ignored;
};

/// How an op is computed for some rows, which are elements of the first axis,
/// at a time: `cut` says which operands are sliced into rows (the others are
/// read whole), and `added` whether the results of the slices are summed
/// instead of concatenated.
struct Rows {
  SmallVector<bool> cut;
  bool added = false;
};

/// How a tile cuts the first axis of a tensor, which has a multiple of
/// `count * size + remainder` elements: into `count` pieces of `size` units,
/// and a last one of `remainder` units, if that is not 0.
struct TileShape {
  int64_t count = 1, size = 1, remainder = 0;

  /// Cuts `units` into pieces of equal size, a multiple of `multiple`, of which
  /// the last one may be shorter: `count` pieces or fewer.
  static TileShape divide(int64_t units, int64_t count, int64_t multiple = 1);
  int64_t countUnits() const { return count * size + remainder; }
  /// Returns the type of a piece of `type`, or of the last one if
  /// `isRemainder`; null if it cannot be cut so.
  RankedTensorType getPiece(Type type, bool isRemainder = false) const;
};

/// How the results of an op depend on its floating-point operands.
enum class Linearity : uint8_t {
  None,
  Joint,   ///< Linear in all operands together, such as a sum.
  Product, ///< Linear in each of two operands.
  First ///< Linear in the first operand, such as a gradient in the cotangent.
};

/// Returns the function that multiplies by `sign`; null if there is none.
std::function<double(double)> multiplyBy(std::optional<double> sign);

/// The elements that a reduction combines: all along `axes`, or each `group`
/// consecutive elements of the last axis.
struct Reduced {
  SmallVector<int64_t> axes;
  int64_t group = 0;
  bool operator==(const Reduced &other) const {
    return axes == other.axes && group == other.group;
  }
};

/// The storage of state `index` of an optimizer rule: `count` states of an op,
/// starting with number `first`, in the quantized `format`; one tensor if that
/// is null. `isRandom` asks for stochastic rounding instead of rounding to
/// nearest.
struct KeptState {
  unsigned index;
  QuantizedAttr format;
  unsigned first, count;
  bool isRandom = false;
};

/// Returns the rows of an op whose result row i depends only on row i of every
/// operand; none for other ops.
std::optional<Rows> getRowsOfElements(Operation *op);

/// Checks that `op` has results of the types `inferred`, apart from their float
/// formats.
LogicalResult verifyResultTypes(Operation *op, TypeRange inferred,
                                bool areCompatible);

/// An op that infers the types of its results. Reports an error once.
template <typename ConcreteOp>
class ChecksInferredTypes
    : public OpTrait::TraitBase<ConcreteOp, ChecksInferredTypes> {
public:
  static LogicalResult verifyRegionTrait(Operation *op) {
    SmallVector<Type> types;
    if (failed(ConcreteOp::inferReturnTypes(
            op->getContext(), op->getLoc(), op->getOperands(),
            op->getRawDictionaryAttrs(), op->getPropertiesStorage(),
            op->getRegions(), types)))
      return failure();
    return verifyResultTypes(
        op, types,
        ConcreteOp::isCompatibleReturnTypes(types, op->getResultTypes()));
  }
};

/// Checks that all attributes of `op` are declared, or have the prefix of a
/// dialect.
LogicalResult verifyAttributeNames(Operation *op);

/// An op that rejects attributes that it does not declare.
template <typename ConcreteOp>
class OnlyDeclaredAttributes
    : public OpTrait::TraitBase<ConcreteOp, OnlyDeclaredAttributes> {
public:
  static LogicalResult verifyTrait(Operation *op) {
    return verifyAttributeNames(op);
  }
};

/// Checks that both types have float elements, or the same element type.
LogicalResult verifyOneKindOfElements(Operation *op, Type lhs, Type rhs);

/// An op whose last two operands both have float elements, or the same element
/// type.
template <typename ConcreteOp>
class OneKindOfElements
    : public OpTrait::TraitBase<ConcreteOp, OneKindOfElements> {
public:
  static LogicalResult verifyTrait(Operation *op) {
    ValueRange sides = op->getOperands().take_back(2);
    return verifyOneKindOfElements(op, sides[0].getType(), sides[1].getType());
  }
};

/// Returns the format in which values of `format` are stored in memory: f32 for
/// tf32, which exists only in registers.
FloatType getStorageFormat(FloatType format);

/// Returns `Chosen` for floats other than f64, `Fixed` for all other types.
FormatRole getDefaultFormatRole(Type type);

/// Whether both lists contain ranked tensors of pairwise equal shapes whose
/// element types are both floats, or equal.
bool haveSameShapes(TypeRange lhs, TypeRange rhs);

/// Emits an error unless `type` has `shape`; the message calls the value
/// `what`.
LogicalResult expectShape(std::optional<Location> location, StringRef what,
                          Type type, ArrayRef<int64_t> shape);

} // namespace mlir::binade

#include "binade/Interfaces/AlgebraOpInterface.h.inc"
#include "binade/Interfaces/DifferentiableOpInterface.h.inc"
#include "binade/Interfaces/ElementwiseOpInterface.h.inc"
#include "binade/Interfaces/KernelOpInterface.h.inc"
#include "binade/Interfaces/LayoutOpInterface.h.inc"
#include "binade/Interfaces/PrecisionOpInterface.h.inc"
#include "binade/Interfaces/TrainingOpInterface.h.inc"

namespace mlir::binade {

/// Returns the format in which `op` computes with an operand of type `operand`:
/// the decision's, if the operand has its storage format, else the operand's.
FloatType getComputeFormat(PrecisionOpInterface op, Type operand);

} // namespace mlir::binade

#define GET_OP_CLASSES
#include "binade/IR/Ops/Elementwise.h.inc"
#define GET_OP_CLASSES
#include "binade/IR/Ops/Binary.h.inc"
#define GET_OP_CLASSES
#include "binade/IR/Ops/Cast.h.inc"
#define GET_OP_CLASSES
#include "binade/IR/Ops/Contraction.h.inc"
#define GET_OP_CLASSES
#include "binade/IR/Ops/Convolution.h.inc"
#define GET_OP_CLASSES
#include "binade/IR/Ops/Reduction.h.inc"
#define GET_OP_CLASSES
#include "binade/IR/Ops/Normalization.h.inc"
#define GET_OP_CLASSES
#include "binade/IR/Ops/Attention.h.inc"
#define GET_OP_CLASSES
#include "binade/IR/Ops/Embedding.h.inc"
#define GET_OP_CLASSES
#include "binade/IR/Ops/Loss.h.inc"
#define GET_OP_CLASSES
#include "binade/IR/Ops/Shape.h.inc"
#define GET_OP_CLASSES
#include "binade/IR/Ops/Random.h.inc"
#define GET_OP_CLASSES
#include "binade/IR/Ops/LossScaling.h.inc"
#define GET_OP_CLASSES
#include "binade/IR/Ops/Optimizer.h.inc"
#define GET_OP_CLASSES
#include "binade/IR/Ops/Quantization.h.inc"
#define GET_OP_CLASSES
#include "binade/IR/Ops/Monitor.h.inc"
#define GET_OP_CLASSES
#include "binade/IR/Ops/Kernel.h.inc"

#endif // BINADE_IR_BINADE_H
