//===- ElementTypes.h - Element types of a graph's values -------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_ELEMENTTYPES_H
#define BINADE_LIB_EXPORT_ELEMENTTYPES_H

#include "Schemas.h"
#include "llvm/ADT/StringMap.h"

namespace onnx {
class GraphProto;
class NodeProto;
} // namespace onnx

namespace mlir::binade::convert {

/// Element types as the file says them, and as they follow from the schemas of
/// ops. What is no tensor, and what an unknown op makes without a word in the
/// file, has none.
class ElementTypes {
public:
  ElementTypes(const ::onnx::GraphProto &graph, const OperatorSets &sets);

  /// ONNX's number; 0 where nothing is known.
  int32_t get(StringRef name) const { return types.lookup(name); }
  void set(StringRef name, int32_t type) { types[name] = type; }

private:
  void infer(const ::onnx::NodeProto &node, const OperatorSets &sets);

  llvm::StringMap<int32_t> types;
};

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_ELEMENTTYPES_H
