//===- SolveSettings.h - Find settings by constants -------------*- C++ -*-===//

#ifndef BINADE_LIB_OPTIMIZER_SOLVESETTINGS_H
#define BINADE_LIB_OPTIMIZER_SOLVESETTINGS_H

#include "mlir/IR/Value.h"
#include <optional>

namespace mlir::binade {

/// The condition that `expression`, an f64 computed from arguments of its
/// function, is `number` after rounding to f32.
struct Equation {
  Value expression;
  float number;
};

/// Returns the values of the arguments in the equations for which all equations
/// hold; none if there are no such values, or if an argument cannot be solved
/// for alone.
std::optional<llvm::DenseMap<Value, double>>
solveSettings(ArrayRef<Equation> equations);

} // namespace mlir::binade

#endif // BINADE_LIB_OPTIMIZER_SOLVESETTINGS_H
