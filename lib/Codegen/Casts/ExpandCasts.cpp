//===- ExpandCasts.cpp - Expansion of casts of narrow floats --------------===//

#include "SmallFloats.h"
#include "binade/Codegen/CastCost.h"
#include "binade/Codegen/IntegerCasts.h"
#include "binade/Codegen/Passes.h"
#include "binade/Codegen/Saturate.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace mlir::binade {
#define GEN_PASS_DEF_EXPANDFLOATCASTSPASS
#include "binade/Codegen/Passes.h.inc"
} // namespace mlir::binade

using namespace mlir;
using namespace mlir::binade;

/// Whether a register can hold `type`: a float, or a vector of floats.
static bool isLanes(Type type) { return isa<FloatType, VectorType>(type); }

/// Whether `type` is a float of at most 8 bits.
static bool isCoded(Type type) {
  return isa<Float8E8M0FNUType>(type) || isSmallFloat(type);
}

/// Rounds f32 to bf16, to nearest even. The bits that are cut off, and the last
/// bit kept, decide whether adding 0x7fff carries. A carry out of the fraction
/// gives the next binade, out of the largest binade Inf. NaN is handled
/// separately: a carry would turn it into 0, and truncation into Inf.
static IntLanes roundToBF16(FloatLanes x) {
  IntLanes u = x.bits();
  IntLanes rounded = u + 0x7fff + ((u >> 16) & 1);
  IntLanes nan = (u & 0x80000000) | 0x7fc00000;
  return (select(x.isNaN(), nan, rounded) >> 16).resize(16);
}

/// Rounds f64 to f32, to odd: truncates, and sets the last bit if the result is
/// inexact. Rounding this to 16 bits gives the same as rounding the f64 once,
/// unlike rounding to nearest twice.
static FloatLanes roundToOdd(FloatLanes x) {
  FloatLanes nearest = x.resize(32);
  FloatLanes back = nearest.resize(64);
  IntLanes u = nearest.bits();
  BoolLanes larger = back.apply<math::AbsFOp>() > x.apply<math::AbsFOp>();
  IntLanes odd = select(larger, u - 1, u) | 1;
  return floatFromBits(select(back != x, odd, u));
}

/// Rounds to the nearest power of two and returns its exponent field; ties
/// round up. Values that are negative, 0, or out of range become NaN.
static IntLanes encodePower(FloatLanes x) {
  IntLanes bits = x.bits();
  IntLanes field = (bits + 0x00400000) >> 23;
  auto isAtMost = [&](uint64_t bound) {
    return bits.compare(arith::CmpIPredicate::sle, bits.constant(bound));
  };
  // At most half of 2^-127 is NaN; larger values up to the middle are 2^-127.
  field = select(isAtMost(0x005fffff), bits.constant(0), field);
  field = select(isAtMost(0x00200000), bits.constant(255), field);
  return select(x.isNaN(), bits.constant(255), field).resize(8);
}

/// Returns the bit patterns, in as many bits as the format has.
static IntLanes encode(FloatLanes x, FloatType type) {
  if (isa<Float8E8M0FNUType>(type))
    return encodePower(x);
  Value whole = getUnclamped(x.value, type);
  FloatLanes number(*x.builder, whole ? whole : x.value);
  IntLanes code = expandEncode(number, type, /*saturate=*/bool(whole));
  return type.getWidth() < 8 ? code.resize(type.getWidth()) : code;
}
static FloatLanes widenBF16(FloatLanes x) {
  return floatFromBits(x.bits().resize(32) << 16);
}
static FloatLanes decode(IntLanes code, FloatType type) {
  if (isa<Float8E8M0FNUType>(type))
    return decodePower(code.resize(32));
  return expandDecode(code.width() < 8 ? code.resize(8) : code, type);
}

namespace {
/// A pattern for casts, for which the target may have instructions with some
/// formats.
template <typename Op> struct ExpandCast : OpRewritePattern<Op> {
  ExpandCast(MLIRContext *context, ArrayRef<Type> kept)
      : OpRewritePattern<Op>(context), kept(kept) {}
  bool isKept(Type type) const { return llvm::is_contained(kept, type); }
  SmallVector<Type> kept;
};

/// Expands arith.truncf to bf16, from f64 to f16, and to formats of at most 8
/// bits.
struct ExpandTruncF : ExpandCast<arith::TruncFOp> {
  using ExpandCast::ExpandCast;
  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const override {
    Type from = getElementTypeOrSelf(op.getIn().getType());
    Type to = getElementTypeOrSelf(op.getType());
    bool fromF64 = from.isF64();
    const bool isCode = isCoded(to);
    bool fromHalf = from.isBF16() || from.isF16();
    if (!isLanes(op.getType()) ||
        (!fromF64 && !from.isF32() && !(fromHalf && isCode)) ||
        (!to.isBF16() && !isCode && !(fromF64 && to.isF16())))
      return rewriter.notifyMatchFailure(
          op, "is not a cast to 8 bits, to bf16 or from f64 to f16");
    if (op.getRoundingmode().value_or(arith::RoundingMode::to_nearest_even) !=
        arith::RoundingMode::to_nearest_even)
      return rewriter.notifyMatchFailure(op, "does not round to nearest even");
    if (from.isF32() && isKept(to))
      return rewriter.notifyMatchFailure(op, "the target has an instruction");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    FloatLanes x(b, op.getIn());
    if (fromF64)
      x = roundToOdd(x);
    else if (fromHalf)
      x = from.isBF16() ? widenBF16(x) : x.resize(32);
    if (to.isF16() || isKept(to))
      rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, op.getType(), x.value);
    else
      rewriter.replaceOpWithNewOp<arith::BitcastOp>(
          op, op.getType(),
          isCode ? encode(x, cast<FloatType>(to)).value : roundToBF16(x).value);
    return success();
  }
};

