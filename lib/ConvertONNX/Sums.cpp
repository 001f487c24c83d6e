//===- Sums.cpp - Accumulation formats of ONNX ops ------------------------===//

#include "Sums.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::binade::convert;
using ::onnx::NodeProto;

namespace {
/// When an op accumulates in the type of its operands.
enum class Sums {
  None,     ///< Never.
  Always,   ///< Always.
  Training, ///< With `training_mode`.
  Added,    ///< With the reduction `add`.
  Averaged, ///< Unless the mode is `max`.
  Old,      ///< In versions of the op without `stash_type`.
  Shown,    ///< If the probabilities are an output.
};
} // namespace

static Sums getSums(StringRef op) {
  return llvm::StringSwitch<Sums>(op)
      .Cases({"AveragePool",
              "Col2Im",
              "CumSum",
              "GlobalAveragePool",
              "GlobalLpPool",
              "InstanceNormalization",
              "LRN",
              "LogSoftmax",
              "LpNormalization",
              "LpPool",
              "Mean",
              "MeanVarianceNormalization",
              "ReduceL1",
              "ReduceL2",
              "ReduceLogSum",
              "ReduceLogSumExp",
              "ReduceMean",
              "ReduceSum",
              "ReduceSumSquare",
              "Softmax",
              "Sum"},
             Sums::Always)
      .Case("Attention", Sums::Shown)
      .Case("BatchNormalization", Sums::Training)
      .Cases({"ScatterElements", "ScatterND"}, Sums::Added)
      .Case("RoiAlign", Sums::Averaged)
      .Case("GroupNormalization", Sums::Old)
      .Default(Sums::None);
}

static const ::onnx::AttributeProto *findAttribute(const NodeProto &node,
                                                   StringRef name) {
  auto found = llvm::find_if(node.attribute(), [&](const auto &attribute) {
    return attribute.name() == name;
  });
  return found == node.attribute().end() ? nullptr : &*found;
}

bool mlir::binade::convert::sumsInOwnType(const NodeProto &node,
                                          const OperatorSets &sets) {
  if (!node.domain().empty() && node.domain() != "ai.onnx")
    return false;
  auto getString = [&](StringRef name) {
    const auto *attribute = findAttribute(node, name);
    return attribute ? StringRef(attribute->s()) : StringRef();
  };
  switch (getSums(node.op_type())) {
  case Sums::None:
    return false;
  case Sums::Always:
    return true;
  case Sums::Training: {
    const auto *mode = findAttribute(node, "training_mode");
    return mode && mode->i() != 0;
  }
  case Sums::Added:
    return getString("reduction") == "add";
  case Sums::Averaged:
    return getString("mode") != "max";
  case Sums::Shown:
    // With a softmax in f32, the probabilities would be f32, but their type is
    // that of the operands.
    return node.output_size() > 3 && !node.output(3).empty();
  case Sums::Old: {
    // Later versions accumulate in the type of `stash_type`, by default f32.
    const OpSchema *schema = findSchema("", node.op_type(), sets);
    return schema && schema->since < 21;
  }
  }
  llvm_unreachable("unknown kind");
}

bool mlir::binade::convert::followsMatmuls(const NodeProto &node) {
  return node.op_type() == "Attention" && node.domain().empty();
}

void mlir::binade::convert::setSumsWide(NodeProto &node) {
  static constexpr StringLiteral kName = "softmax_precision";
  if (!followsMatmuls(node) || findAttribute(node, kName))
    return;
  auto &attribute = *node.add_attribute();
  attribute.set_name(kName.str());
  attribute.set_type(::onnx::AttributeProto::INT);
  attribute.set_i(::onnx::TensorProto::FLOAT);
}
