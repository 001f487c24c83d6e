//===- Boundaries.h - Types at boundaries of subgraphs ----------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_BOUNDARIES_H
#define BINADE_LIB_CONVERTONNX_BOUNDARIES_H

#include "Formats.h"

namespace mlir::binade::convert {

/// Chooses the types of values that pass between a graph and a subgraph: the
/// results of `If`, and the carried, scanned and stacked values of `Loop` and
/// `Scan`. All names of such a value get one type: the result of `If` and of
/// its branches, or the initial value of a state, the input and output of the
/// body, and the final value.
///
/// The type is narrow if all producers of the value round it to one narrow
/// type, or if all its readers do; the results are then the same as with f32.
/// `outside` are values of the main graph that are read as f32.
void chooseBoundaries(PlannedGraph &graph, const llvm::StringSet<> &outside,
                      const OperatorSets &sets);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_BOUNDARIES_H
