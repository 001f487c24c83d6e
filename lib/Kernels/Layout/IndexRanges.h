//===- IndexRanges.h - Allowed integers of inputs ---------------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_LAYOUT_INDEXRANGES_H
#define BINADE_LIB_KERNELS_LAYOUT_INDEXRANGES_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Returns the integers that are valid for all ops that use `input`, an
/// argument of `@step`, as an index: directly, through views, and through casts
/// to other integer types, inside kernels too. Returns nothing if no op uses it
/// as an index, or if no integer is valid.
std::optional<IndexRange> findIndexRange(Value input);

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_LAYOUT_INDEXRANGES_H
