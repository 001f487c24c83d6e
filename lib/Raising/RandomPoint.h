//===- RandomPoint.h - Random inputs to compare functions -------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_RANDOMPOINT_H
#define BINADE_LIB_RAISING_RANDOMPOINT_H

#include "binade/Reference/Interpreter.h"
#include <random>

namespace mlir::binade {

/// The cost of evaluating a function and its gradients: seconds; up to a minute
/// and a few GB; or more than that.
enum class Cost { Small, Large, TooLarge };
Cost estimateCost(func::FuncOp function);

/// Draws values for all arguments of `function`: floats from -`range` to
/// `range`; integers 0 or 1, which are valid indices into any table of two rows
/// or classes.
NamedTensors drawArguments(func::FuncOp function, double range,
                           std::mt19937 &generator);

double getNorm(ArrayRef<double> x);

/// Returns the norm of the difference.
double getDistance(ArrayRef<double> x, ArrayRef<double> y);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_RANDOMPOINT_H
