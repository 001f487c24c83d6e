//===- Contraction.cpp - Matmuls ------------------------------------------===//

#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/IR/QuantizedOperands.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Contraction.cpp.inc"

std::optional<int64_t> MatmulOp::countMacs() {
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

/// A row of the result depends on a row of an lhs that is not transposed.
/// Otherwise rows are summed over, or, with leading axes, are independent
/// matmuls.
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
                             "expected operands of equal rank of at least 2, "
                             "with equal leading axes, got ",
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
                               " elements, got ", type);
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
// Scaled matmuls
//===----------------------------------------------------------------------===//

Schedule ScaledMatmulOp::getSchedule() { return Schedule::Library; }

/// Rows of `lhs`; with leading axes, independent matmuls. With a scale per
/// block, the order of scales in memory does not allow slices.
std::optional<Rows> ScaledMatmulOp::getRows() {
  if (getBlock())
    return std::nullopt;
  SmallVector<bool> cut(getNumOperands(), false);
  cut[0] = true;
  cut[2] = getLhs().getType().getRank() > 2;
  return Rows{cut};
}

/// Whether `scales` has the shape for blocks of `rows` x `summands` elements.
static bool areScalesOf(RankedTensorType scales, RankedTensorType side,
                        int64_t rows, int64_t summands) {
  if (scales.getRank() != 2)
    return false;
  int64_t rowBlocks = llvm::divideCeil(side.getDimSize(0), rows),
          blocks = llvm::divideCeil(side.getDimSize(1), summands);
  if (rows == 1)
    return scales.getShape() == ArrayRef({blocks, rowBlocks});
  return scales.getDimSize(0) == rowBlocks && scales.getDimSize(1) >= blocks;
}

static LogicalResult verifyScales(ScaledMatmulOp op) {
  auto lhs = cast<RankedTensorType>(op.getLhs().getType()),
       rhs = cast<RankedTensorType>(op.getRhs().getType()),
       lhsScale = cast<RankedTensorType>(op.getLhsScale().getType()),
       rhsScale = cast<RankedTensorType>(op.getRhsScale().getType());
  if (!op.getBlock()) {
    if (lhsScale.getRank() != 0 || rhsScale.getRank() != 0) // C4
      return op.emitOpError("expects one scale for each operand, got ")
             << lhsScale << " and " << rhsScale;
    return success();
  }
  ArrayRef<int64_t> block = *op.getBlock();
  if (block.size() != 3 || lhs.getRank() != 2 ||
      !llvm::all_of(block, [](int64_t size) { return size > 0; })) // C3
    return op.emitOpError("expects a block of three positive sizes and "
                          "operands of rank 2, got [")
           << block << "] and " << lhs;
  if (!areScalesOf(lhsScale, lhs, block[0], block[2]) ||
      !areScalesOf(rhsScale, rhs, block[1], block[2])) // C4
    return op.emitOpError("expects scales of blocks [")
           << block << "] of " << lhs << " and " << rhs << ", got " << lhsScale
           << " and " << rhsScale;
  return success();
}

LogicalResult ScaledMatmulOp::verify() {
  auto lhs = cast<RankedTensorType>(getLhs().getType());
  auto rhs = cast<RankedTensorType>(getRhs().getType());
  auto y = cast<RankedTensorType>(getY().getType());
  int64_t rank = lhs.getRank();
  if (rank < 2 || rhs.getRank() != rank ||
      lhs.getShape().drop_back(2) != rhs.getShape().drop_back(2)) // C1
    return emitOpError("expects operands of equal rank of at least 2, with "
                       "equal leading axes, got ")
           << lhs << " and " << rhs;
  SmallVector<int64_t> shape(lhs.getShape().drop_back());
  shape.push_back(rhs.getDimSize(rank - 2));
  if (lhs.getShape().back() != rhs.getShape().back() ||
      y.getShape() != ArrayRef(shape)) // C2
    return emitOpError("expects rows of equal length and a result with one "
                       "element per pair of rows, got ")
           << lhs << ", " << rhs << " and " << y;
  if (Value bias = getBias()) { // C5
    auto type = cast<RankedTensorType>(bias.getType());
    if (type.getShape() != ArrayRef(shape.back()))
      return emitOpError("expects a bias of ")
             << shape.back() << " elements, got " << type;
  }
  return verifyScales(*this);
}

/// Returns the scale of the whole tensor, the last part, as an f32 scalar.
static Value getScale(ImplicitLocOpBuilder &b, DequantizeOp decoded) {
  return buildReshape(
      b, buildCast(b, decoded.getParts().back(), b.getF32Type()), {});
}

