//===- InitializerChoice.h - Which initializers are trained -----*- C++ -*-===//

#ifndef BINADE_ONNX_INITIALIZERCHOICE_H
#define BINADE_ONNX_INITIALIZERCHOICE_H

#include "mlir/IR/BuiltinTypes.h"
#include <string>
#include <vector>

namespace mlir::binade {

/// The output that is the loss unless another one is named.
inline constexpr StringLiteral kLossName = "loss";

/// Which of a model's initializers are trained, set by the user.
struct InitializerChoice {
  /// Globs of initializer names, applied in this order: those to fold into the
  /// graph as constants, and to freeze (keep in the state of a run without
  /// training them). A glob that matches nothing is an error.
  std::vector<std::string> fold, freeze;
  /// Globs of the initializers to train. Those of `train`, if there are any,
  /// replace the choice of the file: what it would train is frozen. Those of
  /// `alsoTrain` are trained in addition.
  std::vector<std::string> train, alsoTrain;
  /// The graph output that is the loss; it has one element. If empty, an output
  /// named `loss` with one element is the loss.
  std::string lossOutput;
};

/// The size of a group of tensors.
struct TensorGroup {
  int64_t tensors = 0;
  int64_t elements = 0;
  uint64_t bytes = 0;

  void add(RankedTensorType type);
};

} // namespace mlir::binade

#endif // BINADE_ONNX_INITIALIZERCHOICE_H
