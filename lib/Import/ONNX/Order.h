//===- Order.h - The nodes to import, producers first -----------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_ORDER_H
#define BINADE_LIB_IMPORT_ONNX_ORDER_H

#include "Model.h"

namespace mlir::binade::importer {

/// Numbers of the nodes that the graph's outputs depend on: producers before
/// their users, otherwise in the order of the file. Fails on cycles, names that
/// nothing defines and names that are defined twice.
FailureOr<SmallVector<unsigned>> sortNodes(const Model &model);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_ORDER_H