/// Returns the same, cast where the scale is computed and then saved: the
/// kernel that chooses the scale can widen it, too, once for all matmuls.
static Value getWideScale(ImplicitLocOpBuilder &b, DequantizeOp decoded) {
  Value scale = decoded.getParts()[1];
  auto save = scale.getDefiningOp<SaveOp>();
  Value chosen = save ? save.getX() : scale;
  Operation *producer = chosen.getDefiningOp();
  if (!producer || getElementTypeOrSelf(scale.getType()).isF32())
    return getScale(b, decoded);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfter(producer);
  Value wide = buildReshape(b, buildCast(b, chosen, b.getF32Type()), {});
  for (Value part = wide; part != chosen;
       part = part.getDefiningOp()->getOperand(0))
    setPhase(part.getDefiningOp(), getPhase(producer));
  if (!save)
    return wide;
  wide = SaveOp::create(b, wide, PrecisionAttr());
  setPhase(wide.getDefiningOp(), getPhase(save));
  return wide;
}

/// Adds a bias per column to `sum`, an f32, and casts it to the result's
/// format.
static Value addBias(ImplicitLocOpBuilder &b, Value sum, Value bias,
                     RankedTensorType type) {
  if (bias)
    sum = AddOp::create(b, sum,
                        buildBroadcast(b, buildCast(b, bias, b.getF32Type()),
                                       {type.getRank() - 1}, type.getShape()));
  return buildCast(b, sum, type.getElementType());
}

namespace {
/// An operand that a contraction in bf16 can read: values that bf16 represents
/// exactly, and the factor by which the sums are multiplied; null for 1.
struct NarrowOperand {
  Value numbers, scale;
};
} // namespace

/// Returns none if `operand` is not dequantized, or bf16 cannot represent its
/// values.
static std::optional<NarrowOperand> narrow(ImplicitLocOpBuilder &b,
                                           Value operand) {
  auto decoded = operand.getDefiningOp<DequantizeOp>();
  if (!decoded)
    return std::nullopt;
  QuantizedAttr format = decoded.getFormat();
  auto type = cast<RankedTensorType>(operand.getType());
  if (canRepresentDequantized(format)) {
    // Elements and scales of blocks; the scale of the tensor is the last part.
    bool isScaled = bool(format.getTensorScale());
    ValueRange parts = ValueRange(decoded.getParts()).drop_back(isScaled);
    return NarrowOperand{DequantizeOp::create(b, type.clone(b.getBF16Type()),
                                              parts,
                                              format.withoutTensorScale()),
                         isScaled ? getScale(b, decoded) : Value()};
  }
  if (!canRepresentQuantized(format))
    return std::nullopt;
  Value scale = getScale(b, decoded);
  return NarrowOperand{buildCast(b, decoded.getParts()[0], b.getBF16Type()),
                       scale};
}

//===----------------------------------------------------------------------===//
// Matmuls of quantized operands
//===----------------------------------------------------------------------===//

namespace {
/// An operand of a matmul that is dequantized.
struct QuantizedOperand {
  DequantizeOp decoded;
  bool isTransposed; ///< Whether the sum is over its second-to-last axis.

  QuantizedAttr getFormat() { return decoded.getFormat(); }
};

/// A matmul of quantized operands that the target supports.
struct QuantizedMatmul {
  QuantizedOperand lhs, rhs;
  SmallVector<int64_t>
      block; ///< The block of scales; empty for one scale per operand.
};
} // namespace

/// Returns the number of rows of `side` that share a scale with `block` summed
/// elements; 0 if scales are shared differently.
static int64_t getRowsOfBlock(QuantizedOperand side, int64_t block) {
  QuantizedAttr format = side.getFormat();
  if (block == 0 || format.getGranularity() != Granularity::PerBlock ||
      side.decoded.getType().getRank() != 2)
    return 0;
  auto [rows, summands] =
      std::pair(format.getExtent()[0], format.getExtent()[1]);
  if (side.isTransposed)
    std::swap(rows, summands);
  return summands == block && (rows == 1 || rows == block) ? rows : 0;
}

/// Returns the multiple that the number of scales in a row of memory must have.
static int64_t getScaleMultiple(TargetAttr target) {
  return std::max<int64_t>(target.getMultiple() / sizeof(float), 1);
}

namespace {
/// The reason why a target has no matmul of two quantized operands, and the
/// nearest larger shape for which it has one. Empty if it has one, or if there
/// is no such shape.
struct Refusal {
  std::string reason, nearest;

  /// Rejects an extent that is not a multiple of `multiple`.
  void expectMultiple(StringRef name, int64_t extent, int64_t multiple,
                      StringRef what = "") {
    if (extent % multiple == 0)
      return;
    bool isFirst = reason.empty();
    reason += llvm::formatv("{0}{1} = {2}{3} is not a multiple of {4}",
                            isFirst ? "" : ", ", name, extent, what, multiple);
    nearest += llvm::formatv("{0}{1} = {2}", isFirst ? "" : ", ", name,
                             llvm::alignTo(extent, multiple));
  }
};
} // namespace

