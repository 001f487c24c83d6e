//===- PlaceCasts.h - Placement of casts ------------------------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_PLACECASTS_H
#define BINADE_LIB_CONVERTONNX_PLACECASTS_H

#include "Formats.h"
#include "Weights.h"

namespace mlir::binade::convert {

/// The context of `placeCasts`: `ports` are the new element types of the main
/// graph's inputs and outputs, `outside` its values that must keep their types.
struct CastPlacement {
  UniqueNames &names;
  const llvm::StringMap<int32_t> &ports;
  const llvm::StringSet<> &outside;
};

/// Moves the planned nodes back into their graphs, with casts where a node
/// reads a value in another format than it has. Adds stored tensors that
/// become narrow to `stored`, by name; the caller converts their data.
void placeCasts(const CastPlacement &placement, PlannedGraph graph,
                StoredFormats &stored, ConvertReport &report);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_PLACECASTS_H
