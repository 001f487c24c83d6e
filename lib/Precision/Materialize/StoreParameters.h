//===- StoreParameters.h - Formats of what training keeps -------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_MATERIALIZE_STOREPARAMETERS_H
#define BINADE_LIB_PRECISION_MATERIALIZE_STOREPARAMETERS_H

#include "binade/Precision/PrecisionGraph.h"

namespace mlir::binade {

/// A warning per rule, or pin, that keeps parameters in a format whose rounding
/// loses small updates, and per rule that keeps squares of gradients in f16.
void warnOfLostUpdates(const PrecisionGraph &graph);

/// Carries out the decisions about updates: what they keep becomes state of the
/// program. `setFormat` changes the type of an argument that others read too.
/// Where types say what was decided already, nothing changes.
LogicalResult storeParameters(func::FuncOp step,
                              function_ref<void(Value, FloatType)> setFormat);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_MATERIALIZE_STOREPARAMETERS_H
