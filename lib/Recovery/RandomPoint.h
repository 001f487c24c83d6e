//===- RandomPoint.h - numbers to tell functions apart by -------*- C++ -*-===//

#ifndef BINADE_LIB_RECOVERY_RANDOMPOINT_H
#define BINADE_LIB_RECOVERY_RANDOMPOINT_H

#include "binade/Reference/Interpreter.h"
#include <random>

namespace mlir::binade {

/// Whether evaluating `function` and its gradients takes less than a minute,
/// and a few GB.
bool isSmall(func::FuncOp function);

/// Whether that takes more than some seconds.
bool isSlow(func::FuncOp function);

/// Numbers for all arguments of `function`: floats from -`range` to `range`;
/// integers are 0 or 1, which name a row or a class of every table that has
/// two.
NamedTensors drawArguments(func::FuncOp function, double range,
                           std::mt19937 &generator);

double getNorm(ArrayRef<double> x);

/// Norm of the difference.
double getDistance(ArrayRef<double> x, ArrayRef<double> y);

} // namespace mlir::binade

#endif // BINADE_LIB_RECOVERY_RANDOMPOINT_H
