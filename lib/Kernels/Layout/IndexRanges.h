//===- IndexRanges.h - which integers an input may hold ---------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_LAYOUT_INDEXRANGES_H
#define BINADE_LIB_KERNELS_LAYOUT_INDEXRANGES_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// The integers that every op accepts which reads `input`, an argument of
/// `@step`, unchanged: from the input itself, from views and from casts to
/// other integers, inside of kernels too. None where no op names rows or
/// classes by it, or where no integer would be accepted.
std::optional<IndexRange> findIndexRange(Value input);

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_LAYOUT_INDEXRANGES_H
