//===- TorchExport.h - What PyTorch's exporter recorded ---------*- C++ -*-===//
// torch.onnx.export writes into the metadata of a graph which tensors of the
// module are parameters and buffers, and into those of each node the line of
// the traced program that the node computes.
//===----------------------------------------------------------------------===//

#ifndef BINADE_ONNX_TORCHEXPORT_H
#define BINADE_ONNX_TORCHEXPORT_H

#include "binade/ONNX/Model.h"
#include "llvm/ADT/StringSet.h"
#include <optional>

namespace mlir::binade {

/// A tensor of an exported module.
struct TorchTensor {
  bool isParameter = false; ///< A parameter; otherwise a buffer or a constant.
  std::string placeholder;  ///< Its name in the traced program: p_fc_weight.
  std::string target;       ///< Its name in the module: fc.weight.
};

/// The tensors of an exported module, in the module's order.
class TorchSignature {
public:
  /// Returns the signature that `torch.onnx.export(dynamo=True)` wrote into
  /// `graph`; nothing if there is none.
  static std::optional<TorchSignature> read(const ::onnx::GraphProto &graph);

  ArrayRef<TorchTensor> getTensors() const { return tensors; }
  /// Returns the tensor with this name in the module, or null.
  const TorchTensor *findTarget(StringRef name) const;
  /// Returns the tensor with this name in the traced program, or null.
  const TorchTensor *findPlaceholder(StringRef name) const;
  /// Whether an input or output of the module has this name in the traced
  /// program. Its name in the file may be another: torch.onnx.export takes
  /// `input_names` and `output_names`.
  bool isBoundary(StringRef name) const { return boundaries.contains(name); }

private:
  void add(bool isInput, StringRef kind, StringRef name, StringRef target);
  void parseLines(StringRef text);
  void parseRecords(StringRef text);

  std::vector<TorchTensor> tensors;
  llvm::StringMap<size_t> targets, placeholders;
  llvm::StringSet<> boundaries;
};

/// For each initializer that the exporter's optimizer computed from others, the
/// names of those.
using FoldedValues = llvm::StringMap<SmallVector<StringRef>>;

/// Returns what the exporter's optimizer recorded in `graph` about the
/// expressions that it folded into constants.
FoldedValues readFoldedValues(const ::onnx::GraphProto &graph);

/// Whether PyTorch's TorchScript exporter wrote the model, which records no
/// signature and names nodes like paths: "/encoder/fc/MatMul".
bool isTorchScript(const ::onnx::ModelProto &model);

/// A line of the traced program, such as
///
///     %e : [num_users=1] = call_function[target=torch.ops.aten.embedding
///         .default](args = (%p_weight, %tokens, 1), kwargs = {})
struct TorchCall {
  StringRef result;    ///< "e"
  StringRef op;        ///< "embedding.default"; empty unless it is an ATen op.
  StringRef arguments; ///< "%p_weight, %tokens, 1"
  unsigned users = 0;  ///< Number of lines that read the result.

  /// Returns the arguments, split at the commas that are not in brackets.
  SmallVector<StringRef> split() const;
  /// Returns the names of the values that are arguments, such as "p_weight".
  SmallVector<StringRef> getValues() const;
};

/// Returns "linear" of "linear_1": PyTorch names the values of a traced program
/// by their functions.
StringRef getTracedFunction(StringRef value);

/// Returns the value of `key` in the metadata of `node`; empty without one.
StringRef findMetadata(const ::onnx::NodeProto &node, StringRef key);

/// Returns the line of the traced program that `node` computes, or computes a
/// part of; its fields are empty if the metadata name none.
TorchCall getTorchCall(const ::onnx::NodeProto &node);

/// The nodes that compute one line of the traced program.
struct TorchCallNodes {
  TorchCall call;
  SmallVector<int> nodes; ///< Indices, in order.
};

/// Returns the lines of the traced program that nodes of `graph` compute, in
/// the order of their first nodes.
std::vector<TorchCallNodes> groupTorchCalls(const ::onnx::GraphProto &graph);

/// Returns the parameters of embeddings and linear layers of `graph` that are
/// tied to others, with the names of those: the traced program reads a tied
/// parameter by one of its names in all modules.
llvm::StringMap<std::string>
findTiedParameters(const ::onnx::GraphProto &graph,
                   const TorchSignature &signature);

/// Returns the path of the module that `node` belongs to, such as
/// "encoder.layers.1.linear1", from the metadata of `torch.onnx.export` or from
/// a node name in the form of its TorchScript exporter; the outermost module
/// has an empty path. Returns nothing for nodes of other exporters.
std::optional<std::string> getModulePath(const ::onnx::NodeProto &node);

} // namespace mlir::binade

#endif // BINADE_ONNX_TORCHEXPORT_H
