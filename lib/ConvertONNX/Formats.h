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

/// ONNX's number of a format; 0 where it has none.
int32_t getOnnxType(Type format);
/// As the IR writes it, e.g. "f16".
StringRef getFormatName(int32_t type);

/// The version of the standard's operator set that the model imports; 0 if it
/// imports none.
int64_t getStandardSet(const OperatorSets &sets);

/// Key of what stands in the metadata of a node: its formats and their reason.
inline constexpr StringLiteral kPrecisionKey = "binade.precision";

struct PlannedGraph;

/// A node and the formats in which it is to compute. A node without `letters`
/// stays as the file has it.
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
  /// Whether it sums products.
  bool isProduct = false;
  /// What inputs are quantized to and read back from; null for others.
  SmallVector<QuantizedInput, 0> operands;

  /// What nodes of the backward part read of its only output: codes, or the
  /// value rounded to a type. Without both it is the value.
  QuantizedInput saved;
  int32_t waitingType = ::onnx::TensorProto::UNDEFINED;
  /// The input that its first output is equal to; empty if there is none.
  std::string same;
  bool isBackward = false;
  /// Whether it only moves elements, and whether all of them.
  bool isMovement = false, movesAll = false;
  /// Whether its result is dequantized, so that readers do not round it.
  bool makesDecoded = false;

  /// Types of what `If`, `Loop` and `Scan` carry, 0 for f32 (Boundaries.h).
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
  /// The format in which the node reads an input that changes; f32 for others.
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

/// A graph without its nodes, which are `nodes`.
struct PlannedGraph {
  ::onnx::GraphProto *graph = nullptr;
  std::unique_ptr<ElementTypes> types;
  PlannedNodes nodes = {};
  /// Types of its inputs and outputs, if it is one inside of a node.
  llvm::StringMap<int32_t> carried = {};
};

/// The part of `formats` that applies to `node` as a whole.
NodeFormats getNodeFormats(const ::onnx::NodeProto &node,
                           const NodeFormats &formats);

/// Calls `visit` with each graph that is an attribute of `node`, and with what
/// `inferred`, the same node or null, has there.
void forEachInferredGraph(
    ::onnx::NodeProto &node, const ::onnx::NodeProto *inferred,
    llvm::function_ref<void(::onnx::GraphProto &, const ::onnx::GraphProto *)>
        visit);

/// Takes the nodes of `graph` out of it and of the graphs inside of them, in an
/// order in which producers come before their readers, with what of `formats`
/// the operator sets can say. `formats` has one for each node, and after it
/// those of graphs inside; it may be empty. Other decisions become `limits`.
/// `inferred` is the same graph with more types, or null.
PlannedGraph planNodes(::onnx::GraphProto &graph,
                       const ::onnx::GraphProto *inferred,
                       ArrayRef<NodeFormats> formats, const OperatorSets &sets,
                       std::vector<std::string> &limits);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_FORMATS_H