/// Returns the block of both operands' scales; empty if the target does not
/// support it.
static SmallVector<int64_t> findBlock(QuantizedOperand lhs,
                                      QuantizedOperand rhs, TargetAttr target,
                                      Refusal &refusal) {
  int64_t summands = target.getBlock(), m = getRowsOfBlock(lhs, summands),
          n = getRowsOfBlock(rhs, summands);
  if (std::min(m, n) != 1) {
    refusal.reason =
        target.getName().getValue().str() +
        (summands
             ? llvm::formatv(" takes quantized operands with one scale each, "
                             "or matrices with a scale for each 1 x {0} block "
                             "of one and each 1 x {0} or {0} x {0} block of "
                             "the other",
                             summands)
                   .str()
             : " takes quantized operands with one scale each");
    return {};
  }
  for (auto [name, side, rows] :
       {std::tuple("m", lhs, m), std::tuple("n", rhs, n)})
    if (rows == 1)
      refusal.expectMultiple(
          name, side.decoded.getType().getDimSize(side.isTransposed ? 1 : 0),
          getScaleMultiple(target), " rows with a scale each");
  return refusal.reason.empty() ? SmallVector<int64_t>{m, n, summands}
                                : SmallVector<int64_t>();
}

/// Whether the target has a matmul for the formats of both operands.
static bool areMultiplied(QuantizedOperand lhs, QuantizedOperand rhs,
                          TargetAttr target, Refusal &refusal) {
  if (!target || target.getCodes().empty()) {
    refusal.reason = (target ? target.getName().getValue() : "a CPU").str() +
                     " has no matmul of quantized operands";
    return false;
  }
  bool hasFirst = false;
  for (QuantizedOperand side : {lhs, rhs}) {
    if (!side.decoded) {
      refusal.reason =
          "an operand is dequantized before its elements are rearranged";
      return false;
    }
    QuantizedAttr format = side.getFormat();
    if (format.getExpand())
      refusal.reason = "a quantized operand has an expanded range";
    else if (format.getBook())
      refusal.reason = "a quantized operand uses a code book";
    else if (format.getCompanded())
      refusal.reason = "a quantized operand is companded";
    else if (!llvm::is_contained(target.getCodes(), format.getFormat()))
      refusal.reason =
          llvm::formatv("{0} has no matmul of {1} operands",
                        target.getName().getValue(), format.getFormat());
    if (!refusal.reason.empty())
      return false;
    hasFirst |= format.getFormat() == target.getCodes().front();
  }
  if (!hasFirst)
    refusal.reason =
        llvm::formatv("neither operand is {0}", target.getCodes().front());
  return hasFirst;
}

/// Returns the quantized operands of `op` for a matmul of the target; none if
/// the target does not support it, with the reason in `refusal`.
static std::optional<QuantizedMatmul>
findQuantizedMatmul(MatmulOp op, TargetAttr target, Refusal &refusal) {
  QuantizedOperand lhs{op.getLhs().getDefiningOp<DequantizeOp>(),
                       op.getTransposeLhs()},
      rhs{op.getRhs().getDefiningOp<DequantizeOp>(), !op.getTransposeRhs()};
  if (!areMultiplied(lhs, rhs, target, refusal))
    return std::nullopt;
  auto shape = rhs.decoded.getType().getShape().take_back(2);
  refusal.expectMultiple("k", shape[rhs.isTransposed ? 0 : 1],
                         target.getMultiple());
  refusal.expectMultiple("n", shape[rhs.isTransposed ? 1 : 0],
                         target.getMultiple());
  if (!refusal.reason.empty())
    return std::nullopt;
  QuantizedMatmul product{lhs, rhs, {}};
  if (canRepresentQuantized(lhs.getFormat()) &&
      canRepresentQuantized(rhs.getFormat()))
    return product;
  product.block = findBlock(lhs, rhs, target, refusal);
  if (product.block.empty())
    return std::nullopt;
  return product;
}

/// Whether `narrow` returns a value for `operand`.
static bool isNarrowed(Value operand) {
  auto decoded = operand.getDefiningOp<DequantizeOp>();
  return decoded && (canRepresentDequantized(decoded.getFormat()) ||
                     canRepresentQuantized(decoded.getFormat()));
}

