//===- Sums.h - In what ONNX's ops sum --------------------------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_SUMS_H
#define BINADE_LIB_EXPORT_SUMS_H

#include "binade/IR/OnnxSchemas.h"

namespace onnx {
class NodeProto;
} // namespace onnx

namespace mlir::binade::convert {

/// Whether the node sums or averages elements in the type that it computes in:
/// to sum wider, it has to compute wider. Sums of products are not meant, for
/// which runtimes take a wider accumulator, nor norms that have an attribute
/// for the type of their sums.
bool sumsInOwnType(const ::onnx::NodeProto &node, const OperatorSets &sets);

/// Whether an attribute says the format of all that the node computes beside
/// products, so that its operands may have the format of these.
bool followsProducts(const ::onnx::NodeProto &node);

/// Gives the node, which computes in fewer bits than f32, the attribute that
/// says that it sums in f32, if it has one and does not say anything there.
void setSumsWide(::onnx::NodeProto &node);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_SUMS_H
