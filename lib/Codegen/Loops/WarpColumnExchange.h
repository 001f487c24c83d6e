//===- WarpColumnExchange.h - Loop over a warp's active columns -*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_WARPCOLUMNEXCHANGE_H
#define BINADE_LIB_CODEGEN_LOOPS_WARPCOLUMNEXCHANGE_H

#include "Emitter.h"

namespace mlir::binade {

/// On a GPU, emits `body` for those columns of [0, count) for which `holds` is
/// true, in order: `together` of them at a time while there are enough, then
/// one by one. Each thread of a warp evaluates `holds` for its own vectors of
/// columns, and all threads execute `body`. `count` must be a multiple of the
/// columns that the warp evaluates at once.
void forEachActive(Emitter &e, int64_t count, int64_t together,
                   llvm::function_ref<Value(const Offset &)> holds,
                   llvm::function_ref<void(ArrayRef<Offset>)> body);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_WARPCOLUMNEXCHANGE_H
