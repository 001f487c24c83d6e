//===- WriteOptimizer.cpp - ONNX nodes of optimizer updates ---------------===//

#include "Codes.h"
#include "Rounding.h"
#include "WriteBits.h"
#include "WriteFormula.h"
#include "binade/IR/Rules.h"
#include <limits>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

template <typename Op> static func::FuncOp lookUpFormula(Op op) {
  return SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op,
                                                            op.getFormula());
}

LogicalResult mlir::binade::convert::writeOptimizer(OnnxWriter &w,
                                                    OptimizerScalarsOp op) {
  Type integer = getElementTypeOrSelf(op.getStep());
  std::string one = w.addNumber(IntegerAttr::get(integer, 1));
  SmallVector<std::string> arguments = {
      w.add("Add", {w.get(op.getStep()), one})};
  for (Value hyper : op.getHypers())
    arguments.push_back(w.get(hyper));
  auto results = writeFormula(w, lookUpFormula(op), arguments);
  if (failed(results))
    return failure();
  for (auto [scalar, name] : llvm::zip_equal(op.getScalars(), *results))
    w.set(scalar, w.cast(name, getElementTypeOrSelf(scalar)));
  return success();
}

/// Writes gradient statistics. In f64, the sum of squares of f32 or narrower
/// gradients does not overflow: it is finite exactly if all gradients are.
LogicalResult mlir::binade::convert::writeOptimizer(OnnxWriter &w,
                                                    GradientStatisticsOp op) {
  Type f64 = getElementTypeOrSelf(op.getSquares());
  std::string sum;
  for (Value gradient : op.getGradients()) {
    if (getElementTypeOrSelf(gradient) == f64)
      return failure();
    std::string squares =
        w.add("ReduceSumSquare", {w.cast(w.get(gradient), f64)});
    w.setInt("keepdims", 0);
    sum = sum.empty() ? squares : w.add("Add", {sum, squares});
  }
  if (sum.empty())
    sum = w.addDouble(0.0);
  std::string largest = w.addDouble(std::numeric_limits<double>::max());
  w.set(op.getSquares(), sum);
  w.set(op.getFoundInf(), w.add("Not", {w.add("LessOrEqual", {sum, largest})}));
  return success();
}

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

namespace {
/// Writes one update: decodes the parameter and states, applies the rule's
/// formula, and encodes the results.
class UpdateWriter {
public:
  UpdateWriter(OnnxWriter &w, OptimizerUpdateOp op)
      : w(w), op(op), shape(getShape(op.getParameter())),
        format(cast<FloatType>(getElementTypeOrSelf(op.getParameter()))) {}

  LogicalResult write();

private:
  std::string readParameter();
  std::string readGradient();
  std::string readState(const KeptState &state);
  LogicalResult keepState(const KeptState &state, const std::string &number);
  void keepParameter(const std::string &before, const std::string &after);
  std::string getRandom(unsigned word, int64_t stream = 0);
  void keep(Value before, Value result, const std::string &name);
  std::string round(const std::string &x) {
    return w.cast(w.cast(x, format), w.b.getF32Type());
  }
  Value getNewCompanion() { return op.getNewStates().back(); }

  OnnxWriter &w;
  OptimizerUpdateOp op;
  ArrayRef<int64_t> shape;
  FloatType format;
  /// Drawn words, keyed by the offset that is added to the stream.
  std::map<int64_t, std::array<std::string, 4>> words;
};
} // namespace

/// Returns uniform values. The operand `random` is the seed, and one integer
/// with stream (high 32 bits) and step (low 32 bits).
std::string UpdateWriter::getRandom(unsigned word, int64_t stream) {
  std::array<std::string, 4> &drawn = words[stream];
  if (drawn.front().empty()) {
    constexpr int64_t kWord = int64_t(1) << 32;
    std::string place = w.get(op.getRandom()[1]);
    // Without the step, the division is exact.
    std::string step = w.add("BitwiseAnd", {place, w.addInt(kWord - 1)});
    std::string own =
        w.add("Div", {w.add("Sub", {place, step}), w.addInt(kWord)});
    std::string index =
        w.reshape(w.addRange(ShapedType::getNumElements(shape)), shape);
    if (op.getRandom().size() > 2)
      index = w.add("Add", {index, w.get(op.getRandom()[2])});
    drawn = drawWords(w, {index, w.add("Add", {own, w.addInt(stream)}), step,
                          w.get(op.getRandom()[0])});
  }
  return getUniform(w, drawn[word]);
}

std::string UpdateWriter::readParameter() {
  switch (op.getMaster()) {
  case Master::F32:
    return w.getWide(op.getCompanion());
  case Master::SplitRound:
  case Master::SplitTrunc:
    return joinHalves(w, w.get(op.getParameter()), w.get(op.getCompanion()),
                      op.getMaster() == Master::SplitRound);
  case Master::Split8Bit:
    return addError(w, w.get(op.getParameter()), w.get(op.getCompanion()));
  case Master::None:
  case Master::Stochastic:
  case Master::Kahan:
  case Master::Residual:
    return w.getWide(op.getParameter());
  }
  llvm_unreachable("all are listed");
}

