//===- Binade.h - The binade dialect ----------------------------*- C++ -*-===//

#ifndef BINADE_IR_BINADE_H
#define BINADE_IR_BINADE_H

#include "binade/IR/EmptyTensors.h"
#include "binade/IR/Fallback.h"
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

/// Integers that name rows or classes: [low, high), or `ignored`.
struct IndexRange {
  int64_t low = 0, high = 0;
  std::optional<int64_t> ignored;
};

/// How an op is done for some of its rows, elements of the first axis, at a
/// time: which operands are cut into pieces of rows, the others being read
/// whole, and whether the pieces of its results are added up instead of joined.
struct Rows {
  SmallVector<bool> cut;
  bool added = false;
};

/// What a reduction takes together: all entries of `axes`, or each `group`
/// neighbours of the last axis.
struct Reduced {
  SmallVector<int64_t> axes;
  int64_t group = 0;
  bool operator==(const Reduced &other) const {
    return axes == other.axes && group == other.group;
  }
};

/// What state `index` of a rule is kept as: `count` of the states of an op,
/// from `first` on, in `format`; one tensor without format. Rounded to nearest
/// or, where it `isRandom`, by chance.
struct KeptState {
  unsigned index;
  QuantizedAttr format;
  unsigned first, count;
  bool isRandom = false;
};

/// The rows of an op whose row i depends on row i of every operand alone;
/// nothing for other ops.
std::optional<Rows> getRowsOfElements(Operation *op);

/// Checks that two types have float elements both, or the same elements.
LogicalResult verifyOneKindOfElements(Operation *op, Type lhs, Type rhs);

/// An op whose last two operands are both floats, or of one element type.
template <typename ConcreteOp>
class OneKindOfElements
    : public OpTrait::TraitBase<ConcreteOp, OneKindOfElements> {
public:
  static LogicalResult verifyTrait(Operation *op) {
    ValueRange sides = op->getOperands().take_back(2);
    return verifyOneKindOfElements(op, sides[0].getType(), sides[1].getType());
  }
};

/// The format in which numbers of `format` lie in memory: f32 for tf32, which
/// only registers have.
FloatType getStorageFormat(FloatType format);

/// Floats other than f64 follow decisions; everything else stays as it is.
FormatRole getDefaultFormatRole(Type type);

/// Whether both lists hold ranked tensors of pairwise equal shapes whose
/// element types are both floats, or equal.
bool haveSameShapes(TypeRange lhs, TypeRange rhs);

/// Fails unless `type` has `shape`; the message calls it `what`.
LogicalResult expectShape(std::optional<Location> location, StringRef what,
                          Type type, ArrayRef<int64_t> shape);

} // namespace mlir::binade

#include "binade/Interfaces/DifferentiableOpInterface.h.inc"
#include "binade/Interfaces/ElementwiseOpInterface.h.inc"
#include "binade/Interfaces/KernelOpInterface.h.inc"
#include "binade/Interfaces/LayoutOpInterface.h.inc"
#include "binade/Interfaces/PrecisionOpInterface.h.inc"
#include "binade/Interfaces/TrainingOpInterface.h.inc"

namespace mlir::binade {

/// What `op` computes in, given the type of an operand: the format of its
/// decision where the operand is how that lies in memory, else the operand's.
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
