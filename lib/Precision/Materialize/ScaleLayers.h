//===- ScaleLayers.h - A scale of gradients for each layer ------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_MATERIALIZE_SCALELAYERS_H
#define BINADE_LIB_PRECISION_MATERIALIZE_SCALELAYERS_H

#include "binade/Precision/Policy.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// Lets each layer with a weight scale the gradient that it passes on, by the
/// power of two that keeps it within `narrow` (Zhao, Vogel, Ahmed: Adaptive
/// Loss Scaling, arXiv 1910.12385): in each step anew, from the gradient and
/// the weight themselves. Gradients of parameters are divided by what they
/// gathered on the way, and where two ways meet both are first brought to one
/// scale. The scales are results of role `statistic`, "scale layer NODE". Does
/// nothing a second time.
void scaleLayers(func::FuncOp step, const LayerScaling &scaling,
                 FloatType narrow);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_MATERIALIZE_SCALELAYERS_H
