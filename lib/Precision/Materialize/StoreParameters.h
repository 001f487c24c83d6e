//===- StoreParameters.h - Formats of parameters and states -----*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_MATERIALIZE_STOREPARAMETERS_H
#define BINADE_LIB_PRECISION_MATERIALIZE_STOREPARAMETERS_H

#include "binade/Precision/PrecisionGraph.h"

namespace mlir::binade {

/// Emits a warning for each rule or pin that stores parameters in a format in
/// which rounding loses small updates, and for each rule that stores squares of
/// gradients in f16.
void warnOfLostUpdates(const PrecisionGraph &graph);

/// Carries out the decisions about updates: adds what they store to the states
/// of the program. `setFormat` changes the type of an argument that other ops
/// also read. Does nothing if the types have the decided formats already.
LogicalResult storeParameters(func::FuncOp step,
                              function_ref<void(Value, FloatType)> setFormat);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_MATERIALIZE_STOREPARAMETERS_H
