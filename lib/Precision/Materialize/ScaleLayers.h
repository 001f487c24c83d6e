//===- ScaleLayers.h - Loss scaling per layer -------------------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_MATERIALIZE_SCALELAYERS_H
#define BINADE_LIB_PRECISION_MATERIALIZE_SCALELAYERS_H

#include "binade/Precision/Policy.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// Makes each layer with a weight multiply the gradient that it passes on by a
/// power of two that keeps it within `narrow` (Zhao, Vogel, Ahmed: Adaptive
/// Loss Scaling, arXiv 1910.12385). Each step computes the scales anew, from
/// the gradient and the weight. Gradients of parameters are divided by their
/// total scale. Gradients with different scales are unscaled before they are
/// combined. The scales are results with the role `statistic`, named "scale
/// layer NODE". Does nothing if the step has such results already.
void scaleLayers(func::FuncOp step, const LayerScaling &scaling,
                 FloatType narrow);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_MATERIALIZE_SCALELAYERS_H
