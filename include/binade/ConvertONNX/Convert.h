//===- Convert.h - Conversion of ONNX files to other formats ----*- C++ -*-===//

#ifndef BINADE_CONVERTONNX_CONVERT_H
#define BINADE_CONVERTONNX_CONVERT_H

#include "binade/IR/Binade.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/BitVector.h"

namespace onnx {
class ModelProto;
} // namespace onnx

namespace mlir::binade {

/// The format in which a value is saved for the backward pass: quantized to
/// `codes`, or rounded to `format`, or unchanged if both are null.
struct SavedFormat {
  QuantizedAttr codes;
  FloatType format;
  SmallVector<int64_t, 0> shape; ///< The shape of the value.
  bool isFirst = true;           ///< Whether it is the first result of its op.

  explicit operator bool() const { return codes || format; }
};

/// The decision about one node. Without `compute`, the node is not changed.
struct NodeFormats {
  FloatType compute, accumulate, result;
  /// The formats and the rule of the node's matmuls and convolutions, if they
  /// agree: other ops of the node may have different ones.
  FloatType matmulCompute, matmulResult;
  std::string matmulRule;
  /// The formats to which inputs are quantized, by index; null for inputs that
  /// are not quantized.
  SmallVector<QuantizedAttr, 0> operands;
  /// The accumulator that the decision models; null for none.
  AccumulationAttr accumulation;
  /// For each input, whether it is read in f32 or as integers whatever the
  /// decision says. Missing entries are false.
  SmallVector<bool, 2> isWide;
  /// The ranks of the inputs; -1 if unknown.
  SmallVector<int64_t, 2> ranks;
  /// The saved format of the only output.
  SavedFormat saved;
  /// The input that the first output equals, as for Identity; empty for other
  /// nodes.
  std::string same;
  /// Whether the node belongs to the backward pass, which reads saved values.
  bool isBackward = false;
  /// Whether the node only moves elements, so that results of rounded operands
  /// are rounded; and whether it moves all of them, so that their largest
  /// magnitude is the same.
  bool isMovement = false, movesAll = false;
  /// The rule that decided; written to the node's metadata.
  std::string rule;
};

/// A loss scale for gradients: a power of two, which grows and shrinks if
/// `isDynamic`.
struct GradientScale {
  double init = 65536.0, growth = 2.0, backoff = 0.5;
  int64_t interval = 2000;
  bool isDynamic = false;
  /// Whether a graph that is a whole training step keeps the scale as state: an
  /// optional input with the default `init`, and an output.
  bool isStateOfSteps = false;
  /// Why this scale was chosen, for reports.
  std::string reason;
};

/// The type of the inputs and outputs whose names match a glob.
struct PortType {
  std::string glob;
  FloatType type;
};

struct ConvertOptions {
  /// New types of f32 inputs and outputs; others keep their types. A glob that
  /// matches nothing is an error.
  std::vector<PortType> ports;
  /// The scale of f16 gradients; nothing if gradients are not scaled.
  std::optional<GradientScale> scale;
  /// The output that is the loss; if empty, "loss".
  std::string lossOutput;
  /// The name of the policy; written to the file's metadata.
  std::string policy;
  /// Accept external data in files that have several hard links.
  bool allowHardLinks = false;
};

/// What a conversion wrote.
struct ConvertReport {
  int64_t nodes = 0, casts = 0;
  int64_t narrow = 0;  ///< Nodes that compute in a narrow format.
  int64_t tensors = 0; ///< Stored tensors in another format.
  int64_t scaled = 0;  ///< Nodes that compute scaled gradients.
  /// The scale of gradients, the reason for it, and whether the graph updates
  /// it.
  double scale = 1.0;
  std::string scaleReason;
  bool hasDynamicScale = false;
  /// Decisions that the operator set cannot express, with what was done
  /// instead.
  std::vector<std::string> limits;
  /// Settings that runtimes need to run the model.
  std::vector<std::string> notes;
  std::string data; ///< The file of external data; empty if there is none.
  /// After an error, the exit code for the process.
  int exitCode = ::binade::ExitCode::Rejected;
};

/// Returns the nodes of the backward pass of a model: those on which the loss
/// does not depend. No node if the model has no output with the name of the
/// loss.
llvm::BitVector findBackwardNodes(const ::onnx::ModelProto &model,
                                  StringRef lossOutput);

/// An ONNX model and the formats to convert it to.
struct ConvertedModel {
  /// The model's file; external data are relative to its directory.
  std::string path;
  std::shared_ptr<::onnx::ModelProto> model;
  /// `model` with inferred types and without data; null if inference was not
  /// needed or failed.
  std::shared_ptr<const ::onnx::ModelProto> inferred;
  /// The formats of each node, followed by those of nodes in its subgraphs. If
  /// empty, the model is not changed.
  std::vector<NodeFormats> formats;
};

/// Converts `model` in place and writes it to `output`. Nodes keep their names
/// and order; casts are inserted where formats differ. Weights that all nodes
/// read in one narrow format are stored in it; all external data are written to
/// `output`.data.
///
/// Errors are reported as diagnostics; nothing is written then.
LogicalResult convertOnnx(const ConvertedModel &model,
                          const ConvertOptions &options, StringRef output,
                          MLIRContext *context, ConvertReport &report);

} // namespace mlir::binade

#endif // BINADE_CONVERTONNX_CONVERT_H
