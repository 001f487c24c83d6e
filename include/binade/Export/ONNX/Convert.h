//===- Convert.h - An ONNX file with other formats --------------*- C++ -*-===//

#ifndef BINADE_EXPORT_ONNX_CONVERT_H
#define BINADE_EXPORT_ONNX_CONVERT_H

#include "binade/IR/Binade.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/BitVector.h"

namespace onnx {
class ModelProto;
} // namespace onnx

namespace mlir::binade {

/// How a value waits for the backward part: as codes, or rounded to `format`;
/// as it is without either.
struct WaitingFormat {
  QuantizedAttr codes;
  FloatType format;
  SmallVector<int64_t> shape; ///< Of the value.
  bool isFirst = true;        ///< Whether it is the first result of its op.

  explicit operator bool() const { return codes || format; }
};

/// What was decided about one node. Without `compute` it stays as it is.
struct NodeFormats {
  FloatType compute, accumulate, result;
  /// Formats and rule of what in it sums products, where these agree and
  /// others do not.
  FloatType productCompute, productResult;
  std::string productRule;
  /// What operands are quantized to, by the number of the input; null where
  /// they are not.
  SmallVector<QuantizedAttr> operands;
  /// Of inputs, whether they are read in f32 or as integers whatever is
  /// decided; may be shorter.
  SmallVector<bool, 2> isWide;
  /// Of inputs; -1 where nothing is known.
  SmallVector<int64_t, 2> ranks;
  /// Of its only output.
  WaitingFormat waiting;
  /// The input that its first output is; empty where it makes something.
  std::string same;
  /// Whether it reads values as they have waited.
  bool isBackward = false;
  /// Whether it only moves elements: of rounded ones it makes rounded ones. And
  /// whether it moves all: they have the same largest one.
  bool isMovement = false, movesAll = false;
  /// Who decided; stands in the node's metadata.
  std::string rule;
};

/// A scale of gradients: a power of two, which grows and shrinks where it is
/// `isDynamic`.
struct GradientScale {
  double init = 65536.0, growth = 2.0, backoff = 0.5;
  int64_t interval = 2000;
  bool isDynamic = false;
  /// Whether a graph that is a whole training step has the scale as its state,
  /// with `init` as the first: an input that may be left out, and an output.
  bool isStateOfSteps = false;
  /// Why the scale is what it is, in words.
  std::string reason;
};

/// The types of a file's inputs and outputs whose names match.
struct PortType {
  std::string glob;
  FloatType type;
};

struct ConvertOptions {
  /// Of inputs and outputs in f32; others keep theirs. A glob that matches none
  /// is an error.
  std::vector<PortType> ports;
  /// For gradients in f16. None where nothing is scaled.
  std::optional<GradientScale> scale;
  /// The output that is the loss; "loss" where absent.
  std::string lossOutput;
  /// Stands in the file's metadata.
  std::string policy;
  /// Accept external data in files that have more than one name.
  bool allowHardLinks = false;
};

/// What was written.
struct ConvertReport {
  int64_t nodes = 0, casts = 0;
  int64_t narrow = 0;  ///< Nodes that compute in a narrow format.
  int64_t tensors = 0; ///< Stored tensors in another format.
  int64_t scaled = 0;  ///< Nodes that compute scaled gradients.
  /// By which, why, and whether the graph updates it.
  double scale = 1.0;
  std::string scaleReason;
  bool hasDynamicScale = false;
  /// Decisions that the operator set has no node for, and what was done.
  std::vector<std::string> limits;
  /// What runtimes have to be told.
  std::vector<std::string> notes;
  std::string data; ///< File of weights beside; often empty.
  /// After an error what the process should end with.
  int exitCode = ::binade::ExitCode::Rejected;
};

/// The backward part of a model: nodes of its graph on which the loss does not
/// depend. None where it has no output of the loss' name.
llvm::BitVector findBackwardNodes(const ::onnx::ModelProto &model,
                                  StringRef lossOutput);

/// An ONNX model that is to be written with other formats.
struct ConvertedModel {
  /// Where its file lies, and with it the data beside it.
  std::string path;
  std::shared_ptr<::onnx::ModelProto> model;
  /// The same without data and with more types; null where there are no more.
  std::shared_ptr<const ::onnx::ModelProto> inferred;
  /// One for each node, and after it those of graphs inside of it. Without any
  /// all stays as it is.
  std::vector<NodeFormats> formats;
};

/// Writes `model`, which is changed, to `output`. Nodes, their names and order
/// stay; casts stand where formats meet. Weights that only narrow nodes read
/// are stored narrow; those beside the file are all in `output`.data.
///
/// Errors are diagnostics; then nothing is written.
LogicalResult convertOnnx(const ConvertedModel &model,
                          const ConvertOptions &options, StringRef output,
                          MLIRContext *context, ConvertReport &report);

} // namespace mlir::binade

#endif // BINADE_EXPORT_ONNX_CONVERT_H
