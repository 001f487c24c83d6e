//===- Order.h - The nodes to import, producers first -----------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_ORDER_H
#define BINADE_LIB_IMPORT_ONNX_ORDER_H

#include "Model.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::binade::importer {

/// Numbers of the nodes that the graph's outputs depend on: producers before
/// their users, otherwise in the order of the file. Fails on cycles, names that
/// nothing defines and names that are defined twice.
FailureOr<SmallVector<unsigned>> sortNodes(const Model &model);

/// Names that these nodes or the graph's outputs read.
llvm::StringSet<> collectUsed(const Model &model, ArrayRef<unsigned> order);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_ORDER_H
