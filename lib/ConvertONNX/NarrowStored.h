//===- NarrowStored.h - Narrow formats of moved weights ---------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_NARROWSTORED_H
#define BINADE_LIB_CONVERTONNX_NARROWSTORED_H

#include "Formats.h"

namespace mlir::binade::convert {

/// Lets nodes of `graph` and its subgraphs that only move stored tensors, such
/// as the transpose of a weight before its matmul, compute in the format in
/// which all readers read the result. The result is the same, and the tensor
/// can then be stored in that format. Values in `outside` must keep their
/// types.
void narrowStoredMoves(PlannedGraph &graph, const llvm::StringSet<> &outside);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_NARROWSTORED_H
