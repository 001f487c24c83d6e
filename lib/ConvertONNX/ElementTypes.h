//===- ElementTypes.h - Element types of a graph's values -------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_ELEMENTTYPES_H
#define BINADE_LIB_CONVERTONNX_ELEMENTTYPES_H

#include "binade/ONNX/Schemas.h"
#include "llvm/ADT/StringMap.h"

namespace onnx {
class GraphProto;
class NodeProto;
} // namespace onnx

namespace mlir::binade::convert {

/// Returns the bits of an element of `type`, a TensorProto::DataType; 0 for
/// strings.
unsigned getElementBits(int32_t type);

/// Element types of a graph's values: those that the file declares, those that
/// were inferred, and those that follow from the schemas of ops. Values that
/// are not tensors, and undeclared results of unknown ops, have none.
class ElementTypes {
public:
  /// `inferred` is the same graph with more types, or null; `outer` has the
  /// types of the enclosing graph, or is null.
  ElementTypes(const ::onnx::GraphProto &graph, const OperatorSets &sets,
               const ::onnx::GraphProto *inferred, const ElementTypes *outer);

  /// Returns the TensorProto::DataType of a value; 0 if it is unknown.
  int32_t get(StringRef name) const {
    auto found = types.find(name);
    if (found != types.end())
      return found->second;
    return outer ? outer->get(name) : 0;
  }
  void set(StringRef name, int32_t type) { types[name] = type; }

private:
  void add(const ::onnx::GraphProto &graph);
  void infer(const ::onnx::NodeProto &node, const OperatorSets &sets);

  const ElementTypes *outer;
  llvm::StringMap<int32_t> types;
};

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_ELEMENTTYPES_H