std::string UpdateWriter::readGradient() {
  std::string gradient = w.getWide(op.getGradient());
  for (Value factor : op.getFactors())
    gradient = w.add("Mul", {gradient, w.getWide(factor)});
  return gradient;
}

std::string UpdateWriter::readState(const KeptState &state) {
  if (!state.format)
    return w.getWide(op.getStates()[state.first]);
  OperandRange parts = op.getStates().slice(state.first, state.count);
  SmallVector<std::string> names = {w.get(parts.front())};
  for (Value part : parts.drop_front())
    names.push_back(w.getWide(part));
  return Codes(w, state.format, shape).dequantize(names);
}

/// Sets `result` to `name`, or to the old value if the step is skipped.
void UpdateWriter::keep(Value before, Value result, const std::string &name) {
  w.set(result, name);
  if (op.getSkip())
    w.set(result, w.choose(w.get(op.getSkip()), w.get(before), name,
                           getElementTypeOrSelf(result)));
}

LogicalResult UpdateWriter::keepState(const KeptState &state,
                                      const std::string &number) {
  std::string random =
      state.isRandom ? getRandom(1 + state.index) : std::string();
  if (!state.format) {
    Value before = op.getStates()[state.first],
          result = op.getNewStates()[state.first];
    auto type = cast<FloatType>(getElementTypeOrSelf(result));
    w.setWide(result,
              state.isRandom ? roundTo(w, number, type, random) : number);
    keep(before, result, w.get(result));
    return success();
  }
  Codes codes(w, state.format, shape);
  if (!codes.hasType())
    return failure();
  SmallVector<std::string> parts =
      codes.quantize(number, /*saturate=*/true, random, /*largest=*/"");
  for (auto [index, name] : llvm::enumerate(parts)) {
    Value before = op.getStates()[state.first + index],
          result = op.getNewStates()[state.first + index];
    w.set(result, name);
    if (index > 0)
      w.setWide(result, name);
    keep(before, result, w.get(result));
  }
  return success();
}

/// Encodes the parameter, and its master weight, remainder or compensation.
void UpdateWriter::keepParameter(const std::string &before,
                                 const std::string &after) {
  Type f32 = w.b.getF32Type();
  std::string parameter, companion;
  switch (op.getMaster()) {
  case Master::None:
    parameter = w.narrow(after, format);
    break;
  case Master::F32:
    parameter = w.narrow(after, format);
    companion = after;
    break;
  case Master::SplitRound:
  case Master::SplitTrunc:
    std::tie(parameter, companion) =
        splitHalves(w, after, op.getMaster() == Master::SplitRound);
    break;
  case Master::Split8Bit:
    parameter = w.narrow(after, format);
    companion = writeRoundingError(w, after, parameter);
    break;
  case Master::Stochastic:
    parameter = w.narrow(roundTo(w, after, format, getRandom(0)), format);
    break;
  case Master::Kahan: {
    std::string change = w.add("Sub", {after, before});
    std::string y = round(w.add("Sub", {change, w.getWide(op.getCompanion())}));
    parameter = w.cast(w.add("Add", {before, y}), format);
    std::string gained = round(w.add("Sub", {w.cast(parameter, f32), before}));
    companion = w.cast(w.add("Sub", {gained, y}), format);
    break;
  }
  case Master::Residual: {
    auto compute = [&](StringRef kind, const std::string &x,
                       const std::string &y) {
      return round(w.add(kind, {x, y}));
    };
    std::string change = compute("Sub", after, before),
                sum = compute("Add", before, change),
                lost = compute("Sub", change, compute("Sub", sum, before)),
                rest = compute("Add", w.getWide(op.getCompanion()), lost);
    parameter = w.cast(w.add("Add", {sum, rest}), format);
    std::string gained = compute("Sub", w.cast(parameter, f32), sum);
    companion = w.cast(w.add("Sub", {rest, gained}), format);
    break;
  }
  }
  keep(op.getParameter(), op.getNewParameter(), parameter);
  if (!companion.empty())
    keep(op.getCompanion(), getNewCompanion(), companion);
}

LogicalResult UpdateWriter::write() {
  func::FuncOp formula = lookUpFormula(op);
  std::string parameter = readParameter();
  SmallVector<std::string> arguments = {parameter, readGradient()};
  SmallVector<KeptState> states = op.getKeptStates();
  for (const KeptState &state : states)
    arguments.push_back(readState(state));
  for (ValueRange more : {op.getScalars(), op.getValues()})
    for (Value value : more)
      arguments.push_back(w.getWide(value));
  if (drawsRandomValue(formula))
    arguments.push_back(getRandom(0, kFormulaStream));
  auto results = writeFormula(w, formula, arguments);
  if (failed(results))
    return failure();
  keepParameter(parameter, results->front());
  for (auto [state, number] :
       llvm::zip_equal(states, llvm::drop_begin(*results)))
    if (failed(keepState(state, number)))
      return failure();
  return success();
}

LogicalResult mlir::binade::convert::writeOptimizer(OnnxWriter &w,
                                                    OptimizerUpdateOp op) {
  // An update with `prepare` is decomposed first.
  if (op.getPrepareAttr())
    return failure();
  return UpdateWriter(w, op).write();
}
