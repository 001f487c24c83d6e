//===- RandomPoint.cpp - Random inputs to compare functions ---------------===//

#include "RandomPoint.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Multiply-adds that the reference computes in seconds, if it computes them
/// one by one.
static constexpr int64_t kMaxProducts = 2'000'000'000;

/// Elements of arguments and results; a few GB in f64.
static constexpr int64_t kMaxElements = 300'000'000;

Cost mlir::binade::estimateCost(func::FuncOp function) {
  int64_t products = 0; // Weighted by how many the reference computes at once.
  function.walk([&](PrecisionOpInterface op) {
    products += op.countMacs().value_or(0) / countAtOnce(op);
  });
  int64_t elements = 0;
  for (Type type : llvm::concat<const Type>(function.getArgumentTypes(),
                                            function.getResultTypes()))
    elements += cast<RankedTensorType>(type).getNumElements();
  if (products > kMaxProducts || elements > kMaxElements)
    return Cost::TooLarge;
  return products > kMaxProducts / 10 ? Cost::Large : Cost::Small;
}

static TensorRef draw(RankedTensorType type, double range,
                      std::mt19937 &generator) {
  auto tensor = std::make_shared<Tensor>(type);
  // Use the generator's bits: distributions of the standard library differ
  // between implementations.
  for (double &value : tensor->getFloats())
    value = (generator() * 0x1p-31 - 1.0) * range;
  for (int64_t &value : tensor->getIntegers())
    value = generator() >> 31;
  return tensor;
}

NamedTensors mlir::binade::drawArguments(func::FuncOp function, double range,
                                         std::mt19937 &generator) {
  NamedTensors inputs;
  for (auto [name, type] :
       llvm::zip(getArgumentNames(function), function.getArgumentTypes()))
    inputs[name] = draw(cast<RankedTensorType>(type), range, generator);
  return inputs;
}

double mlir::binade::getNorm(ArrayRef<double> x) {
  double sum = 0.0;
  for (double value : x)
    sum += value * value;
  return std::sqrt(sum);
}

double mlir::binade::getDistance(ArrayRef<double> x, ArrayRef<double> y) {
  SmallVector<double> difference;
  for (auto [one, other] : llvm::zip_equal(x, y))
    difference.push_back(one - other);
  return getNorm(difference);
}
