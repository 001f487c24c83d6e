//===- ValueStatistics.cpp - Building blocks of statistics ----------------===//

#include "ValueStatistics.h"

using namespace mlir;
using namespace mlir::binade;

static FloatType getElement(Value x) {
  return cast<FloatType>(getElementTypeOrSelf(x.getType()));
}

static RankedTensorType typeOf(Value x) {
  return cast<RankedTensorType>(x.getType());
}

ValueStatistics::ValueStatistics(ImplicitLocOpBuilder &b,
                                 const WatchedValue &watched)
    : b(b), watched(watched), count(typeOf(watched.value).getNumElements()) {}

/// Returns the op before the insertion point; null at the start of the block.
static Operation *getLast(OpBuilder &b) {
  Block::iterator point = b.getInsertionPoint();
  return point == b.getInsertionBlock()->begin() ? nullptr : &*std::prev(point);
}

ValueStatistics::PhaseScope::PhaseScope(ValueStatistics &s, Phase phase)
    : s(s), phase(phase), before(getLast(s.b)) {}

ValueStatistics::PhaseScope::~PhaseScope() {
  for (Operation *op = getLast(s.b); op && op != before; op = op->getPrevNode())
    s.phases[op] = phase;
}

Value ValueStatistics::asElements(Value x) {
  x = buildCast(b, x, b.getF32Type());
  return typeOf(x).getRank() > 0 ? x : buildReshape(b, x, {1});
}

Value ValueStatistics::elements() {
  Value x = asElements(watched.shown);
  Value scalar = factor();
  if (!scalar)
    return x;
  return MulOp::create(b, x,
                       buildBroadcast(b, scalar, {}, typeOf(x).getShape()));
}

Value ValueStatistics::factor() {
  if (!watched.scale)
    return watched.factor;
  return UnscaleFactorOp::create(b, RankedTensorType::get({}, b.getF32Type()),
                                 watched.scale);
}

Value ValueStatistics::magnitudes(Value x) { return AbsOp::create(b, x); }

SmallVector<int64_t> ValueStatistics::getAxes(Value x) const {
  return llvm::to_vector(llvm::seq<int64_t>(0, typeOf(x).getRank()));
}

Value ValueStatistics::sum(Value x) {
  return ReduceSumOp::create(b, buildCast(b, x, b.getF64Type()), getAxes(x));
}

Value ValueStatistics::sumOfSquares(Value x) {
  x = buildCast(b, x, b.getF64Type());
  return sum(MulOp::create(b, x, x));
}

Value ValueStatistics::countTrue(Value truth) {
  // A sum is rounded to the type of its terms.
  constexpr int64_t kMaxOfF32 = 1 << 24;
  Type type = typeOf(truth).getNumElements() > kMaxOfF32 ? b.getF64Type()
                                                         : b.getF32Type();
  Value ones = buildCast(b, truth, type);
  return buildCast(b, ReduceSumOp::create(b, ones, getAxes(ones)),
                   b.getF64Type());
}

Value ValueStatistics::largest(Value x) {
  return ReduceMaxOp::create(b, x, getAxes(x));
}

Value ValueStatistics::compare(Value x, Comparison comparison, double bound) {
  return CompareOp::create(b, x, buildSplat(b, x.getType(), bound), comparison);
}

Value ValueStatistics::countNonzero() {
  Value zeros = countTrue(compare(elements(), Comparison::Equal, 0.0));
  return SubOp::create(b, number(getCount()), zeros);
}

Value ValueStatistics::number(double value) {
  return buildSplat(b, RankedTensorType::get({}, b.getF64Type()), value);
}

Value ValueStatistics::divide(Value by, Value divisor) {
  return DivOp::create(b, by, divisor);
}

/// Returns the readers of `value` in its block, in order; the use list is not
/// sorted.
static SmallVector<Operation *> getReaders(Value value) {
  SmallVector<Operation *> readers;
  for (Operation *reader : value.getUsers())
    if (reader->getBlock() == value.getParentBlock())
      readers.push_back(reader);
  llvm::sort(readers,
             [](Operation *l, Operation *r) { return l->isBeforeInBlock(r); });
  return readers;
}

/// Returns the format to which `reader` rounds `value`; null if it does not.
static FloatType getRounding(Operation *reader, Value value) {
  if (!isa<CastOp, SaveOp>(reader) || reader->getOperand(0) != value)
    return {};
  auto format =
      dyn_cast<FloatType>(getElementTypeOrSelf(reader->getResult(0).getType()));
  return format && format.getWidth() < getElement(value).getWidth()
             ? format
             : FloatType();
}

FloatType ValueStatistics::getFormat() const {
  FloatType format = getElement(watched.value);
  if (!format.isF32())
    return format;
  for (Operation *reader : getReaders(watched.value))
    if (FloatType other = getRounding(reader, watched.value);
        other && other.getWidth() < format.getWidth())
      format = other;
  return format;
}

Value ValueStatistics::rounded() {
  for (Operation *reader : getReaders(watched.value)) {
    if (getRounding(reader, watched.value))
      return asElements(reader->getResult(0));
    auto quantize = dyn_cast<QuantizeOp>(reader);
    if (quantize && quantize.getX() == watched.value)
      return asElements(
          DequantizeOp::create(b, typeOf(watched.value).clone(b.getF32Type()),
                               quantize.getParts(), quantize.getFormat()));
  }
  return {};
}
