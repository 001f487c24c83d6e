//===- WriteOptimizer.cpp - An optimizer's update in ONNX's words ---------===//

#include "WriteFormula.h"
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
  std::string one = addScalar(w, IntegerAttr::get(integer, 1));
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

/// Squares of what is no wider than f32 have a finite sum in f64, unless one of
/// them is not finite.
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
    sum = addReal(w, f64, 0.0);
  std::string largest = addReal(w, f64, std::numeric_limits<double>::max());
  w.set(op.getSquares(), sum);
  w.set(op.getFoundInf(), w.add("Not", {w.add("LessOrEqual", {sum, largest})}));
  return success();
}

/// Whether what the update keeps is numbers that are rounded to nearest.
static bool isPlain(OptimizerUpdateOp op) {
  bool hasCodes = llvm::any_of(op.getKeptStates(), [](const KeptState &state) {
    return state.format || state.isRandom;
  });
  bool keepsNumbers =
      op.getMaster() == Master::None || op.getMaster() == Master::F32;
  return keepsNumbers && !hasCodes && op.getRandom().empty() &&
         !op.getPrepareAttr();
}

LogicalResult mlir::binade::convert::writeOptimizer(OnnxWriter &w,
                                                    OptimizerUpdateOp op) {
  if (!isPlain(op))
    return failure();
  Value beside = op.getBeside();
  std::string gradient = w.getWide(op.getGradient());
  for (Value factor : op.getFactors())
    gradient = w.add("Mul", {gradient, w.getWide(factor)});
  SmallVector<std::string> arguments = {
      w.getWide(beside ? beside : Value(op.getParameter())), gradient};
  for (const KeptState &state : op.getKeptStates())
    arguments.push_back(w.getWide(op.getStates()[state.first]));
  for (ValueRange more : {op.getScalars(), op.getValues()})
    for (Value value : more)
      arguments.push_back(w.getWide(value));
  auto results = writeFormula(w, lookUpFormula(op), arguments);
  if (failed(results))
    return failure();
  if (beside)
    results->push_back(results->front());
  SmallVector<Value> before = {op.getParameter()};
  llvm::append_range(before, op.getStates());
  for (auto [old, result, name] :
       llvm::zip_equal(before, op->getResults(), *results)) {
    w.setWide(result, name);
    if (op.getSkip())
      w.set(result,
            w.add("Where", {w.get(op.getSkip()), w.get(old), w.get(result)}));
  }
  return success();
}