/// Expands arith.extf from bf16 and from formats of at most 8 bits.
struct ExpandExtF : ExpandCast<arith::ExtFOp> {
  using ExpandCast::ExpandCast;
  LogicalResult matchAndRewrite(arith::ExtFOp op,
                                PatternRewriter &rewriter) const override {
    Type from = getElementTypeOrSelf(op.getIn().getType());
    Type to = getElementTypeOrSelf(op.getType());
    const bool isCode = isCoded(from);
    bool toHalf = to.isBF16() || to.isF16();
    if (!isLanes(op.getType()) ||
        (!to.isF32() && !to.isF64() && !(toHalf && isCode)) ||
        (!from.isBF16() && !isCode))
      return rewriter.notifyMatchFailure(
          op, "is not a cast from 8 bits, or from bf16 to f32 or f64");
    if ((to.isF32() || (to.isF16() && isCode)) && isKept(from))
      return rewriter.notifyMatchFailure(op, "the target has an instruction");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    FloatLanes x(b, op.getIn());
    FloatLanes wide = !isCode        ? widenBF16(x)
                      : isKept(from) ? x.resize(32)
                                     : decode(x.bits(), cast<FloatType>(from));
    if (to.isBF16())
      rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, op.getType(),
                                                    roundToBF16(wide).value);
    else if (to.isF16())
      rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, op.getType(),
                                                   wide.value);
    else
      rewriter.replaceOp(op, to.isF64() ? wide.resize(64).value : wide.value);
    return success();
  }
};

struct ExpandFloatCastsPass
    : mlir::binade::impl::ExpandFloatCastsPassBase<ExpandFloatCastsPass> {
  using Base::Base;
  LogicalResult initialize(MLIRContext *context) override {
    SmallVector<Type> kept;
    for (const std::string &name : keepFormats) {
      auto type = dyn_cast_or_null<FloatType>(parseType(name, context));
      if (!type)
        return emitError(UnknownLoc::get(context))
               << "expected option `keep-formats` to name float formats, got '"
               << name << "'";
      kept.push_back(type);
    }
    RewritePatternSet set(context);
    populateExpandCastPatterns(set, kept);
    patterns = std::move(set);
    return success();
  }
  void runOnOperation() override {
    splitIntegerCasts(getOperation());
    walkAndApplyPatterns(getOperation(), patterns);
  }
  FrozenRewritePatternSet patterns;
};
} // namespace

void mlir::binade::populateExpandCastPatterns(RewritePatternSet &patterns,
                                              ArrayRef<Type> kept) {
  patterns.add<ExpandTruncF, ExpandExtF>(patterns.getContext(), kept);
}

/// Returns the number of ops that `emit` creates for a value of `type`, without
/// constants, which are in registers or immediate operands.
static unsigned
countOps(Type type, function_ref<void(ImplicitLocOpBuilder &, Value)> emit) {
  Location location = UnknownLoc::get(type.getContext());
  Block block;
  ImplicitLocOpBuilder b(location, type.getContext());
  b.setInsertionPointToEnd(&block);
  emit(b, block.addArgument(type, location));
  return llvm::count_if(block, [](Operation &op) {
    return !isa<arith::ConstantOp, arith::BitcastOp>(op);
  });
}

CastCost mlir::binade::getCastCost(FloatType format) {
  MLIRContext *context = format.getContext();
  context->loadDialect<arith::ArithDialect, math::MathDialect>();
  CastCost cost;
  cost.encode = countOps(Float32Type::get(context),
                         [&](ImplicitLocOpBuilder &b, Value x) {
                           if (isa<Float8E8M0FNUType>(format))
                             encodePower({b, x});
                           else
                             expandEncode({b, x}, format, /*saturate=*/true);
                         });
  cost.decode = countOps(
      IntegerType::get(context, 8),
      [&](ImplicitLocOpBuilder &b, Value code) { decode({b, code}, format); });
  return cost;
}
