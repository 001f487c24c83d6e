//===- ExportTrained.h - An imported file with trained values ---*- C++ -*-===//

#ifndef BINADE_EXPORT_EXPORTTRAINED_H
#define BINADE_EXPORT_EXPORTTRAINED_H

#include "binade/Container/Safetensors.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Support/LLVM.h"
#include <functional>

namespace mlir::binade {

/// Where trained values come from.
struct TrainedValues {
  std::string where; ///< For messages.
  std::vector<std::string> names;
  /// Null for a tensor that was not trained.
  std::function<const ::binade::TensorInfo *(StringRef name)> find;
  /// Its bytes, as `dtype`.
  std::function<::binade::Result<std::vector<std::byte>>(StringRef name,
                                                         ::binade::DType dtype)>
      read;
};

struct ExportOptions {
  /// As the model was imported for training (see `ImportOptions`). A tensor
  /// that was trained has to have a value.
  std::vector<std::string> fold, train;
  std::string lossOutput;
  bool allowHardLinks = false;
  /// Values that become the outputs; without them all outputs but the loss.
  std::vector<std::string> only;
  bool keepLoss = false;
  /// Leave the graph as it is: dropout, statistics of the batch, loss.
  bool training = false;
  /// Where weights are: in the file, in one beside it, or beside it where the
  /// original has some there or they are more than 1 GiB.
  enum class Weights { Auto, Inside, Beside };
  Weights weights = Weights::Auto;
};

/// What was written.
struct ExportReport {
  int64_t nodes = 0, tensors = 0;
  uint64_t bytes = 0; ///< Of the tensors with trained values.
  std::vector<std::string> inputs, outputs;
  std::vector<std::string> leftOut; ///< Inputs and outputs of the original.
  std::vector<std::string> unknown; ///< Values for which there is no tensor.
  std::string data;                 ///< File of weights beside; often empty.
  /// After an error what the process should end with.
  int exitCode = ::binade::ExitCode::Rejected;
};

/// Writes the ONNX file at `path` to `output`, with trained values in place of
/// its own and, unless it stays a graph for training, as a graph for inference.
/// Names, metadata and operator set stay. Weights beside the file are all in
/// `output`.data.
///
/// The file has to be one that `importOnnxPart` accepts, which is not checked
/// here: `exportModel` checks it. Errors are diagnostics; then nothing is
/// written.
LogicalResult exportTrained(StringRef path, const TrainedValues &values,
                            const ExportOptions &options, StringRef output,
                            MLIRContext *context, ExportReport &report);

} // namespace mlir::binade

#endif // BINADE_EXPORT_EXPORTTRAINED_H
