//===- QuantizeValues.cpp - Codes in the place of values ------------------===//

#include "QuantizeValues.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"
#include "binade/IR/Movement.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::binade;

/// Whether `value` is what is left of another in `format`.
static bool isDecoded(Value value, QuantizedAttr format) {
  if (auto swap = value.getDefiningOp<TransposeOp>())
    value = swap.getX();
  auto decoded = value.getDefiningOp<DequantizeOp>();
  return decoded && decoded.getFormat() == format;
}

static bool turnsFor(OpOperand &operand, QuantizedAttr format) {
  bool isFlat = format.getGranularity() == Granularity::PerRow ||
                format.getGranularity() == Granularity::PerGroup ||
                (format.getGranularity() == Granularity::PerBlock &&
                 format.getExtent()[0] != format.getExtent()[1]);
  auto op = cast<PrecisionOpInterface>(operand.getOwner());
  return isFlat && op.getSummedAxis(operand.getOperandNumber()) == -2;
}

/// The phase of what makes `value`.
static Phase getPhaseOf(Value value) {
  Operation *producer = value.getDefiningOp();
  return producer ? getPhase(producer) : Phase::Forward;
}

void ValueQuantizer::read(OpOperand &operand, QuantizedAttr format) {
  Value value = operand.get();
  if (isDecoded(value, format))
    return;
  // Not what waited is quantized, but what it was.
  while (Value before = getSaved(value))
    value = before;
  bool turns = turnsFor(operand, format);
  if (turns)
    value = turn(value);
  SmallVector<Value> parts = quantize(value, format);
  Operation *reader = operand.getOwner();
  Phase phase = getPhase(reader);
  if (phase != getPhaseOf(parts.front()))
    for (Value &part : parts)
      part = save(part);
  b.setInsertionPoint(reader);
  Value decoded = decode(value, parts, format, phase);
  operand.set(turns ? swapAxes(decoded, phase) : decoded);
}

void ValueQuantizer::wait(SaveOp op, QuantizedAttr format, Type element) {
  SmallVector<Value> parts = quantize(op.getX(), format);
  for (Value &part : parts)
    part = save(part);
  // Earlier, what is decoded might wait in its place.
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

Value ValueQuantizer::save(Value part) {
  Value &waiting = saves[part];
  if (waiting)
    return waiting;
  b.setLoc(part.getLoc());
  b.setInsertionPointAfterValue(part);
  auto save = SaveOp::create(b, part, PrecisionAttr());
  made.push_back(save);
  return waiting = save;
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

/// `value` with its last two axes swapped, right behind its definition.
Value ValueQuantizer::turn(Value value) {
  Value &known = turned[value];
  if (known)
    return known;
  b.setLoc(value.getLoc());
  b.setInsertionPointAfterValue(value);
  return known = swapAxes(value, getPhaseOf(value));
}

Value ValueQuantizer::swapAxes(Value value, Phase phase) {
  Value swapped = buildSwapped(b, value);
  setPhase(swapped.getDefiningOp(), phase);
  made.push_back(swapped.getDefiningOp());
  return swapped;
}

/// What `value` was before it waited; null where it did not.
Value ValueQuantizer::getSaved(Value value) {
  auto save = value.getDefiningOp<SaveOp>();
  return save ? save.getX() : saved.lookup(value);
}
