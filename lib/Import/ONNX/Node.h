//===- Node.h - One ONNX node during its import -----------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_NODE_H
#define BINADE_LIB_IMPORT_ONNX_NODE_H

#include "Graph.h"
#include "binade/IR/Build.h"
#include "binade/IR/Diagnostics.h"

namespace mlir::binade::importer {

/// The maximum numbers of constant elements and of ops that the import of one
/// node may create.
inline constexpr int64_t kMaxNumbers = int64_t(1) << 23;
inline constexpr int64_t kMaxOps = int64_t(1) << 16;

/// The argument of import functions: a node with its inputs as values, its
/// attributes with their defaults, and a builder whose location names the node.
class Node {
public:
  /// `index` is the node's index in its graph.
  Node(Graph &graph, const ::onnx::NodeProto &proto, unsigned index);

  ImplicitLocOpBuilder b;
  Graph &graph;

  /// The node's name, prefixed by those of the nodes in whose subgraphs it is.
  const std::string &getName() const { return name; }

  int64_t getOpset() const { return graph.getModel().getOpset(); }
  /// Reports a node that is not valid ONNX.
  InFlightDiagnostic emitError() const { return mlir::emitError(loc); }
  /// Reports a node that may be valid, but is not supported.
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
  /// Returns an input; null if the node leaves it out.
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

  /// Returns an input that is a tensor or a sequence; a value that is neither
  /// if the node leaves it out.
  NamedValue getNamedInput(unsigned index) const;
  /// Returns the tensors of an input; fails unless it is a sequence.
  FailureOr<ArrayRef<Value>> getSequence(unsigned index) const;

  /// Returns the elements of an input that is a constant; otherwise null.
  DenseElementsAttr getConstant(unsigned index) const;
  /// Fails unless an input is a constant; `what` names it in the error.
  LogicalResult requireConstant(unsigned index, StringRef what);
  /// Returns the elements of an input; fails unless they are constant integers.
  /// `what` names the input in the error.
  FailureOr<SmallVector<int64_t>> getIntegers(unsigned index, StringRef what);

  /// Returns the elements of input `index` or, if there is none, as in old
  /// opsets, of attribute `name`. Fails if both are missing.
  FailureOr<SmallVector<int64_t>> getGivenIntegers(unsigned index,
                                                   StringRef name);
  bool isGiven(unsigned index, StringRef name) {
    return hasInput(index) || hasAttribute(name);
  }

  /// Returns the elements of an input as `getIntegers`, but also allows floats,
  /// which are rounded toward 0.
  FailureOr<SmallVector<int64_t>> getWholeNumbers(unsigned index,
                                                  StringRef what);

  /// Returns `axis` counted from the front; fails unless it is within `rank`.
  FailureOr<int64_t> normalizeAxis(int64_t axis, int64_t rank);
  /// Returns normalized axes in ascending order; fails on duplicates.
  FailureOr<SmallVector<int64_t>> normalizeAxes(ArrayRef<int64_t> axes,
                                                int64_t rank);

  /// Fails if `count` of `what` exceeds `most`. A small file could otherwise
  /// request constants or ops that exceed memory.
  LogicalResult checkCount(int64_t count, int64_t most, StringRef what) const;

  //===--------------------------------------------------------------------===//
  // Attributes. Reading an attribute marks it as understood. An attribute of a
  // wrong type has its default value until `checkAttributes` reports it
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

  /// Fails if the node has an attribute that was not read, or one of another
  /// type than it was read as.
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
  /// Sets output 0, for ops whose other outputs are not used.
  LogicalResult setResult(Value value) {
    setOutput(0, value);
    return success();
  }
  /// Sets output 0 to a sequence.
  LogicalResult setSequence(ArrayRef<Value> tensors) {
    setOutput(0, NamedValue{Value(), SmallVector<Value>(tensors)});
    return success();
  }
  /// Fails if any output from `first` on is used; `why` is part of the error.
  LogicalResult refuseOutputs(unsigned first, StringRef why);

  MutableArrayRef<NamedValue> getOutputs() { return outputs; }
  const ::onnx::NodeProto &getProto() const { return proto; }

private:
  /// Returns attribute `name` if its type is `type`, an
  /// AttributeProto::AttributeType; null if it is missing or of another type.
  const ::onnx::AttributeProto *findTyped(StringRef name, int type);

  const ::onnx::NodeProto &proto;
  std::string name;
  Location loc;
  SmallVector<NamedValue> outputs;
  SmallVector<StringRef> understood;
  /// An error about the first attribute that has a wrong type or value.
  std::string wrongAttribute;
};

/// Returns the elements of `value` if it is a constant with elements in the IR
/// (not in a file); otherwise null.
DenseElementsAttr getElements(Value value);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_NODE_H