std::optional<Fallback> MatmulOp::findFallback() {
  std::string decided = describeQuantizedOperands(getPrecisionAttr());
  // An accumulator is modelled for the quantized elements.
  if (!decided.empty() && getPrecisionAttr().getAccumulation())
    return std::nullopt;
  Refusal refusal;
  if (decided.empty() || findQuantizedMatmul(*this, getTarget(*this), refusal))
    return std::nullopt;
  // Both operands are narrowed, or neither.
  bool areNarrow = isNarrowed(getLhs()) && isNarrowed(getRhs());
  auto element = [](Value side) {
    return llvm::to_string(getElementTypeOrSelf(side.getType()));
  };
  return Fallback{decided, areNarrow ? "bf16" : element(getLhs()),
                  refusal.reason, refusal.nearest};
}

FailureOr<SmallVector<Value>>
MatmulOp::buildWithoutElements(ImplicitLocOpBuilder &b) {
  auto type = cast<RankedTensorType>(getType());
  return SmallVector<Value>{
      buildEmptyContraction(b, getBias(), type, type.getRank() - 1)};
}

/// Arranges the scales of blocks with `rows` rows in the order of
/// `scaled_matmul`.
static Value arrangeScales(ImplicitLocOpBuilder &b, QuantizedOperand side,
                           int64_t rows, int64_t multiple) {
  Value scales = buildCast(b, side.decoded.getParts()[1], b.getF32Type());
  bool areSummandsFirst = rows == 1;
  auto type = cast<RankedTensorType>(scales.getType());
  bool isLine = llvm::is_contained(type.getShape(), 1);
  if (side.isTransposed != areSummandsFirst)
    scales = isLine ? buildReshape(b, scales,
                                   {type.getDimSize(1), type.getDimSize(0)})
                    : swapLastAxes(b, scales);
  if (areSummandsFirst)
    return scales;
  type = cast<RankedTensorType>(scales.getType());
  auto padded = RankedTensorType::get(
      {type.getDimSize(0),
       int64_t(llvm::alignTo(type.getDimSize(1), multiple))},
      type.getElementType());
  if (padded == type)
    return scales;
  return PadOp::create(b, padded, scales, {0, 0}, {1, 1});
}

/// Whether cuBLASLt adds `bias` to the sums of FP8 operands with one scale each
/// before it rounds them to `type`.
static bool canFuseBias(Value bias, RankedTensorType type) {
  Type result = type.getElementType();
  return !result.isF32() && getElementTypeOrSelf(bias.getType()) == result;
}

/// Builds a matmul of the quantized operands.
static Value buildScaledMatmul(ImplicitLocOpBuilder &b, MatmulOp op,
                               const QuantizedMatmul &product,
                               int64_t multiple) {
  auto type = cast<RankedTensorType>(op.getType());
  ArrayRef<int64_t> block = product.block;
  SmallVector<Value> operands;
  QuantizedOperand sides[] = {product.lhs, product.rhs};
  for (auto [index, side] : llvm::enumerate(sides)) {
    DequantizeOp decoded = side.decoded;
    Value codes = decoded.getParts()[0];
    operands.push_back(side.isTransposed ? swapLastAxes(b, codes) : codes);
    operands.push_back(block.empty()
                           ? getWideScale(b, decoded)
                           : arrangeScales(b, side, block[index], multiple));
  }
  // Without fusion the matmul returns f32, and ops add the bias and round.
  Value bias = op.getBias();
  bool isFused = bias && block.empty() && canFuseBias(bias, type);
  bool isSeparate = bias && !isFused;
  auto y = ScaledMatmulOp::create(
      b, isSeparate ? type.clone(b.getF32Type()) : type, operands[0],
      operands[1], operands[2], operands[3], isFused ? bias : Value(),
      block.empty() ? DenseI64ArrayAttr() : b.getDenseI64ArrayAttr(block),
      AccumulationAttr());
  return addBias(b, y, isSeparate ? bias : Value(), type);
}

/// Replaces a matmul of dequantized operands by one of quantized operands if
/// the target has it, else by one in bf16 if bf16 represents the values
/// exactly; scales then multiply the sum before the bias is added.
FailureOr<SmallVector<Value>> MatmulOp::decompose(ImplicitLocOpBuilder &b) {
  TargetAttr target = getTarget(*this);
  Refusal refusal;
  if (std::optional<QuantizedMatmul> product =
          findQuantizedMatmul(*this, target, refusal))
    return SmallVector<Value>{
        buildScaledMatmul(b, *this, *product, getScaleMultiple(target))};
  auto type = cast<RankedTensorType>(getType());
  bool hasOtherBias = target && getBias() &&
                      getElementTypeOrSelf(getBias()) != type.getElementType();
  auto multiply = [&](Value lhs, Value rhs, Value bias) -> Value {
    return MatmulOp::create(b, type.clone(b.getF32Type()), lhs, rhs, bias,
                            getTransposeLhs(), getTransposeRhs(),
                            getMultiplied(getPrecisionAttr()));
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
