//===- Extremes.cpp - Import of Max, Min and Clip -------------------------===//
//
// Several functions of PyTorch become one of these ops. Their gradients differ
// where both operands are equal: `maximum` shares the gradient, `clamp` passes
// it on, `hardtanh` gives 0.
//
//===----------------------------------------------------------------------===//

#include "Extremes.h"
#include "../OpTable.h"
#include "../TorchOp.h"
#include "Arithmetic.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Returns how the PyTorch function that the node comes from distributes the
/// gradient of equal operands; nothing if the function is not known.
static std::optional<Ties> getTies(const Node &node) {
  StringRef function = getTorchOp(node).split('.').first;
  if (function.starts_with("clamp"))
    return Ties::First;
  if (function == "maximum" || function == "minimum")
    return Ties::Share;
  return std::nullopt;
}

/// Nests binary ops from the left: of three equal operands, the first two get a
/// quarter of the gradient each.
template <typename Op> static LogicalResult importExtreme(Node &node) {
  FailureOr<SmallVector<Value>> values = broadcastInputs(node);
  if (failed(values))
    return failure();
  std::optional<Ties> ties = getTies(node);
  Value result = values->front();
  for (Value value : ArrayRef(*values).drop_front()) {
    result = Op::create(node.b, result, value);
    if (ties)
      setTies(result, *ties);
  }
  return node.setResult(result);
}

LogicalResult mlir::binade::importer::importMax(Node &node) {
  return importExtreme<MaxOp>(node);
}

LogicalResult mlir::binade::importer::importMin(Node &node) {
  return importExtreme<MinOp>(node);
}

//===----------------------------------------------------------------------===//
// Clip
//===----------------------------------------------------------------------===//

/// Returns the bounds of a Clip, broadcast to the shape of its operand; null
/// for a missing bound.
static FailureOr<std::array<Value, 2>> readBounds(Node &node) {
  std::array<Value, 2> bounds;
  if (node.getOpset() < 11) { // The default bounds of floats are finite.
    constexpr float kLargest = std::numeric_limits<float>::max();
    if (failed(requireFloats(node)))
      return failure();
    bounds[0] =
        buildSplat(node.b, node.getType(0), node.getFloat("min", -kLargest));
    bounds[1] =
        buildSplat(node.b, node.getType(0), node.getFloat("max", kLargest));
    return bounds;
  }
  for (unsigned index : {1u, 2u}) {
    if (!node.hasInput(index))
      continue;
    if (node.getRank(index) != 0 ||
        node.getElement(index) != node.getElement(0))
      return node.emitUnsupported()
             << "expected a bound of type "
             << node.getType(0).clone(ArrayRef<int64_t>()) << ", got "
             << node.getType(index);
    bounds[index - 1] =
        broadcastTo(node.b, node.getInput(index), node.getShape(0));
  }
  return bounds;
}

static bool isNumber(Value bound, double number) {
  auto splat = bound
                   ? dyn_cast_if_present<SplatElementsAttr>(getElements(bound))
                   : nullptr;
  return splat && isa<FloatType>(splat.getElementType()) &&
         splat.getSplatValue<APFloat>().isExactlyValue(number);
}

/// A Clip whose PyTorch function is not known counts as `clamp` or, with the
/// bounds 0 and 6, as `relu6`.
static Ties getTiesOfClip(const Node &node, std::array<Value, 2> bounds) {
  StringRef function = getTorchOp(node).split('.').first;
  if (function.empty())
    return isNumber(bounds[0], 0.0) && isNumber(bounds[1], 6.0) ? Ties::Flat
                                                                : Ties::First;
  return function == "hardtanh" || function == "relu6" ? Ties::Flat
                                                       : Ties::First;
}

LogicalResult mlir::binade::importer::importClip(Node &node) {
  FailureOr<std::array<Value, 2>> bounds = readBounds(node);
  if (failed(bounds))
    return failure();
  Value x = node.getInput(0);
  Ties ties = getTiesOfClip(node, *bounds);
  for (bool isLow : {true, false}) {
    Value bound = (*bounds)[isLow ? 0 : 1];
    if (!bound)
      continue;
    x = isLow ? Value(MaxOp::create(node.b, x, bound))
              : Value(MinOp::create(node.b, x, bound));
    // With a constant bound, the default is equivalent to Ties::First.
    if (ties != Ties::First || !isConstant(bound))
      setTies(x, ties);
  }
  return node.setResult(x);
}
