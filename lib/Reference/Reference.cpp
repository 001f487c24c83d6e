//===- Reference.cpp - Reference implementation of ops --------------------===//

#include "binade/Reference/Reference.h"
#include "Families.h"
#include "binade/IR/Accuracy.h"
#include "binade/Reference/FloatFormat.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

static bool isF64(Type type) { return getElementTypeOrSelf(type).isF64(); }

Evaluation::Evaluation(Operation *op, SmallVector<TensorRef> operands,
                       ArrayRef<RankedTensorType> types, const Context &context,
                       bool wantsErrors)
    : op(op), operands(std::move(operands)), context(context),
      finished(op->getNumResults()), errors(op->getNumResults()),
      withErrors(wantsErrors) {
  for (RankedTensorType type : types)
    results.emplace_back(type);
  bool isWide = llvm::any_of(op->getOperandTypes(), isF64) ||
                llvm::any_of(op->getResultTypes(), isF64);
  roundoff = FloatFormat(isWide ? APFloat::IEEEdouble() : APFloat::IEEEsingle())
                 .getRoundoff();
}

const Tensor &Evaluation::operator[](Value operand) const {
  auto found = llvm::find(op->getOperands(), operand);
  assert(found != op->getOperands().end() && "not an operand of this op");
  return *operands[std::distance(op->operand_begin(), found)];
}

double Evaluation::getAccumulationRoundoff() const {
  auto decided = dyn_cast<PrecisionOpInterface>(op);
  PrecisionAttr decision = decided ? decided.getPrecisionAttr() : nullptr;
  if (!decision || !decision.getAccumulate())
    return roundoff;
  return std::max(
      roundoff,
      FloatFormat(decision.getAccumulate().getFloatSemantics()).getRoundoff());
}

void Evaluation::setError(unsigned result, int64_t index, double error) {
  if (!withErrors || error == 0.0)
    return;
  if (errors[result].empty())
    errors[result].resize(results[result].getNumElements());
  errors[result][index] = error;
}

/// Both sides round to the result's format, so that a difference of `error`
/// before may grow by one spacing.
double Evaluation::getBound(unsigned result, int64_t index) const {
  double error = errors[result][index];
  if (error == 0.0)
    return 0.0;
  auto element = cast<FloatType>(results[result].getType().getElementType());
  FloatFormat format(element.getFloatSemantics());
  return error + format.getSpacing(std::fabs(results[result][index]) + error);
}

SmallVector<TensorRef> Evaluation::makeBounds() const {
  SmallVector<TensorRef> bounds(results.size());
  for (auto [index, errors] : llvm::enumerate(errors)) {
    if (errors.empty())
      continue;
    RankedTensorType type = results[index].getType();
    Tensor bound(cast<RankedTensorType>(
        type.clone(Float64Type::get(type.getContext()))));
    for (int64_t i = 0, count = bound.getNumElements(); i < count; ++i)
      bound[i] = getBound(index, i);
    bounds[index] = std::make_shared<Tensor>(std::move(bound));
  }
  return bounds;
}

SmallVector<TensorRef>
Evaluation::makePerturbed(function_ref<double()> draw) const {
  SmallVector<TensorRef> perturbed(results.size());
  for (auto [index, errors] : llvm::enumerate(errors)) {
    if (errors.empty())
      continue;
    Tensor moved = results[index];
    for (int64_t i = 0, count = moved.getNumElements(); i < count; ++i)
      moved[i] += draw() * getBound(index, i);
    moved.roundElements();
    perturbed[index] = std::make_shared<Tensor>(std::move(moved));
  }
  return perturbed;
}

SmallVector<TensorRef> Evaluation::takeResults(bool rounds) {
  for (auto [value, result] : llvm::zip(finished, results)) {
    if (value)
      continue;
    if (rounds || !result.isFloat())
      result.roundElements();
    value = std::make_shared<Tensor>(std::move(result));
  }
  return std::move(finished);
}

double mlir::binade::getSumConstant(int64_t count) {
  auto terms = static_cast<double>(count);
  return std::min(terms, 8.0 * std::sqrt(terms)) + 1.0;
}

//===----------------------------------------------------------------------===//
// Elementwise ops
//===----------------------------------------------------------------------===//

/// Whether rounding to f32 and then to the result's format gives the same bits
/// as one rounding. It does if the result is at least as wide as f32; or if
/// twice its significand bits plus two fit into f32's significand and the
/// operands are not wider than the result (Figueroa, 1995).
static bool isDoubleRoundingHarmless(Operation *op) {
  auto getPrecision = [](Type type) {
    auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
    return element ? FloatFormat(element.getFloatSemantics()).precision : 0;
  };
  int result = getPrecision(op->getResult(0).getType());
  int working = FloatFormat(APFloat::IEEEsingle()).precision;
  if (result >= working)
    return true;
  return 2 * result + 2 <= working &&
         llvm::all_of(op->getOperandTypes(),
                      [&](Type type) { return getPrecision(type) <= result; });
}

/// Returns the relative error that the functions of `op` may have in addition:
/// an eighth of the rounding error of the format for which they are accurate.
/// Results in that format may differ by one rounding in any case.
static double getFunctionError(Operation *op) {
  FloatType accuracy = getAccuracy(op);
  if (!accuracy || !getElementTypeOrSelf(op->getResult(0).getType()).isF32())
    return 0.0;
  return FloatFormat(accuracy.getFloatSemantics()).getRoundoff() / 8;
}

double mlir::binade::detail::getElementError(const Evaluation &evaluation,
                                             Accuracy accuracy,
                                             const Estimate &estimate) {
  // The units in the last place that an approximation may lose. It may also
  // flush a subnormal result to zero.
  constexpr double kUnits = 4.0;
  constexpr double kSmallestNormal = 0x1p-126;
  switch (accuracy) {
  case Accuracy::Exact:
    return 0.0;
  case Accuracy::Rounded:
    return isDoubleRoundingHarmless(evaluation.getOperation())
               ? 0.0
               : evaluation.getRoundoff() * estimate.magnitude;
  case Accuracy::Approximated:
    return (2.0 * kUnits * evaluation.getRoundoff() +
            getFunctionError(evaluation.getOperation())) *
               estimate.magnitude +
           kSmallestNormal;
  }
  llvm_unreachable("all accuracies are handled");
}

LogicalResult mlir::binade::detail::emitNoValue(Operation *op, StringRef what) {
  return op->emitOpError("is not defined for ") << what;
}

//===----------------------------------------------------------------------===//
// Reference
//===----------------------------------------------------------------------===//

const Reference::Function *Reference::find(StringRef op) const {
  auto found = functions.find(op);
  return found == functions.end() ? nullptr : &found->second;
}

const Reference &Reference::get() {
  static const Reference reference = [] {
    Reference all;
    for (auto *addFamily :
         {addAttention,     addCast,      addContraction,  addConvolution,
          addElementwise,   addEmbedding, addExchange,     addHadamard,
          addKernel,        addLoss,      addLossScaling,  addMonitor,
          addNormalization, addOptimizer, addQuantization, addRandom,
          addReduction,     addRmsNorm,   addShape,        addSumInOrder})
      addFamily(all);
    return all;
  }();
  return reference;
}
