//===- Convert.h - An ONNX file with other formats --------------*- C++ -*-===//

#ifndef BINADE_CONVERTONNX_CONVERT_H
#define BINADE_CONVERTONNX_CONVERT_H

#include "binade/IR/Binade.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/BitVector.h"

namespace onnx {
class ModelProto;
} // namespace onnx

namespace mlir::binade {

/// How a value waits for the backward part: as codes, or rounded to `format`;
/// as it is without either.
struct SavedFormat {
  QuantizedAttr codes;
  FloatType format;
  SmallVector<int64_t, 0> shape; ///< Of the value.
  bool isFirst = true;           ///< Whether it is the first result of its op.

  explicit operator bool() const { return codes || format; }
};

/// What was decided about one node. Without `compute` it stays as it is.
struct NodeFormats {
  FloatType compute, accumulate, result;
  /// The formats and the rule of the node's matmuls and convolutions, if they
  /// agree: other ops of the node may have different ones.
  FloatType productCompute, productResult;
  std::string productRule;
  /// What operands are quantized to, by the number of the input; null where
  /// they are not.
  SmallVector<QuantizedAttr, 0> operands;
  /// For each input, whether its type does not follow the decision: it is read
  /// in f32 or as integers. Missing entries are false.
  SmallVector<bool, 2> isWide;
  /// Of inputs; -1 where nothing is known.
  SmallVector<int64_t, 2> ranks;
  /// Of its only output.
  SavedFormat saved;
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
  /// Whether the graph, if it is a whole training step, keeps the scale as
  /// state: an optional input with the default `init`, and an output.
  bool isStateOfSteps = false;
  /// Why this scale was chosen, for reports.
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
  /// The scale of gradients, why it was chosen, and whether the graph updates
  /// it.
  double scale = 1.0;
  std::string scaleReason;
  bool hasDynamicScale = false;
  /// Decisions that the operator set has no node for, and what was done.
  std::vector<std::string> limits;
  /// Settings that runtimes need to run the model.
  std::vector<std::string> notes;
  std::string data; ///< File of weights beside; often empty.
  /// After an error what the process should end with.
  int exitCode = ::binade::ExitCode::Rejected;
};

/// The nodes of the backward part of a model: those on which the loss does not
/// depend. Empty if the model has no output with the name of the loss.
llvm::BitVector findBackwardNodes(const ::onnx::ModelProto &model,
                                  StringRef lossOutput);

/// An ONNX model and the formats to convert it to.
struct ConvertedModel {
  /// The model's file; external data are relative to its directory.
  std::string path;
  std::shared_ptr<::onnx::ModelProto> model;
  /// `model` without data but with inferred types; null where inference added
  /// none.
  std::shared_ptr<const ::onnx::ModelProto> inferred;
  /// The formats of each node, followed by those of nodes in its subgraphs. If
  /// empty, the model stays as it is.
  std::vector<NodeFormats> formats;
};

/// Converts `model` in place and writes it to `output`. Nodes keep their names
/// and order; casts are inserted where formats differ. Weights that only nodes
/// in narrow formats read are stored in these formats, external ones all in
/// `output`.data.
///
/// Errors are diagnostics; then nothing is written.
LogicalResult convertOnnx(const ConvertedModel &model,
                          const ConvertOptions &options, StringRef output,
                          MLIRContext *context, ConvertReport &report);

} // namespace mlir::binade

#endif // BINADE_CONVERTONNX_CONVERT_H
