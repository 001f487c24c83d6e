//===- QuantizeValues.cpp - Quantized operands and saved values -----------===//

#include "QuantizeValues.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"
#include "binade/IR/HadamardOp.h"
#include "binade/IR/Movement.h"
#include "binade/IR/QuantizedOperands.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::binade;

/// Returns the value whose quantized parts `decoded` dequantizes; null if they
/// are not computed in the step.
static Value findQuantized(DequantizeOp decoded) {
  Value part = decoded.getParts().front();
  if (auto save = part.getDefiningOp<SaveOp>())
    part = save.getX();
  auto quantized = part.getDefiningOp<QuantizeOp>();
  return quantized ? quantized.getX() : Value();
}

/// Whether `value` was dequantized from `format`, after a transform if
/// `transform` is not null.
static bool isDecoded(Value value, QuantizedAttr format,
                      TransformAttr transform) {
  auto decoded = value.getDefiningOp<DequantizeOp>();
  if (!decoded || decoded.getFormat() != format)
    return false;
  Value from = transform ? findQuantized(decoded) : Value();
  return !transform || (from && from.getDefiningOp<HadamardOp>());
}

/// Returns the sign of element `i` of a group if signs are fixed. The vector is
/// that of Transformer Engine; larger groups multiply it by itself.
static float getFixedSign(int64_t i) {
  constexpr std::array<float, 16> kSigns = {1,  1,  1,  -1, 1,  -1, -1, -1,
                                            -1, -1, -1, 1,  -1, 1,  -1, -1};
  constexpr int64_t kCount = kSigns.size();
  return kSigns[i % kCount] * kSigns[i / kCount];
}

/// Returns the phase of the producer of `value`.
static Phase getPhaseOf(Value value) {
  Operation *producer = value.getDefiningOp();
  return producer ? getPhase(producer) : Phase::Forward;
}

static Value buildFixedSigns(ImplicitLocOpBuilder &b, int64_t size) {
  SmallVector<float> values;
  for (int64_t i = 0; i < size; ++i)
    values.push_back(getFixedSign(i));
  return ConstantOp::create(
      b, DenseElementsAttr::get(RankedTensorType::get(size, b.getF32Type()),
                                ArrayRef<float>(values)));
}

/// Draws `size` signs from the seed and the step in `random`. Each size has its
/// own stream of random numbers.
static Value drawSigns(ImplicitLocOpBuilder &b, Value random, int64_t size) {
  Value uniform = buildRandomTensor(b, random, UINT32_MAX - size, {size});
  auto splat = [&](double value) {
    return buildSplat(b, uniform.getType(), value);
  };
  Value isPositive =
      CompareOp::create(b, uniform, splat(0.5), Comparison::Less);
  return SelectOp::create(b, isPositive, splat(1.0), splat(-1.0));
}

void ValueQuantizer::read(OpOperand &operand, QuantizedAttr format,
                          TransformAttr transform) {
  Value value = operand.get();
  format = orientScales(operand, format);
  if (isDecoded(value, format, transform))
    return;
  // Quantizes the value before it was saved, not the saved copy.
  while (Value before = getSaved(value))
    value = before;
  auto owner = cast<PrecisionOpInterface>(operand.getOwner());
  if (transform)
    value = transformValue(value, transform,
                           *owner.getSummedAxis(operand.getOperandNumber()));
  SmallVector<Value> parts = quantize(value, format);
  Operation *reader = operand.getOwner();
  Phase phase = getPhase(reader);
  if (phase != getPhaseOf(parts.front()))
    for (Value &part : parts)
      part = savePart(part);
  b.setInsertionPoint(reader);
  operand.set(decode(value, parts, format, phase));
}

