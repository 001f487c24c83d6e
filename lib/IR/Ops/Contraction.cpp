//===- Contraction.cpp - matrix products ----------------------------------===//

#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Products.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Contraction.cpp.inc"

std::optional<int64_t> MatmulOp::countProducts() {
  auto lhs = cast<RankedTensorType>(getLhs().getType());
  int64_t summed = lhs.getDimSize(lhs.getRank() - (getTransposeLhs() ? 2 : 1));
  return getType().getNumElements() * summed;
}

FormatRole MatmulOp::getOperandFormat(unsigned index) {
  return index < 2 ? FormatRole::Chosen : FormatRole::Wide;
}

std::optional<int64_t> MatmulOp::getSummedAxis(unsigned index) {
  if (index > 1)
    return std::nullopt;
  bool isLast = index == 0 ? !getTransposeLhs() : getTransposeRhs();
  return isLast ? -1 : -2;
}

Schedule MatmulOp::getSchedule() { return Schedule::Library; }

/// Rows of the result are rows of an lhs that is not transposed. Otherwise rows
/// are what is summed over, or, with leading axes, independent products.
std::optional<Rows> MatmulOp::getRows() {
  SmallVector<bool> cut(getNumOperands(), false);
  cut[0] = true;
  bool isBatched = cast<RankedTensorType>(getType()).getRank() > 2;
  if (!isBatched && !getTransposeLhs())
    return Rows{cut};
  cut[1] = true;
  if (isBatched)
    return Rows{cut};
  if (getTransposeRhs() || getBias())
    return std::nullopt;
  return Rows{cut, /*added=*/true};
}

LogicalResult MatmulOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> location,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  auto lhs = cast<RankedTensorType>(adaptor.getLhs().getType());
  auto rhs = cast<RankedTensorType>(adaptor.getRhs().getType());
  if (lhs.getRank() < 2 || lhs.getRank() != rhs.getRank() ||
      lhs.getShape().drop_back(2) != rhs.getShape().drop_back(2)) // C1
    return emitOptionalError(location,
                             "expected sides of one rank of at least 2 and "
                             "equal leading axes, got ",
                             lhs, " and ", rhs);
  auto [m, k] = std::pair(lhs.getDimSize(lhs.getRank() - 2),
                          lhs.getDimSize(lhs.getRank() - 1));
  if (adaptor.getTransposeLhs())
    std::swap(m, k);
  auto [rhsK, n] = std::pair(rhs.getDimSize(rhs.getRank() - 2),
                             rhs.getDimSize(rhs.getRank() - 1));
  if (adaptor.getTransposeRhs())
    std::swap(rhsK, n);
  if (k != rhsK) // C2
    return emitOptionalError(location, "contracted dimensions differ: lhs has ",
                             k, ", rhs has ", rhsK);
  if (Value bias = adaptor.getBias()) { // C3
    auto type = cast<RankedTensorType>(bias.getType());
    if (type.getRank() != 1 || type.getDimSize(0) != n)
      return emitOptionalError(location, "expected a bias of ", n,
                               " numbers, got ", type);
  }
  SmallVector<int64_t> shape(lhs.getShape().drop_back(2));
  shape.append({m, n});
  types.push_back(lhs.clone(shape));
  return success();
}

bool MatmulOp::isCompatibleReturnTypes(TypeRange l, TypeRange r) {
  return haveSameShapes(l, r);
}

/// For C = A B + bias: dA = dC B^T, dB = A^T dC, dbias = sum of rows of dC.
/// Transposes fold into the flags.
SmallVector<Value> MatmulOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                          ArrayRef<Value> cotangents) {
  auto matmul = [&](Value x, Value y, bool tx, bool ty) -> Value {
    return MatmulOp::create(b, x, y, Value(), tx, ty);
  };
  Value dc = cotangents.front(), lhs = getLhs(), rhs = getRhs();
  bool tl = getTransposeLhs(), tr = getTransposeRhs();
  SmallVector<Value> gradients = {
      tl ? matmul(rhs, dc, tr, true) : matmul(dc, rhs, false, !tr),
      tr ? matmul(dc, lhs, true, tl) : matmul(lhs, dc, !tl, false)};
  if (getBias()) {
    int64_t rank = cast<RankedTensorType>(dc.getType()).getRank();
    gradients.push_back(ReduceSumOp::create(
        b, dc, llvm::to_vector(llvm::seq<int64_t>(0, rank - 1))));
  }
  return gradients;
}

//===----------------------------------------------------------------------===//
// Products of codes
//===----------------------------------------------------------------------===//

Schedule ScaledMatmulOp::getSchedule() { return Schedule::Library; }

/// Those of `lhs`; with leading axes independent products.
std::optional<Rows> ScaledMatmulOp::getRows() {
  bool isBatched = getLhs().getType().getRank() > 2;
  return Rows{{true, false, isBatched, false}};
}

LogicalResult ScaledMatmulOp::verify() {
  auto lhs = cast<RankedTensorType>(getLhs().getType());
  auto rhs = cast<RankedTensorType>(getRhs().getType());
  auto y = cast<RankedTensorType>(getY().getType());
  int64_t rank = lhs.getRank();
  if (rank < 2 || rhs.getRank() != rank ||
      lhs.getShape().drop_back(2) != rhs.getShape().drop_back(2)) // C1
    return emitOpError("expects sides of one rank of at least 2 and equal "
                       "leading axes, got ")
           << lhs << " and " << rhs;
  SmallVector<int64_t> shape(lhs.getShape().drop_back());
  shape.push_back(rhs.getDimSize(rank - 2));
  if (lhs.getShape().back() != rhs.getShape().back() ||
      y.getShape() != ArrayRef(shape)) // C2
    return emitOpError("expects rows of one length and a result of one element "
                       "for each two, got ")
           << lhs << ", " << rhs << " and " << y;
  return success();
}

