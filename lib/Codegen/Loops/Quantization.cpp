//===- Quantization.cpp - Quantized values and scales of elements ---------===//

#include "../Casts/LaneCodec.h"
#include "../Casts/Quotient.h"
#include "Emitter.h"
#include "binade/IR/Build.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

/// Returns the offset of the scale of the element at `offset` of a tensor of
/// `shape`.
Offset Emitter::findScale(QuantizedAttr format, ArrayRef<int64_t> shape,
                          const Offset &offset) {
  int64_t columns = shape.empty() ? 1 : shape.back();
  switch (format.getGranularity()) {
  case Granularity::PerTensor:
    return Offset();
  case Granularity::PerRow:
    return space.divide(offset, columns).quotient;
  case Granularity::PerGroup:
    return space.divide(offset, format.getExtent().front()).quotient;
  case Granularity::PerBlock: {
    int64_t rows = shape.size() < 2 ? 1 : shape[shape.size() - 2];
    ArrayRef<int64_t> extent = format.getExtent();
    // Blocks that fill rows are groups. `group_max` defines its result at the
    // offset of a group, which is not simplified from row and column if the
    // loops do not follow the rows of the tensor.
    if (extent[0] == 1 && columns % extent[1] == 0)
      return space.divide(offset, extent[1]).quotient;
    int64_t down = llvm::divideCeil(rows, extent[0]);
    int64_t across = llvm::divideCeil(columns, extent[1]);
    auto [line, column] = space.divide(offset, columns).asPair();
    if (extent[0] == 1)
      return line * across + space.divide(column, extent[1]).quotient;
    auto [matrix, row] = space.divide(line, rows).asPair();
    Offset block = space.divide(row, extent[0]).quotient;
    return matrix * (down * across) + block * across +
           space.divide(column, extent[1]).quotient;
  }
  }
  llvm_unreachable("all granularities are handled");
}

namespace {
/// Operands of one operation. If any is a vector, all are broadcast to vectors.
struct Operands {
  SmallVector<Value> values;
  unsigned where = 0;
  bool hasVector = false;

  void add(Element element) {
    where = std::max(where, element.depth);
    hasVector |= isa<VectorType>(element.value.getType());
    values.push_back(element.value);
  }
};
} // namespace

/// Loads a vector of 4-bit elements of an argument, which must be contiguous
/// and start at a whole byte. Returns nothing otherwise.
std::optional<Element> Emitter::loadPairs(Value codes, const Offset &offset) {
  auto argument = dyn_cast<BlockArgument>(codes);
  bool isAligned = argument && laneCount % 2 == 0 && offset.constant % 2 == 0 &&
                   offset.variesOverLanes();
  for (auto [variable, coefficient] : offset.terms)
    isAligned &=
        variable->variesOverLanes
            ? variable->kind == Variable::Kind::Lane && coefficient == 1
            : coefficient % 2 == 0;
  if (!isAligned)
    return std::nullopt;
  record(loads, argument.getArgNumber(), offset);
  unsigned where = offset.depth();
  At at(*this, where);
  Value byte = arith::DivUIOp::create(b, number(offset), index(2));
  auto type = VectorType::get({laneCount / 2}, b.getI8Type());
  IntLanes bytes(b, vector::LoadOp::create(
                        b, type, buffer(argument.getArgNumber()), byte));
  return Element{
      vector::InterleaveOp::create(b, (bytes >> 4).value, (bytes & 15).value),
      where};
}

static std::tuple<void *, void *, Offset> getDecodingKey(ValueRange factors,
                                                         const Offset &place) {
  return {factors.front().getAsOpaquePointer(),
          factors.back().getAsOpaquePointer(), place};
}

void Emitter::defineDecoding(ValueRange factors, const Offset &place,
                             ArrayRef<Value> known) {
  scopes[depth()].decodings[getDecodingKey(factors, place)].assign(
      known.begin(), known.end());
}

