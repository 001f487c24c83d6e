//===- Linear.cpp - Linearity of ONNX ops ---------------------------------===//

#include "Linear.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::binade::convert;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

namespace {
enum class Kind { None, First, All, Branches, Updates, Product, Biased };
} // namespace

static Kind getKind(StringRef op) {
  return llvm::StringSwitch<Kind>(op)
      // Elements are moved, summed or averaged.
      .Cases({"Cast",       "Div",       "Expand",
              "Flatten",    "Gather",    "GatherElements",
              "GatherND",   "Identity",  "Neg",
              "ReduceMean", "ReduceSum", "Reshape",
              "Slice",      "Split",     "Squeeze",
              "Tile",       "Transpose", "Unsqueeze",
              "CumSum",     "Trilu",     "GlobalAveragePool"},
             Kind::First)
      .Cases({"Add", "Sub", "Sum", "Mean", "Concat"}, Kind::All)
      .Case("Where", Kind::Branches)
      .Cases({"ScatterElements", "ScatterND"}, Kind::Updates)
      .Cases({"Mul", "MatMul", "Einsum"}, Kind::Product)
      .Cases({"Gemm", "Conv", "ConvTranspose"}, Kind::Biased)
      .Default(Kind::None);
}

static bool hasInput(const NodeProto &node, int index) {
  return index < node.input_size() && !node.input(index).empty();
}

/// Whether updates are added or replace elements.
static bool addsUpdates(const NodeProto &node) {
  return llvm::all_of(node.attribute(), [](const auto &attribute) {
    return attribute.name() != "reduction" || attribute.s() == "none" ||
           attribute.s() == "add";
  });
}

LinearInputs mlir::binade::convert::getLinearInputs(const NodeProto &node) {
  if (!node.domain().empty() && node.domain() != "ai.onnx")
    return {};
  switch (getKind(node.op_type())) {
  case Kind::None:
    return {};
  case Kind::First:
    return {{0}, false};
  case Kind::All:
    return {llvm::to_vector(llvm::seq<unsigned>(0, node.input_size())), false};
  case Kind::Branches:
    return {{1, 2}, false};
  case Kind::Updates:
    if (!addsUpdates(node))
      return {};
    return {{0, 2}, false};
  case Kind::Product:
    return {llvm::to_vector(llvm::seq<unsigned>(0, node.input_size())), true};
  case Kind::Biased:
    if (hasInput(node, 2))
      return {};
    return {{0, 1}, true};
  }
  llvm_unreachable("unknown kind");
}

bool mlir::binade::convert::contractsInputs(const NodeProto &node) {
  return node.op_type() == "MatMul" || getKind(node.op_type()) == Kind::Biased;
}

/// Whether all elements are in the message and are 0.
static bool isZero(const TensorProto &tensor) {
  if (tensor.data_type() != TensorProto::FLOAT ||
      tensor.data_location() == TensorProto::EXTERNAL)
    return false;
  return llvm::all_of(tensor.raw_data(), [](char byte) { return byte == 0; }) &&
         llvm::all_of(tensor.float_data(), [](float x) { return x == 0.0f; });
}

Zeros::Zeros(const ::onnx::GraphProto &graph, const PlannedNodes &nodes) {
  for (const TensorProto &tensor : graph.initializer())
    if (isZero(tensor))
      names.insert(tensor.name());
  for (const PlannedNode &planned : nodes) {
    const NodeProto &node = *planned.node;
    if (node.output().empty())
      continue;
    bool isFilled = node.op_type() == "ConstantOfShape";
    bool isConstant = isFilled || node.op_type() == "Constant";
    bool isMoved = node.op_type() == "Expand" || node.op_type() == "Reshape" ||
                   node.op_type() == "Unsqueeze";
    if (isMoved ? !node.input().empty() && contains(node.input(0))
                : isConstant && (isFilled || node.attribute_size() == 1) &&
                      llvm::all_of(node.attribute(), [](const auto &attribute) {
                        return attribute.name() == "value" &&
                               isZero(attribute.t());
                      }))
      names.insert(node.output(0));
  }
}
