//===- SelectConversions.cpp - Casts by instructions of chips -------------===//
//
// The instructions round to nearest even and keep subnormal values. The PTX ISA
// specifies, and the simulator implements:
//
// - f32 to E4M3 and E5M2 exists only with saturation; NaN becomes 0x7f.
// - f32 to bf16 and f16 overflows to infinity; NaN becomes 0x7fff.
// - E4M3 and E5M2 to f16 is exact.
//
// Two bf16 values in a word are widened by one instruction each.
//
//===----------------------------------------------------------------------===//

#include "binade/Codegen/Saturate.h"
#include "binade/Target/CUDA.h"
#include "binade/Target/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace mlir::binade {
#define GEN_PASS_DEF_SELECTCONVERSIONSPASS
#include "binade/Target/Passes.h.inc"
} // namespace mlir::binade

using namespace mlir;
using namespace mlir::binade;

static bool isFloat8(Type type) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(type);
}

static bool hasOneAxis(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return !vector || (vector.getRank() == 1 && !vector.isScalable());
}

/// Returns the lanes of `x`, or a scalar itself.
static SmallVector<Value> getLanes(ImplicitLocOpBuilder &b, Value x) {
  auto type = dyn_cast<VectorType>(x.getType());
  if (!type)
    return {x};
  return llvm::map_to_vector(llvm::seq(type.getNumElements()),
                             [&](int64_t lane) -> Value {
                               return vector::ExtractOp::create(b, x, lane);
                             });
}

/// Returns `words`, with two elements each, as `type`, a vector or a scalar. If
/// the number of elements is odd, the last word has one too many.
static Value unpack(ImplicitLocOpBuilder &b, ArrayRef<Value> words, Type type) {
  Type element = getElementTypeOrSelf(type);
  auto count = static_cast<int64_t>(words.size());
  Value all = vector::FromElementsOp::create(
      b, VectorType::get({count}, words.front().getType()), words);
  all =
      vector::BitCastOp::create(b, VectorType::get({2 * count}, element), all);
  auto wanted = dyn_cast<VectorType>(type);
  if (!wanted)
    return vector::ExtractOp::create(b, all, int64_t(0));
  if (wanted.getNumElements() == 2 * count)
    return all;
  return vector::ExtractStridedSliceOp::create(
      b, all, ArrayRef<int64_t>{0}, ArrayRef<int64_t>{wanted.getNumElements()},
      ArrayRef<int64_t>{1});
}

/// Rounds two values by one instruction. `low` is in the low bits of the word.
static Value roundPair(ImplicitLocOpBuilder &b, Value high, Value low,
                       Type narrow) {
  auto nearest = NVVM::FPRoundingMode::RN;
  if (isFloat8(narrow))
    return NVVM::ConvertF32x2ToF8x2Op::create(
        b, b.getI16Type(), high, low, nearest, NVVM::SaturationMode::SATFINITE,
        /*relu=*/false, narrow);
  auto type = VectorType::get({2}, narrow);
  Value pair;
  if (narrow.isBF16())
    pair = NVVM::ConvertF32x2ToBF16x2Op::create(
        b, type, high, low, Value(), nearest, NVVM::SaturationMode::NONE,
        /*relu=*/false);
  else
    pair = NVVM::ConvertF32x2ToF16x2Op::create(
        b, type, high, low, Value(), nearest, NVVM::SaturationMode::NONE,
        /*relu=*/false);
  return LLVM::BitcastOp::create(b, b.getI32Type(), pair);
}

namespace {
/// Rounds f32 by instructions of the chip, two lanes at a time.
struct SelectTruncF : OpRewritePattern<arith::TruncFOp> {
  SelectTruncF(MLIRContext *context, const CudaChip &chip)
      : OpRewritePattern(context), chip(chip) {}

  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const override {
    auto narrow = cast<FloatType>(getElementTypeOrSelf(op.getType()));
    Value wide = op.getIn();
    if (!getElementTypeOrSelf(wide).isF32() || !hasOneAxis(op.getType()) ||
        op.getRoundingmode().value_or(arith::RoundingMode::to_nearest_even) !=
            arith::RoundingMode::to_nearest_even)
      return rewriter.notifyMatchFailure(op,
                                         "does not round f32 to nearest even");
    if (isFloat8(narrow)) {
      if (!chip.hasFloat8)
        return rewriter.notifyMatchFailure(
            op, "the chip does not support the format");
      // The instruction saturates.
      wide = getUnclamped(wide, narrow);
      if (!wide)
        return rewriter.notifyMatchFailure(op, "does not saturate");
    } else if (!narrow.isBF16() && !narrow.isF16()) {
      return rewriter.notifyMatchFailure(op, "no instruction for the format");
    }
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    SmallVector<Value> lanes = getLanes(b, wide);
    if (lanes.size() % 2 != 0)
      lanes.push_back(lanes.back());
    SmallVector<Value> words;
    for (size_t lane = 0; lane < lanes.size(); lane += 2)
      words.push_back(roundPair(b, lanes[lane + 1], lanes[lane], narrow));
    rewriter.replaceOp(op, unpack(b, words, op.getType()));
    return success();
  }