std::pair<SmallVector<Value>, unsigned>
Emitter::pullDecoding(QuantizedAttr format, ValueRange factors,
                      const Offset &place) {
  auto key = getDecodingKey(factors, place);
  for (unsigned where = scopes.size(); where-- > 0;)
    if (auto found = scopes[where].decodings.find(key);
        found != scopes[where].decodings.end())
      return {found->second, where};
  Operands operands;
  for (Value factor : factors) {
    bool isOfTensor = format.getTensorScale() && factor == factors.back();
    operands.add(pull(factor, isOfTensor ? Offset() : place));
  }
  At at(*this, operands.where);
  LaneCodec::Shared parts;
  for (Value value : operands.values) {
    value = widen(value);
    parts.emplace_back(b, operands.hasVector ? broadcast(value) : value);
  }
  SmallVector<Value> &known = scopes[operands.where].decodings[key];
  for (FloatLanes number :
       LaneCodec(format).prepareDecoding(LaneCodec::makeFactors(parts)))
    known.push_back(number.value);
  return {known, operands.where};
}

Element Emitter::decode(QuantizedAttr format, ValueRange parts,
                        ArrayRef<int64_t> shape, const Offset &offset) {
  Offset place = findScale(format, shape, offset);
  Operands operands;
  Offset half;
  std::optional<Element> pairs;
  if (format.isPacked())
    pairs = loadPairs(parts.front(), offset);
  if (pairs) {
    operands.add(*pairs);
  } else if (format.isPacked()) {
    auto [byte, which] = space.divide(offset, 2).asPair();
    operands.add(pull(parts.front(), byte));
    half = which;
    operands.where = std::max(operands.where, half.depth());
    operands.hasVector |= half.variesOverLanes();
  } else {
    operands.add(pull(parts.front(), offset));
  }
  auto [numbers, depth] = pullDecoding(format, parts.drop_front(), place);
  for (Value number : numbers)
    operands.add({number, depth});
  At at(*this, operands.where);
  auto get = [&](unsigned index) {
    Value value = operands.values[index];
    return operands.hasVector ? broadcast(value) : value;
  };
  Value bits = get(0);
  Type word = b.getIntegerType(format.getCodeType().getIntOrFloatBitWidth());
  if (auto vector = dyn_cast<VectorType>(bits.getType()))
    word = vector.clone(word);
  IntLanes code(b, arith::BitcastOp::create(b, word, bits));
  if (format.isPacked() && !pairs) {
    Value which = half.variesOverLanes() ? perLane(half) : number(half);
    which = arith::IndexCastOp::create(
        b, word, operands.hasVector ? broadcast(which) : which);
    IntLanes isFirst = IntLanes(b, which) - 1; // All ones for the first.
    IntLanes shift = isFirst & 4;
    code = IntLanes(b, arith::ShRUIOp::create(b, code.value, shift.value)) & 15;
  }
  LaneCodec::Shared shared;
  for (unsigned index = 1; index < operands.values.size(); ++index)
    shared.emplace_back(b, get(index));
  auto load = [&](DenseElementsAttr table, Value index) {
    return lookUp(table, index);
  };
  FloatLanes y =
      LaneCodec(format).decode(code, shared, {load, hasRegisterTables()});
  return {y.value, operands.where};
}

Element Emitter::computeDequantize(DequantizeOp op, const Offset &offset) {
  RankedTensorType type = getTensor(op.getY());
  Element y = decode(op.getFormat(), op.getParts(), type.getShape(), offset);
  At at(*this, y.depth);
  return {narrow(y.value, type.getElementType()), y.depth};
}

/// Whether the scales are computed from the largest magnitudes of the elements
/// that `op` encodes.
static bool isMeasured(EncodeOp op) {
  auto look = [](Value value, auto isPassed) {
    while (Operation *by = value.getDefiningOp()) {
      if (!isPassed(by))
        break;
      value = by->getOperand(0);
    }
    return value;
  };
  auto isView = [](Operation *by) { return isa<ReshapeOp, CastOp>(by); };
  auto chosen = op.getFactor().getDefiningOp<ChooseScaleOp>();
  if (!chosen)
    return false;
  Value magnitudes = look(chosen.getAmax(), [&](Operation *by) {
    return isView(by) || isa<ReduceMaxOp, GroupMaxOp>(by);
  });
  auto magnitude = magnitudes.getDefiningOp<AbsOp>();
  return magnitude && look(magnitude.getX(), isView) == look(op.getX(), isView);
}

