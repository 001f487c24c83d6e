//===- InferTypes.h - Types and shapes by ONNX's inference ------*- C++ -*-===//

#ifndef BINADE_ONNX_INFERTYPES_H
#define BINADE_ONNX_INFERTYPES_H

#include <memory>

namespace onnx {
class ModelProto;
} // namespace onnx

namespace mlir::binade {

/// Returns a copy of `model` with the types and shapes that ONNX's inference
/// finds in the `value_info` of its graphs, at any depth. The inference also
/// covers results of branches, loops, sequences and ops that Binade does not
/// import. The copy has the same nodes in the same order, but no data of large
/// tensors.
///
/// Results of invalid nodes get no types; this reports no errors. Returns null
/// if the inference itself fails.
std::shared_ptr<const ::onnx::ModelProto>
inferTypes(const ::onnx::ModelProto &model);

} // namespace mlir::binade

#endif // BINADE_ONNX_INFERTYPES_H
