//===- RandomPoint.h - numbers to tell functions apart by -------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_RANDOMPOINT_H
#define BINADE_LIB_RAISING_RANDOMPOINT_H

#include "binade/Reference/Interpreter.h"
#include <random>

namespace mlir::binade {

/// What it takes to evaluate a function and its gradients: seconds, up to a
/// minute and a few GB, or more than that.
enum class Cost { Small, Large, TooLarge };
Cost estimateCost(func::FuncOp function);

/// Numbers for all arguments of `function`: floats from -`range` to `range`;
/// integers are 0 or 1, which name a row or a class of every table that has
/// two.
NamedTensors drawArguments(func::FuncOp function, double range,
                           std::mt19937 &generator);

double getNorm(ArrayRef<double> x);

/// Norm of the difference.
double getDistance(ArrayRef<double> x, ArrayRef<double> y);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_RANDOMPOINT_H
