//===- Formats.h - Decisions as types of ONNX nodes -------------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_FORMATS_H
#define BINADE_LIB_CONVERTONNX_FORMATS_H

#include "Blocks.h"
#include "ElementTypes.h"
#include "binade/ConvertONNX/Convert.h"
#include "binade/ONNX/Subgraphs.h"
#include "binade/ONNX/UniqueNames.h"
#include "onnx-ml.pb.h"

namespace mlir::binade::convert {

/// Returns the TensorProto::DataType of a format; 0 if ONNX has none.
int32_t getOnnxType(Type format);
/// Returns the name of a format in the IR, such as "f16".
StringRef getFormatName(int32_t type);

/// The version of the standard's operator set that the model imports; 0 if it
/// imports none.
int64_t getStandardSet(const OperatorSets &sets);

/// The key in the metadata of a node; its value is the formats and the rule
/// that decided.
inline constexpr StringLiteral kPrecisionKey = "binade.precision";

struct PlannedGraph;

/// A node and the formats in which it will compute. A node without `letters` is
/// not changed.
struct PlannedNode {
  std::unique_ptr<::onnx::NodeProto> node;
  /// Its subgraphs, in the order of its attributes.
  std::vector<PlannedGraph> graphs;
  /// The inputs and outputs that change, by the letters of the schema.
  std::string letters;
  const OpSchema *schema = nullptr;
  /// The type of these inputs and outputs.
  int32_t compute = ::onnx::TensorProto::FLOAT;
  /// The type that operands are rounded to before, if it differs.
  int32_t operand = ::onnx::TensorProto::FLOAT;
  /// The type that readers of the result see.
  int32_t result = ::onnx::TensorProto::FLOAT;
  /// Whether the node is a contraction, such as a matmul or a convolution.
  bool isContraction = false;
  /// The formats to which inputs are quantized and from which they are
  /// dequantized; null for others.
  SmallVector<QuantizedInput, 0> operands;

  /// How the only output is saved for the backward pass: quantized, or rounded
  /// to a type. If both are unset, backward nodes read the value itself.
  QuantizedInput saved;
  int32_t savedType = ::onnx::TensorProto::UNDEFINED;
  /// The input that its first output is equal to; empty if there is none.
  std::string same;
  bool isBackward = false;
  /// Whether it only moves elements, and whether all of them.
  bool isMovement = false, movesAll = false;
  /// Whether its operand is dequantized, so that readers do not round the
  /// result.
  bool isDequantized = false;

  /// Types of values at boundaries of `If`, `Loop` and `Scan`, 0 for f32 (see
  /// Boundaries.h).
  SmallVector<int32_t, 0> carriedInputs, carriedOutputs;

  QuantizedInput getQuantized(unsigned input) const {
    return input < operands.size() ? operands[input] : QuantizedInput();
  }

  bool readsChosen(unsigned input) const {
    return isPlanned() && isChosen(schema->getInput(input));
  }
  bool makesChosen(unsigned output) const {
    return isPlanned() && isChosen(schema->getOutput(output));
  }
  bool isPlanned() const { return !letters.empty(); }
  bool isChosen(std::optional<char> letter) const {
    return letter && StringRef(letters).contains(*letter);
  }
  /// Returns the format in which the node reads an input; f32 if its type does
  /// not change.
  int32_t getRead(unsigned input) const {
    return readsChosen(input) && compute == operand
               ? compute
               : getCarried(carriedInputs, input);
  }
  static int32_t getCarried(ArrayRef<int32_t> types, unsigned place) {
    return place < types.size() && types[place]
               ? types[place]
               : int32_t(::onnx::TensorProto::FLOAT);
  }
  /// Whether an operand or a result is narrow.
  bool isNarrow() const {
    return isPlanned() && (operand != ::onnx::TensorProto::FLOAT ||
                           result != ::onnx::TensorProto::FLOAT);
  }
};

using PlannedNodes = std::vector<PlannedNode>;

/// A graph whose nodes were moved to `nodes`.
struct PlannedGraph {
  ::onnx::GraphProto *graph = nullptr;
  std::unique_ptr<ElementTypes> types;
  PlannedNodes nodes = {};
  /// Types of the inputs and outputs of a subgraph.
  llvm::StringMap<int32_t> carried = {};
};

/// The part of `formats` that applies to `node` as a whole.
NodeFormats getNodeFormats(const ::onnx::NodeProto &node,
                           const NodeFormats &formats);

/// Calls `visit` with each subgraph of `node` and the same subgraph of
/// `inferred`, which is the same node with inferred types or null.
void forEachInferredGraph(
    ::onnx::NodeProto &node, const ::onnx::NodeProto *inferred,
    llvm::function_ref<void(::onnx::GraphProto &, const ::onnx::GraphProto *)>
        visit);

/// Moves the nodes out of `graph` and its subgraphs, in topological order, and
/// plans them by `formats`, as far as the operator sets can express these.
/// `formats` has one entry per node, followed by those of its subgraphs; it may
/// be empty. Decisions that cannot be expressed are added to `limits`.
/// `inferred` is the same graph with more types, or null.
PlannedGraph planNodes(::onnx::GraphProto &graph,
                       const ::onnx::GraphProto *inferred,
                       ArrayRef<NodeFormats> formats, const OperatorSets &sets,
                       std::vector<std::string> &limits);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_FORMATS_H
