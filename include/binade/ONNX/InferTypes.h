//===- InferTypes.h - Types that follow from a file -------------*- C++ -*-===//

#ifndef BINADE_ONNX_INFERTYPES_H
#define BINADE_ONNX_INFERTYPES_H

#include <memory>

namespace onnx {
class ModelProto;
} // namespace onnx

namespace mlir::binade {

/// Returns a copy of `model` whose graphs, at any depth, say in `value_info`
/// what ONNX's inference finds of types and shapes: behind ops without a
/// counterpart in Binade, branches, loops and sequences. The copy has the same
/// nodes in the same order, but no data of large tensors.
///
/// A node that is wrong has no types; this reports no errors. Null where the
/// inference itself fails.
std::shared_ptr<const ::onnx::ModelProto>
inferTypes(const ::onnx::ModelProto &model);

} // namespace mlir::binade

#endif // BINADE_ONNX_INFERTYPES_H
