//===- ScaleLayers.cpp - Loss scaling per layer ---------------------------===//
//
// The backward pass is linear in the gradient. A factor therefore passes
// through every op, and has to be known only where gradients are combined or
// leave the backward pass.
//
//===----------------------------------------------------------------------===//

#include "ScaleLayers.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"
#include "binade/IR/Metrics.h"
#include "binade/IR/Names.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Returns the x at which the error function is `p`, for p in (0, 1).
static double invertErf(double p) {
  double low = 0.0, high = 6.0;
  while (std::nextafter(low, high) < high) {
    double middle = 0.5 * (low + high);
    (std::erf(middle) < p ? low : high) = middle;
  }
  return high;
}

/// Returns the value that `value` was saved, moved or cast from.
static Value getSource(Value value) {
  while (true) {
    auto save = value.getDefiningOp<SaveOp>();
    Value from = save ? save.getX() : getMoved(value);
    if (!from)
      return value;
    value = from;
  }
}

namespace {
class LayerScaler {
public:
  LayerScaler(func::FuncOp step, const LayerScaling &scaling, FloatType narrow)
      : step(step), scaling(scaling), b(step.getLoc(), step.getContext()) {
    const llvm::fltSemantics &format = narrow.getFloatSemantics();
    smallest = APFloat::getSmallest(format).convertToDouble();
    largest = APFloat::getLargest(format).convertToDouble();
    quantile = std::sqrt(2.0) * invertErf(scaling.underflow);
  }

  void run() {
    for (Operation *op : llvm::to_vector(
             llvm::make_pointer_range(step.front().without_terminator())))
      visit(op);
    for (OpOperand &result : step.front().getTerminator()->getOpOperands())
      if (scaleOf.contains(result.get()))
        unscale(result);
    addResults(step, results);
  }

private:
  void visit(Operation *op) {
    if (isa<GradientSeedOp>(op)) {
      scaleOf[op->getResult(0)] = Value();
      return;
    }
    SmallVector<OpOperand *> gradients;
    for (OpOperand &operand : op->getOpOperands())
      if (scaleOf.contains(operand.get()))
        gradients.push_back(&operand);
    if (gradients.empty())
      return;
    bool leaves = getPhase(op) != Phase::Backward;
    if (leaves || !haveOneScale(gradients))
      for (OpOperand *gradient : gradients)
        unscale(*gradient);
    if (leaves)
      return;
    Value scale = scaleOf.lookup(gradients.front()->get());
    if (OpOperand *weight = findWeight(op, gradients))
      scale = scaleLayer(op, *gradients.front(), *weight, scale);
    for (Value result : op->getResults())
      scaleOf[result] = scale;
  }

  bool haveOneScale(ArrayRef<OpOperand *> gradients) const {
    return llvm::all_of(gradients, [&](OpOperand *gradient) {
      return scaleOf.lookup(gradient->get()) ==
             scaleOf.lookup(gradients.front()->get());
    });
  }

  /// Returns the weight by which `op` multiplies its only gradient, or null.
  static OpOperand *findWeight(Operation *op, ArrayRef<OpOperand *> gradients) {
    auto product = dyn_cast<PrecisionOpInterface>(op);
    if (!product || !product.accumulates() || gradients.size() != 1)
      return nullptr;
    for (OpOperand &operand : op->getOpOperands()) {
      auto argument = dyn_cast<BlockArgument>(getSource(operand.get()));
      auto function = cast<func::FuncOp>(op->getParentOp());
      if (!argument || getType(operand.get()).getRank() < 2)
        continue;
      if (auto port = getArgument(function, argument.getArgNumber());
          port && port->role == Role::Parameter)
        return &operand;
    }
    return nullptr;
  }

  //===--------------------------------------------------------------------===//
  // Computation of a scale
  //===--------------------------------------------------------------------===//

  static RankedTensorType getType(Value value) {
    return cast<RankedTensorType>(value.getType());
  }
  static Value mark(Value value) {
    setPhase(value.getDefiningOp(), Phase::Backward);
    return value;
  }
  Value number(double value) {
    return buildSplat(b, RankedTensorType::get({}, b.getF32Type()), value);
  }
  template <typename Op> Value make(ValueRange operands) {
    return mark(Op::create(b, operands[0], operands[1]));
  }

  /// Multiplies `x` by the scalar `factor`.
  Value multiply(Value x, Value factor) {
    Value all = factor;
    if (getType(x).getRank() > 0)
      all = mark(buildBroadcast(b, factor, {}, getType(x).getShape()));
    return make<MulOp>({x, all});
  }

  Value getAmax(Value x) {
    auto op = StatisticsOp::create(b, Statistic::Amax, x);
    setPhase(op, Phase::Backward);
    return op.getValues().front();
  }

