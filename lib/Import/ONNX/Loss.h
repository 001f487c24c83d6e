//===- Loss.h - Losses of the graph and of --loss ---------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_LOSS_H
#define BINADE_LIB_IMPORT_ONNX_LOSS_H

#include "Graph.h"
#include "binade/ONNX/InitializerChoice.h"

namespace mlir::binade::importer {

/// A loss that `--loss` specifies.
struct LossExpression {
  std::string kind; ///< cross_entropy or mse
  std::string output, target;
  std::optional<int64_t> axis;
  int64_t ignoreIndex = -100;
};

/// Parses the argument of `--loss`; fails, with an error at `loc`, if it is not
/// valid.
FailureOr<LossExpression> parseLoss(Location loc, StringRef text);

/// Returns the type of the target: for cross-entropy, i64 labels in the
/// output's shape without the class axis; otherwise the output's type.
FailureOr<RankedTensorType> getTargetType(Location loc,
                                          const LossExpression &loss,
                                          RankedTensorType output);

/// Builds the loss as tensor<f32>.
Value buildLoss(ImplicitLocOpBuilder &b, const LossExpression &loss,
                Value output, Value target);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_LOSS_H