  const CudaChip &chip;
};

/// Casts E4M3 and E5M2 to f16 by an instruction, and further from there.
struct SelectExtF : OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::ExtFOp op,
                                PatternRewriter &rewriter) const override {
    Type narrow = getElementTypeOrSelf(op.getIn());
    if (!isFloat8(narrow) || !hasOneAxis(op.getType()))
      return rewriter.notifyMatchFailure(op, "no instruction for the format");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    SmallVector<Value> words = packPairs(b, op.getIn());
    auto pairType = VectorType::get({2}, b.getI8Type());
    auto halfType = VectorType::get({2}, b.getF16Type());
    for (Value &word : words) {
      Value pair = LLVM::BitcastOp::create(b, pairType, word);
      Value halves = NVVM::ConvertF8x2ToF16x2Op::create(b, halfType, pair,
                                                        /*relu=*/false, narrow);
      word = LLVM::BitcastOp::create(b, b.getI32Type(), halves);
    }
    Type half = b.getF16Type();
    if (auto vector = dyn_cast<VectorType>(op.getType()))
      half = vector.clone(half);
    Value wide = unpack(b, words, half);
    if (wide.getType() != op.getType())
      wide = arith::ExtFOp::create(b, op.getType(), wide);
    rewriter.replaceOp(op, wide);
    return success();
  }

  /// Packs two 8-bit elements into each i16; an odd last one is repeated.
  static SmallVector<Value> packPairs(ImplicitLocOpBuilder &b, Value codes) {
    auto type = dyn_cast<VectorType>(codes.getType());
    int64_t count = type ? type.getNumElements() : 1;
    Value even = codes;
    if (count % 2 != 0) {
      SmallVector<Value> lanes = getLanes(b, codes);
      lanes.push_back(lanes.back());
      even = vector::FromElementsOp::create(
          b, VectorType::get({count + 1}, getElementTypeOrSelf(codes)), lanes);
    }
    auto words = VectorType::get({(count + 1) / 2}, b.getI16Type());
    return getLanes(b, vector::BitCastOp::create(b, words, even));
  }
};

/// Widens pairs of bf16 to f32 by a shift and a mask.
struct WidenPairs : OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::ExtFOp op,
                                PatternRewriter &rewriter) const override {
    auto type = dyn_cast<VectorType>(op.getIn().getType());
    if (!type || !type.getElementType().isBF16() || !hasOneAxis(type) ||
        type.getNumElements() % 2 != 0 ||
        !getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op,
                                         "does not widen pairs of bf16 to f32");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    auto words = VectorType::get({type.getNumElements() / 2}, b.getI32Type());
    Value pairs = vector::BitCastOp::create(b, words, op.getIn());
    auto constant = [&](uint32_t value) -> Value {
      return arith::ConstantOp::create(
          b, DenseElementsAttr::get(words, APInt(32, value)));
    };
    Value low = arith::ShLIOp::create(b, pairs, constant(16));
    Value high = arith::AndIOp::create(b, pairs, constant(0xffff0000));
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(
        op, op.getType(), vector::InterleaveOp::create(b, low, high));
    return success();
  }
};

struct SelectConversionsPass
    : mlir::binade::impl::SelectConversionsPassBase<SelectConversionsPass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    FailureOr<const CudaChip *> found =
        getCudaChip(chip, [&] { return emitError(UnknownLoc::get(context)); });
    if (failed(found))
      return failure();
    RewritePatternSet set(context);
    set.add<SelectTruncF>(context, **found);
    set.add<WidenPairs>(context);
    if ((*found)->hasFloat8)
      set.add<SelectExtF>(context);
    patterns = std::move(set);
    return success();
  }
  void runOnOperation() override {
    walkAndApplyPatterns(getOperation(), patterns);
  }
  FrozenRewritePatternSet patterns;
};
} // namespace
