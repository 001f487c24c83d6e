//===- PlaceCasts.h - Casts where formats meet ------------------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_PLACECASTS_H
#define BINADE_LIB_CONVERTONNX_PLACECASTS_H

#include "Formats.h"
#include "Weights.h"

namespace mlir::binade::convert {

/// Gives the nodes back to their graphs, with casts between those that want
/// another format than what they read has. `ports` are the new element types of
/// the main graph's inputs and outputs, `outside` what of it has to keep its
/// own. Stored tensors that nodes read narrow get a new type in `stored`, by
/// name; their data are the caller's.
struct CastPlacement {
  UniqueNames &names;
  const llvm::StringMap<int32_t> &ports;
  const llvm::StringSet<> &outside;
};
void placeCasts(const CastPlacement &placement, PlannedGraph graph,
                StoredFormats &stored, ConvertReport &report);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_PLACECASTS_H
