//===- Node.h - One ONNX node while its ops are built -----------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_NODE_H
#define BINADE_LIB_IMPORT_ONNX_NODE_H

#include "Graph.h"
#include "binade/IR/Build.h"
#include "binade/IR/Diagnostics.h"

namespace mlir::binade::importer {

/// What one node may have computed or written out at import: numbers, and ops.
inline constexpr int64_t kMaxNumbers = int64_t(1) << 23;
inline constexpr int64_t kMaxOps = int64_t(1) << 16;

/// What an import function sees: the node's inputs as values, its attributes
/// with their defaults, and a builder whose location names the node.
class Node {
public:
  /// `index` of its graph names a node that has no name.
  Node(Graph &graph, const ::onnx::NodeProto &proto, unsigned index);

  ImplicitLocOpBuilder b;
  Graph &graph;

  /// Behind the names of the nodes that it is inside of.
  const std::string &getName() const { return name; }

  int64_t getOpset() const { return graph.getModel().getOpset(); }
  /// About a node that ONNX does not allow.
  InFlightDiagnostic emitError() const { return mlir::emitError(loc); }
  /// About one that may be valid, but is not read.
  InFlightDiagnostic emitUnsupported() const {
    return mlir::binade::emitUnsupported(loc);
  }
  Location getErrorLoc() const { return loc; }

  //===--------------------------------------------------------------------===//
  // Inputs
  //===--------------------------------------------------------------------===//

  unsigned getNumInputs() const;
  bool hasInput(unsigned index) const;
  StringRef getInputName(unsigned index) const;
  /// Null for an input that the node leaves out.
  Value getInput(unsigned index) const;
  SmallVector<Value> getInputs() const;
  RankedTensorType getType(unsigned index) const;
  ArrayRef<int64_t> getShape(unsigned index) const {
    return getType(index).getShape();
  }
  int64_t getRank(unsigned index) const { return getType(index).getRank(); }
  Type getElement(unsigned index) const {
    return getType(index).getElementType();
  }
  bool hasFloats(unsigned index) const {
    return isa<FloatType>(getElement(index));
  }

  /// Tensor or sequence; nothing for an input that the node leaves out.
  NamedValue getNamedInput(unsigned index) const;
  /// The tensors of an input that is a sequence.
  FailureOr<ArrayRef<Value>> getSequence(unsigned index) const;

  /// Elements of an input that is a constant, else null.
  DenseElementsAttr getConstant(unsigned index) const;
  /// Fails unless an input is a constant; `what` names it in the error.
  LogicalResult requireConstant(unsigned index, StringRef what);
  /// Elements of an integer input that has to be a constant; `what` names it in
  /// the error.
  FailureOr<SmallVector<int64_t>> getIntegers(unsigned index, StringRef what);

  /// The same or, as in old opsets, those of an attribute called `name`; fails
  /// where there is neither.
  FailureOr<SmallVector<int64_t>> getGivenIntegers(unsigned index,
                                                   StringRef name);
  bool isGiven(unsigned index, StringRef name) {
    return hasInput(index) || hasAttribute(name);
  }

  /// The same of integers or of floats, which are rounded toward 0.
  FailureOr<SmallVector<int64_t>> getWholeNumbers(unsigned index,
                                                  StringRef what);

  /// `axis` counted from the front; an error unless it is within `rank`.
  FailureOr<int64_t> normalizeAxis(int64_t axis, int64_t rank);
  /// Sorted and without duplicates.
  FailureOr<SmallVector<int64_t>> normalizeAxes(ArrayRef<int64_t> axes,
                                                int64_t rank);

  /// Fails if `count` of `what` are above `most`: shapes of a small file are no
  /// reason to write out more than memory holds.
  LogicalResult checkCount(int64_t count, int64_t most, StringRef what) const;

  //===--------------------------------------------------------------------===//
  // Attributes: each that is read counts as understood. One of a wrong type has
  // its default, until `checkAttributes` refuses it
  //===--------------------------------------------------------------------===//

  const ::onnx::AttributeProto *findAttribute(StringRef name);
  bool hasAttribute(StringRef name) { return findAttribute(name); }
  int64_t getInt(StringRef name, int64_t byDefault);
  double getFloat(StringRef name, float byDefault);
  StringRef getString(StringRef name, StringRef byDefault);
  SmallVector<int64_t> getInts(StringRef name,
                               ArrayRef<int64_t> byDefault = {});
  SmallVector<double> getFloats(StringRef name);
  SmallVector<StringRef> getStrings(StringRef name);

  /// Fails if the node has an attribute that nothing read, or that is not what
  /// was read.
  LogicalResult checkAttributes();

  //===--------------------------------------------------------------------===//
  // Outputs
  //===--------------------------------------------------------------------===//

  unsigned getNumOutputs() const;
  bool hasOutput(unsigned index) const;
  StringRef getOutputName(unsigned index) const;
  void setOutput(unsigned index, Value value) {
    setOutput(index, NamedValue{value, std::nullopt});
  }
  void setOutput(unsigned index, NamedValue value);
  /// The only output that matters.
  LogicalResult setResult(Value value) {
    setOutput(0, value);
    return success();
  }
  /// Makes output 0 a sequence.
  LogicalResult setSequence(ArrayRef<Value> tensors) {
    setOutput(0, NamedValue{Value(), SmallVector<Value>(tensors)});
    return success();
  }
  /// Fails if any of the outputs from `first` on has a user.
  LogicalResult refuseOutputs(unsigned first, StringRef why);

  MutableArrayRef<NamedValue> getOutputs() { return outputs; }
  const ::onnx::NodeProto &getProto() const { return proto; }

private:
  /// The attribute if it has `type`, a number of AttributeProto::AttributeType.
  const ::onnx::AttributeProto *findTyped(StringRef name, int type);

  const ::onnx::NodeProto &proto;
  std::string name;
  Location loc;
  SmallVector<NamedValue> outputs;
  SmallVector<StringRef> understood;
  std::string wrongAttribute; ///< What is wrong with the first that is.
};

/// Elements of `value` where it is a constant whose elements are at hand.
DenseElementsAttr getElements(Value value);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_NODE_H
