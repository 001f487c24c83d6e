//===- ElementTypes.h - Element types of a graph's values -------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_ELEMENTTYPES_H
#define BINADE_LIB_EXPORT_ELEMENTTYPES_H

#include "binade/IR/OnnxSchemas.h"
#include "llvm/ADT/StringMap.h"

namespace onnx {
class GraphProto;
class NodeProto;
} // namespace onnx

namespace mlir::binade::convert {

/// Of an element of a tensor of ONNX's type number `type`; 0 for strings.
unsigned getElementBits(int32_t type);

/// Element types of a graph's values: as the file says them, as they were
/// inferred, and as they follow from the schemas of ops. What is no tensor, and
/// what an unknown op makes without a word in the file, has none.
class ElementTypes {
public:
  /// `inferred` is the same graph with more types, or null; `outer` the types
  /// of the graph around, or null.
  ElementTypes(const ::onnx::GraphProto &graph, const OperatorSets &sets,
               const ::onnx::GraphProto *inferred, const ElementTypes *outer);

  /// ONNX's number; 0 where nothing is known.
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

#endif // BINADE_LIB_EXPORT_ELEMENTTYPES_H
