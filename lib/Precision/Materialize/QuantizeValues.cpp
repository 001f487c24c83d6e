//===- QuantizeValues.cpp - Quantized operands and saved values -----------===//

#include "QuantizeValues.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"
#include "binade/IR/Movement.h"
#include "binade/IR/QuantizedOperands.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::binade;

/// Whether `value` is the result of dequantizing `format`.
static bool isDecoded(Value value, QuantizedAttr format) {
  auto decoded = value.getDefiningOp<DequantizeOp>();
  return decoded && decoded.getFormat() == format;
}

/// Returns the phase of the producer of `value`.
static Phase getPhaseOf(Value value) {
  Operation *producer = value.getDefiningOp();
  return producer ? getPhase(producer) : Phase::Forward;
}

void ValueQuantizer::read(OpOperand &operand, QuantizedAttr format) {
  Value value = operand.get();
  format = orientScales(operand, format);
  if (isDecoded(value, format))
    return;
  // Quantizes the value before it was saved, not the saved copy.
  while (Value before = getSaved(value))
    value = before;
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

SmallVector<Value> ValueQuantizer::quantize(Value value, QuantizedAttr format) {
  SmallVector<Value> &parts = quantized[{value, format}];
  if (!parts.empty())
    return parts;
  b.setLoc(value.getLoc());
  b.setInsertionPointAfterValue(value);
  bool draws = format.getStochastic();
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