std::pair<SmallVector<Value>, unsigned>
Emitter::pullEncoding(EncodeOp op, const Offset &place) {
  std::pair key(op.getFactor().getAsOpaquePointer(), place);
  for (unsigned where = scopes.size(); where-- > 0;)
    if (auto found = scopes[where].encodings.find(key);
        found != scopes[where].encodings.end())
      return {found->second, where};
  LaneCodec codec(op.getFormat());
  Operands operands;
  for (Value factor : op->getOperands().slice(1, op.getFormat().countFactors()))
    operands.add(pull(factor, place));
  At at(*this, operands.where);
  LaneCodec::Shared factors;
  for (Value value : operands.values)
    factors.emplace_back(b, operands.hasVector ? broadcast(value) : value);
  // On a CPU, a division takes no longer than the branch that would avoid it.
  bool isKnown = isMeasured(op),
       isGuarded = !isKnown && shape && !operands.hasVector && codec.divides();
  SmallVector<Value> &known = scopes[operands.where].encodings[key];
  for (FloatLanes number : codec.prepareEncoding(
           LaneCodec::makeFactors(factors), isKnown, isGuarded))
    known.push_back(number.value);
  if (isGuarded)
    known.append({factors[0].value, isDivisor(factors[0]).value});
  return {known, operands.where};
}

Element Emitter::computeEncode(EncodeOp op, const Offset &offset) {
  QuantizedAttr format = op.getFormat();
  Offset place = findScale(format, getTensor(op.getX()).getShape(), offset);
  Operands operands;
  operands.add(pull(op.getX(), offset));
  if (format.getStochastic())
    operands.add(pull(op.getRest().back(), offset));
  auto [numbers, depth] = pullEncoding(op, place);
  for (Value number : numbers)
    operands.hasVector |= isa<VectorType>(number.getType());
  operands.where = std::max(operands.where, depth);
  At at(*this, operands.where);
  auto get = [&](Value value) {
    return FloatLanes(b, operands.hasVector ? broadcast(value) : value);
  };
  bool isGuarded = numbers.size() > kQuotientNumbers && !format.getExpand();
  LaneCodec::Shared shared;
  for (Value number : ArrayRef(numbers).drop_back(
           isGuarded ? numbers.size() - kQuotientNumbers : 0))
    shared.push_back(get(number));
  FloatLanes x = get(operands.values.front());
  if (isGuarded) {
    FloatLanes quotient = divideBy(x, shared);
    BoolLanes isDivisor(b, numbers[kQuotientNumbers + 1]);
    x = divideElsewhere(x, {b, numbers[kQuotientNumbers]}, quotient,
                        isDivisor & isFinite(quotient));
    shared.clear();
  }
  std::optional<FloatLanes> random;
  if (format.getStochastic())
    random = get(operands.values.back());
  auto load = [&](DenseElementsAttr table, Value index) {
    return lookUp(table, index);
  };
  IntLanes code = LaneCodec(format).encode(x, shared, op.getSaturate(),
                                           {load, hasRegisterTables()}, random);
  Type type = code.typeWith(format.getCodeType());
  return {arith::BitcastOp::create(b, type, code.value), operands.where};
}

Element Emitter::computeChooseScale(ChooseScaleOp op, unsigned result,
                                    const Offset &offset) {
  Operands operands;
  operands.add(pull(op.getAmax(), offset));
  if (op.getLeast())
    operands.add(pull(op.getLeast(), offset));
  At at(*this, operands.where);
  auto get = [&](unsigned index) {
    Value value = operands.values[index];
    return FloatLanes(b, operands.hasVector ? broadcast(value) : value);
  };
  std::optional<FloatLanes> least;
  if (op.getLeast())
    least = get(1);
  LaneCodec::Factors chosen = LaneCodec(op.getFormat()).choose(get(0), least);
  SmallVector<Value> values = {
      narrow(chosen.scale.value, op.getFormat().getScale()),
      chosen.factor.value};
  if (chosen.power)
    values.append({chosen.power->value, chosen.centre->value});
  for (auto [index, value] : llvm::enumerate(values))
    if (index != result)
      remember(op->getResult(index), offset, {value, operands.where});
  return {values[result], operands.where};
}