/// `value` with rows for columns.
static Value turn(ImplicitLocOpBuilder &b, Value value) {
  int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(order[rank - 2], order[rank - 1]);
  return TransposeOp::create(b, value, order);
}

/// The scale of a whole tensor that `decoded` is made with.
static Value getScale(ImplicitLocOpBuilder &b, DequantizeOp decoded) {
  return buildReshape(b, buildCast(b, decoded.getParts()[1], b.getF32Type()),
                      {});
}

/// `sum`, an f32, with a bias for each column, in the result's format.
static Value addBias(ImplicitLocOpBuilder &b, Value sum, Value bias,
                     RankedTensorType type) {
  if (bias)
    sum = AddOp::create(
        b, sum, buildBroadcast(b, bias, {type.getRank() - 1}, type.getShape()));
  return buildCast(b, sum, type.getElementType());
}

namespace {
/// What stands for an operand on a unit that multiplies in bf16: numbers that
/// bf16 holds, and what their products are multiplied by; null for 1.
struct NarrowOperand {
  Value numbers, scale;
};
} // namespace

/// Nothing where `operand` is not decoded, or bf16 cannot stand for it.
static std::optional<NarrowOperand> narrow(ImplicitLocOpBuilder &b,
                                           Value operand) {
  auto decoded = operand.getDefiningOp<DequantizeOp>();
  if (!decoded)
    return std::nullopt;
  QuantizedAttr format = decoded.getFormat();
  auto type = cast<RankedTensorType>(operand.getType());
  if (holdsDecoded(format))
    return NarrowOperand{DequantizeOp::create(b, type.clone(b.getBF16Type()),
                                              decoded.getParts(), format),
                         Value()};
  if (!holdsCodes(format))
    return std::nullopt;
  Value scale = getScale(b, decoded);
  return NarrowOperand{buildCast(b, decoded.getParts()[0], b.getBF16Type()),
                       scale};
}

/// Whether the target multiplies the codes that the operands are decoded from.
static bool multipliesCodes(MatmulOp op, TargetAttr target) {
  if (!target || target.getCodes().empty())
    return false;
  bool hasFirst = false;
  for (Value side : {op.getLhs(), op.getRhs()}) {
    auto decoded = side.getDefiningOp<DequantizeOp>();
    if (!decoded || !holdsCodes(decoded.getFormat()))
      return false;
    FloatType format = decoded.getFormat().getFormat();
    if (!llvm::is_contained(target.getCodes(), format))
      return false;
    hasFirst |= format == target.getCodes().front();
  }
  auto rhs = cast<RankedTensorType>(op.getRhs().getType());
  return hasFirst &&
         llvm::all_of(rhs.getShape().take_back(2), [&](int64_t length) {
           return length % target.getMultiple() == 0;
         });
}

/// A product of codes as they are.
static Value multiplyCodes(ImplicitLocOpBuilder &b, MatmulOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  SmallVector<Value> operands;
  for (auto [side, isTurned] :
       {std::pair(op.getLhs(), op.getTransposeLhs()),
        std::pair(op.getRhs(), !op.getTransposeRhs())}) {
    auto decoded = side.getDefiningOp<DequantizeOp>();
    Value codes = decoded.getParts()[0];
    operands.push_back(isTurned ? turn(b, codes) : codes);
    operands.push_back(getScale(b, decoded));
  }
  // A bias is added before the one rounding to the result.
  Type product = op.getBias() ? type.clone(b.getF32Type()) : type;
  return addBias(b, ScaledMatmulOp::create(b, product, operands), op.getBias(),
                 type);
}

/// A product of decoded numbers is one of codes; in bf16, which holds them
/// exactly, scales multiply the sum before the bias is added.
FailureOr<SmallVector<Value>> MatmulOp::decompose(ImplicitLocOpBuilder &b) {
  TargetAttr target = getTarget(*this);
  if (multipliesCodes(*this, target))
    return SmallVector<Value>{multiplyCodes(b, *this)};
  auto type = cast<RankedTensorType>(getType());
  bool hasOtherBias = target && getBias() &&
                      getElementTypeOrSelf(getBias()) != type.getElementType();
  auto multiply = [&](Value lhs, Value rhs, Value bias) -> Value {
    return MatmulOp::create(b, type.clone(b.getF32Type()), lhs, rhs, bias,
                            getTransposeLhs(), getTransposeRhs(),
                            PrecisionAttr());
  };
  std::optional<NarrowOperand> lhs = narrow(b, getLhs());
  std::optional<NarrowOperand> rhs = lhs ? narrow(b, getRhs()) : std::nullopt;
  if (!rhs) {
    if (!hasOtherBias)
      return failure();
    return SmallVector<Value>{
        addBias(b, multiply(getLhs(), getRhs(), Value()), getBias(), type)};
  }
  bool hasScale = lhs->scale || rhs->scale;
  Value y =
      multiply(lhs->numbers, rhs->numbers, hasScale ? Value() : getBias());
  if (!hasScale)
    return SmallVector<Value>{buildCast(b, y, type.getElementType())};
  Value scale = lhs->scale ? lhs->scale : rhs->scale;
  if (lhs->scale && rhs->scale)
    scale = MulOp::create(b, lhs->scale, rhs->scale);
  y = MulOp::create(b, y, buildBroadcast(b, scale, {}, type.getShape()));
  return SmallVector<Value>{addBias(b, y, getBias(), type)};
}
