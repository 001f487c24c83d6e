//===- SolveSettings.h - hyper-parameters by what they make -----*- C++ -*-===//

#ifndef BINADE_LIB_OPTIMIZER_SOLVESETTINGS_H
#define BINADE_LIB_OPTIMIZER_SOLVESETTINGS_H

#include "mlir/IR/Value.h"
#include <optional>

namespace mlir::binade {

/// That `expression`, an f64 computed from arguments of its function, is
/// `number` once it is rounded to f32.
struct Equation {
  Value expression;
  float number;
};

/// The value of each argument that the equations depend on, such that all hold;
/// nothing where there is none, or an argument is not to be found on its own.
std::optional<llvm::DenseMap<Value, double>>
solveSettings(ArrayRef<Equation> equations);

} // namespace mlir::binade

#endif // BINADE_LIB_OPTIMIZER_SOLVESETTINGS_H