void ValueQuantizer::save(SaveOp op, QuantizedAttr format, Type element) {
  SmallVector<Value> parts = quantize(op.getX(), format);
  for (Value &part : parts)
    part = savePart(part);
  // Dequantizes at the first use; otherwise the dequantized value might be
  // saved instead.
  Operation *reader = findFirstUser(op.getY());
  b.setInsertionPoint(reader ? reader : op);
  Value decoded = decode(op.getX(), parts, format, Phase::Backward);
  saved[decoded] = op.getX();
  if (element) {
    decoded = buildCast(b, decoded, element);
    setPhase(decoded.getDefiningOp(), Phase::Backward);
  }
  op.getY().replaceAllUsesWith(decoded);
  op->erase();
}

void ValueQuantizer::finish() {
  for (Operation *op : llvm::reverse(made))
    if (isOpTriviallyDead(op))
      op->erase();
  made.clear();
}

/// Returns the transform of `value` along `axis`, in the type of `value`.
Value ValueQuantizer::transformValue(Value value, TransformAttr transform,
                                     int64_t axis) {
  Value &result = transformed[{value, transform, axis}];
  if (result)
    return result;
  Phase phase = getPhaseOf(value);
  Value factors = getSigns(transform, phase);
  b.setLoc(value.getLoc());
  if (isa<BlockArgument>(value) && factors)
    b.setInsertionPointAfterValue(factors);
  else
    b.setInsertionPointAfterValue(value);
  auto op = HadamardOp::create(b, value.getType(), value, factors,
                               b.getI64IntegerAttr(transform.getHadamard()),
                               b.getI64IntegerAttr(axis));
  setPhase(op, phase);
  made.push_back(op);
  return result = op;
}

/// Returns the signs of a group, at the beginning of the step; null for none.
/// Both operands of a contraction read the same ones.
Value ValueQuantizer::getSigns(TransformAttr transform, Phase phase) {
  if (transform.getSigns() == HadamardSigns::None)
    return {};
  int64_t size = transform.getHadamard();
  bool isFixed = transform.getSigns() == HadamardSigns::Fixed;
  Value &factors = signs[transform];
  if (!factors) {
    Value random = isFixed ? Value() : getRandomState(function);
    b.setLoc(function.getLoc());
    b.setInsertionPointToStart(&function.front());
    factors = isFixed ? buildFixedSigns(b, size) : drawSigns(b, random, size);
  }
  bool isSaved = !isFixed && phase != Phase::Forward;
  return isSaved ? savePart(factors) : factors;
}

SmallVector<Value> ValueQuantizer::quantize(Value value, QuantizedAttr format) {
  SmallVector<Value> &parts = quantized[{value, format}];
  if (!parts.empty())
    return parts;
  b.setLoc(value.getLoc());
  b.setInsertionPointAfterValue(value);
  bool draws = format.draws();
  auto codes = QuantizeOp::create(b, value, format, /*saturate=*/true,
                                  draws ? getRandomState(function) : Value(),
                                  draws ? nextStream++ : 0);
  setPhase(codes, getPhaseOf(value));
  made.push_back(codes);
  return parts = codes.getParts();
}

Value ValueQuantizer::savePart(Value part) {
  Value &savedPart = saves[part];
  if (savedPart)
    return savedPart;
  b.setLoc(part.getLoc());
  b.setInsertionPointAfterValue(part);
  auto save = SaveOp::create(b, part, PrecisionAttr());
  made.push_back(save);
  return savedPart = save;
}

Value ValueQuantizer::decode(Value like, ValueRange parts, QuantizedAttr format,
                             Phase phase) {
  auto type = cast<RankedTensorType>(like.getType());
  b.setLoc(like.getLoc());
  auto decoded =
      DequantizeOp::create(b, type.clone(b.getF32Type()), parts, format);
  setPhase(decoded, phase);
  made.push_back(decoded);
  return decoded;
}

/// Returns the value before it was saved; null if it is not a saved value.
Value ValueQuantizer::getSaved(Value value) {
  auto save = value.getDefiningOp<SaveOp>();
  return save ? save.getX() : saved.lookup(value);
}
