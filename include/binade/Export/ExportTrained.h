//===- ExportTrained.h - Export of trained models ---------------*- C++ -*-===//

#ifndef BINADE_EXPORT_EXPORTTRAINED_H
#define BINADE_EXPORT_EXPORTTRAINED_H

#include "binade/Container/Safetensors.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Support/LLVM.h"
#include <functional>

namespace mlir::binade {

/// The source of trained values.
struct TrainedValues {
  std::string where; ///< A description of the source, for messages.
  std::vector<std::string> names;
  /// Returns type and shape of a tensor; null if it was not trained.
  std::function<const ::binade::TensorInfo *(StringRef name)> find;
  /// Returns the bytes of a tensor, converted to `dtype`.
  std::function<::binade::Result<std::vector<std::byte>>(StringRef name,
                                                         ::binade::DType dtype)>
      read;
};

struct ExportOptions {
  /// The options with which the model was imported for training (see
  /// `ImportOptions`). Every tensor that was trained must have a value.
  std::vector<std::string> fold, train, alsoTrain;
  std::string lossOutput;
  bool allowHardLinks = false;
  /// Names of values that become the outputs. If empty, all outputs except the
  /// loss are kept.
  std::vector<std::string> only;
  bool keepLoss = false;
  /// Keep the training graph, with dropout, batch statistics and loss.
  bool training = false;
  /// Where weights are stored: in the file, or as external data. Auto stores
  /// them as external data if the original has external data or if they take
  /// more than 1 GiB.
  enum class Weights { Auto, Inline, External };
  Weights weights = Weights::Auto;
};

/// What an export wrote.
struct ExportReport {
  int64_t nodes = 0, tensors = 0;
  uint64_t bytes = 0; ///< Bytes of tensors with trained values.
  std::vector<std::string> inputs, outputs;
  /// Inputs and outputs of the original that were removed.
  std::vector<std::string> leftOut;
  /// Trained values without a tensor in the model.
  std::vector<std::string> unknown;
  /// The file of external data; empty if there is none.
  std::string data;
  /// After an error, the exit code for the process.
  int exitCode = ::binade::ExitCode::Rejected;
};

/// Writes the ONNX file at `path` to `output` with trained values and, unless
/// `options.training`, as a graph for inference. Names, metadata and operator
/// set are kept. All external data are written to `output`.data.
///
/// The file must be one that `importOnnxPart` accepts, which `exportModel`
/// checks before. Errors are reported as diagnostics; nothing is written then.
LogicalResult exportTrained(StringRef path, const TrainedValues &values,
                            const ExportOptions &options, StringRef output,
                            MLIRContext *context, ExportReport &report);

} // namespace mlir::binade

#endif // BINADE_EXPORT_EXPORTTRAINED_H
