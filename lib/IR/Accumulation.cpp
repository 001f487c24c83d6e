//===- Accumulation.cpp - Matmuls with modelled accumulators --------------===//

#include "binade/IR/Accumulation.h"
#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/IR/QuantizedOperands.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// One of the two operands that a matmul multiplies.
struct Side {
  QuantizedAttr format; ///< With scales along the summed axis.
  RankedTensorType type;
  bool isTransposed; ///< Whether the sum is over its second-to-last axis.

  int64_t countRows() const {
    return type.getDimSize(type.getRank() - (isTransposed ? 1 : 2));
  }
  int64_t countSummands() const {
    return type.getDimSize(type.getRank() - (isTransposed ? 2 : 1));
  }
};

/// The elements of one side that share a scale.
struct SharedScale {
  int64_t rows, summands;
};
} // namespace

bool mlir::binade::isMultipliedInFp8(QuantizedAttr format) {
  FloatType element = format.getFormat();
  return element && isa<Float8E4M3FNType, Float8E5M2Type>(element) &&
         !format.getExpand();
}

/// Returns which elements share a scale; none if they are not a block of
/// consecutive rows and summands.
static std::optional<SharedScale> getShared(const Side &side) {
  int64_t rows = side.countRows(), summands = side.countSummands();
  switch (side.format.getGranularity()) {
  case Granularity::PerTensor:
    return SharedScale{rows, summands};
  case Granularity::PerRow:
    // The last axis is that of the rows if the operand is transposed.
    return side.isTransposed ? SharedScale{rows, 1} : SharedScale{1, summands};
  case Granularity::PerGroup:
    return std::nullopt;
  case Granularity::PerBlock: {
    auto [first, second] =
        std::pair(side.format.getExtent()[0], side.format.getExtent()[1]);
    if (side.isTransposed)
      std::swap(first, second);
    return SharedScale{std::min(first, rows), std::min(second, summands)};
  }
  }
  llvm_unreachable("all granularities are listed");
}

/// Returns what is wrong with the formats of both sides, or an empty string.
static std::string explain(const Side &lhs, const Side &rhs) {
  for (const Side &side : {lhs, rhs})
    if (!side.format || !isMultipliedInFp8(side.format))
      return "has an operand that is not quantized to FP8 (f8E4M3FN or f8E5M2, "
             "without an expanded range)";
  std::optional<SharedScale> left = getShared(lhs), right = getShared(rhs);
  for (auto [side, shared] : {std::pair(lhs, left), std::pair(rhs, right)})
    if (!shared)
      return "has an operand in " + llvm::to_string(side.format) +
             ", whose groups are not blocks of rows and summed elements";
  auto isPerTensor = [](const Side &side) {
    return side.format.getGranularity() == Granularity::PerTensor;
  };
  if (isPerTensor(lhs) && isPerTensor(rhs))
    return {};
  if (lhs.type.getRank() != 2)
    return "multiplies " + llvm::to_string(lhs.type) + " and " +
           llvm::to_string(rhs.type) +
           ", for which each operand has one scale; more scales need matrices";
  if (left->summands != right->summands)
    return "has a scale for " + std::to_string(left->summands) +
           " summed elements of one operand and for " +
           std::to_string(right->summands) + " of the other";
  return {};
}

std::string mlir::binade::explainUnaccumulated(PrecisionOpInterface op,
                                               ArrayAttr operands) {
  auto matmul = dyn_cast<MatmulOp>(op.getOperation());
  if (!matmul)
    return "is not a matmul";
  auto take = [&](unsigned index, bool isTransposed) {
    auto format = operands && index < operands.size()
                      ? dyn_cast<QuantizedAttr>(operands[index])
                      : QuantizedAttr();
    OpOperand &operand = op->getOpOperand(index);
    return Side{format ? orientScales(operand, format) : format,
                cast<RankedTensorType>(operand.get().getType()), isTransposed};
  };
  return explain(take(0, matmul.getTransposeLhs()),
                 take(1, !matmul.getTransposeRhs()));
}

/// Returns the scales of `side` in the order of `scaled_matmul`.
static Value arrangeScales(ImplicitLocOpBuilder &b, const Side &side,
                           SharedScale shared, Value scales) {
  scales = buildCast(b, scales, b.getF32Type());
  int64_t rows = llvm::divideCeil(side.countRows(), shared.rows),
          blocks = llvm::divideCeil(side.countSummands(), shared.summands);
  bool areSummandsFirst = shared.rows == 1;
  SmallVector<int64_t> shape = areSummandsFirst
                                   ? SmallVector<int64_t>{blocks, rows}
                                   : SmallVector<int64_t>{rows, blocks};
  if (side.isTransposed == areSummandsFirst || rows == 1 || blocks == 1)
    return buildReshape(b, scales, shape);
  return swapLastAxes(b, scales);
}

FailureOr<Value> mlir::binade::buildAccumulated(ImplicitLocOpBuilder &b,
                                                MatmulOp op,
                                                AccumulationAttr accumulation) {
  DequantizeOp decoded[] = {op.getLhs().getDefiningOp<DequantizeOp>(),
                            op.getRhs().getDefiningOp<DequantizeOp>()};
  if (!decoded[0] || !decoded[1])
    return op.emitOpError("has an operand that is not dequantized, but a "
                          "decision with 'accumulation'");
  auto take = [&](unsigned index, bool isTransposed) {
    return Side{decoded[index].getFormat(), decoded[index].getType(),
                isTransposed};
  };
  Side sides[] = {take(0, op.getTransposeLhs()),
                  take(1, !op.getTransposeRhs())};
  if (std::string wrong = explain(sides[0], sides[1]); !wrong.empty())
    return op.emitOpError(wrong);
  bool areWhole = llvm::all_of(sides, [](const Side &side) {
    return side.format.getGranularity() == Granularity::PerTensor;
  });
  SmallVector<Value> operands;
  SmallVector<int64_t> block;
  for (auto [side, from] : llvm::zip(sides, decoded)) {
    Value codes = from.getParts()[0], scales = from.getParts()[1];
    SharedScale shared = *getShared(side);
    operands.push_back(side.isTransposed ? swapLastAxes(b, codes) : codes);
    operands.push_back(
        areWhole ? buildReshape(b, buildCast(b, scales, b.getF32Type()), {})
                 : arrangeScales(b, side, shared, scales));
    block.push_back(shared.rows);
  }
  block.push_back(getShared(sides[0])->summands);
  return Value(ScaledMatmulOp::create(b, op.getType(), operands[0], operands[1],
                                      operands[2], operands[3], op.getBias(),
                                      areWhole ? DenseI64ArrayAttr()
                                               : b.getDenseI64ArrayAttr(block),
                                      accumulation));
}
