//===- ParameterEditor.h - Adds parameters to an ONNX graph -----*- C++ -*-===//

#ifndef BINADE_LIB_ONNX_PARAMETEREDITOR_H
#define BINADE_LIB_ONNX_PARAMETEREDITOR_H

#include "binade/ONNX/Tensors.h"
#include "binade/ONNX/UniqueNames.h"

namespace mlir::binade {

/// An input of a node.
struct NodeInput {
  int node, input;
};

/// Adds parameters with the values of initializers, and makes nodes read them.
class ParameterEditor {
public:
  ParameterEditor(Model &model, TensorReader &reader);

  /// Returns the index of the initializer `name`, or nothing.
  std::optional<int> find(StringRef name) const;
  const ::onnx::TensorProto &get(int index) const;
  const ::onnx::NodeProto &getNode(int index) const;
  /// The number of nodes, without added ones.
  int countNodes() const { return numOriginalNodes; }
  /// Returns the initializer that `place` reads, or nothing.
  std::optional<int> findRead(NodeInput place) const;

  /// Makes `place` read the parameter `name`, which has the value of the
  /// initializer that `place` reads now and is added if there is none. Fails if
  /// there is one of another shape.
  LogicalResult readDirectly(NodeInput place, StringRef name);
  /// Makes `place` read the transpose of the parameter `name`: a matrix that is
  /// the transpose of the initializer that `place` reads now.
  LogicalResult readTransposed(NodeInput place, StringRef name);
  /// Returns the initializer of the file whose transpose has the elements of
  /// the matrix `index`, or nothing. Fails if elements cannot be read. If all
  /// elements of the matrix are equal, it may be a transpose by coincidence, so
  /// nothing is returned.
  FailureOr<std::optional<int>> findTransposed(int index);
  /// Whether initializer `index` is a matrix whose transpose has the shape and
  /// the elements of initializer `other`.
  FailureOr<bool> isTranspose(int index, int other);
  /// Whether all elements of the initializer `index` are equal.
  FailureOr<bool> isUniform(int index);
  /// Adds the initializer `name` with the value of initializer `index`.
  void addCopy(int index, StringRef name);
  FailureOr<std::vector<char>> readBytes(int index);
  /// Makes sure that there is an initializer `name` with the element type of
  /// `like`, this shape and these bytes. Fails if there is a different one.
  LogicalResult define(StringRef name, int like, ArrayRef<int64_t> shape,
                       StringRef bytes);
  /// Returns the name of an added initializer, a vector of integers.
  std::string addIntegers(ArrayRef<int64_t> values);
  /// Adds a node with one output that belongs to the module of node `like`.
  ::onnx::NodeProto &addNode(int like, StringRef op,
                             ArrayRef<std::string> inputs);
  /// Makes `place`, which reads an initializer, read `value`.
  void replace(NodeInput place, StringRef value);
  /// If `place` reads a matrix [1, 2n] whose second half is zero, makes it read
  /// the parameter `name`, a matrix [1, n] with the first half, and zeros.
  LogicalResult readFirstHalf(NodeInput place, StringRef name);
  /// Adds the vector `name` of `size` zeros, with the type of `like`, as the
  /// last input of `node`.
  void addZeroInput(int node, StringRef name, int64_t size, int like);
  /// Erases the nodes for which `isErased` holds. Call this before nodes are
  /// added.
  void eraseNodes(function_ref<bool(const ::onnx::NodeProto &)> isErased);
  /// Moves the added nodes to the front, because nodes are in execution order.
  void sortAddedNodes();

private:
  FailureOr<std::string> readTransposedBytes(int index);
  LogicalResult addTransposed(int index, StringRef name);
  LogicalResult checkShape(NodeInput place, StringRef name,
                           ArrayRef<int64_t> expected);

  Model &model;
  TensorReader &reader;
  UniqueNames names;
  llvm::StringMap<int> initializers;
  int numOriginalNodes, numOriginalInitializers;
  /// The initializers that `addIntegers` added.
  std::map<std::vector<int64_t>, std::string> integers;
  /// For each parameter, the value that is its transpose.
  llvm::StringMap<std::string> transposed;
};

} // namespace mlir::binade

#endif // BINADE_LIB_ONNX_PARAMETEREDITOR_H
