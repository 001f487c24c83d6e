//===- Boundaries.h - Formats of what branches and loops carry --*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_BOUNDARIES_H
#define BINADE_LIB_CONVERTONNX_BOUNDARIES_H

#include "Formats.h"

namespace mlir::binade::convert {

/// Chooses the types of what `If` returns and of what `Loop` and `Scan` carry,
/// read element by element and stack. All names that one value has at such a
/// boundary have one type: that of `If` and the results of its branches; or a
/// state's first value, what the body reads and makes, and the last one.
///
/// It is narrow where all that make the value round it to one narrow type, or
/// all that read it do: then no number is another one than with f32 between.
/// `outside` are values of the main graph that are read as f32.
void chooseBoundaries(PlannedGraph &graph, const llvm::StringSet<> &outside,
                      const OperatorSets &sets);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_BOUNDARIES_H