  Value getMeanSquare(Value x) {
    Value square = make<MulOp>({x, x});
    auto axes = llvm::to_vector(llvm::seq<int64_t>(0, getType(x).getRank()));
    Value sum = mark(ReduceSumOp::create(b, square, axes));
    return make<DivOp>(
        {sum, number(static_cast<double>(getType(x).getNumElements()))});
  }

  /// Returns the power of two by which `gradient` is multiplied so that its
  /// product with `weight`, a contraction over `fan` elements, neither vanishes
  /// nor overflows. The result is assumed to be normally distributed with half
  /// the variance, as after a ReLU.
  Value findScale(Value gradient, Value weight, double fan, Value gathered) {
    Value spread = mark(SqrtOp::create(
        b, make<MulOp>({getMeanSquare(gradient), getMeanSquare(weight)})));
    spread = make<MulOp>({spread, number(std::sqrt(0.5 * fan))});
    Value wanted = make<DivOp>(
        {number(smallest / quantile), spread}); // Infinite for a spread of 0.
    Value peak = make<MulOp>({getAmax(gradient), getAmax(weight)});
    Value scale = make<MaxOp>({wanted, number(1.0)});
    scale = make<MinOp>({scale, make<DivOp>({number(largest / fan), peak})});
    if (gathered)
      scale = make<MinOp>(
          {scale, make<DivOp>({number(scaling.gathered), gathered})});
    scale = make<MinOp>({scale, number(scaling.bound)});
    // If the deviation is 0, no element can flush to zero.
    Value isFlat =
        mark(CompareOp::create(b, spread, number(0.0), Comparison::Equal));
    scale = mark(SelectOp::create(b, isFlat, number(1.0), scale));
    return floorToPower(scale);
  }

  /// Returns the largest power of two up to `x`, at least 2^-24; 1 if `x` is
  /// less than that, or NaN because gradients are not finite.
  Value floorToPower(Value x) {
    constexpr int kMin = -24;
    Value power = number(1.0);
    for (int exponent = kMin; std::ldexp(1.0, exponent) <= scaling.bound;
         ++exponent) {
      Value step = number(std::ldexp(1.0, exponent));
      Value reaches =
          mark(CompareOp::create(b, x, step, Comparison::GreaterEqual));
      power = mark(SelectOp::create(b, reaches, step, power));
    }
    return power;
  }

  //===--------------------------------------------------------------------===//
  // Changes of the graph
  //===--------------------------------------------------------------------===//

  /// Multiplies the gradient that `op` reads by its scale. Returns the total
  /// scale of its results.
  Value scaleLayer(Operation *op, OpOperand &gradient, OpOperand &weight,
                   Value gathered) {
    b.setInsertionPoint(op);
    b.setLoc(op->getLoc());
    double fan =
        static_cast<double>(*cast<PrecisionOpInterface>(op).countMacs() /
                            getType(op->getResult(0)).getNumElements());
    Value scale = findScale(gradient.get(), weight.get(), fan, gathered);
    gradient.set(multiply(gradient.get(), scale));
    std::string name = (kLayerScalePrefix + getNodeName(op)).str();
    if (unsigned count = ++counts[name]; count > 1)
      name += " #" + std::to_string(count);
    results.push_back({Role::Statistic, name, scale});
    return gathered ? make<MulOp>({gathered, scale}) : scale;
  }

  /// Divides the gradient that `operand` reads by its total scale.
  void unscale(OpOperand &operand) {
    Value value = operand.get(), scale = scaleOf.lookup(value);
    if (!scale)
      return;
    Value &plain = unscaled[value];
    if (!plain) {
      b.setInsertionPointAfterValue(value);
      b.setLoc(value.getLoc());
      plain = multiply(value, make<DivOp>({number(1.0), scale}));
      scaleOf[plain] = Value();
    }
    operand.set(plain);
  }

  func::FuncOp step;
  const LayerScaling &scaling;
  ImplicitLocOpBuilder b;
  double smallest, largest, quantile;
  /// The product of the scales of each gradient; null if it is not scaled.
  DenseMap<Value, Value> scaleOf;
  DenseMap<Value, Value> unscaled;
  llvm::StringMap<unsigned> counts;
  std::vector<NewResult> results;
};
} // namespace

void mlir::binade::scaleLayers(func::FuncOp step, const LayerScaling &scaling,
                               FloatType narrow) {
  bool isScaled =
      llvm::any_of(getResults(step, Role::Statistic), [](const Port &port) {
        return port.name.starts_with(kLayerScalePrefix);
      });
  if (!isScaled)
    LayerScaler(step, scaling, narrow).run();
}
