//===- WarpColumnExchange.h - Column exchange in a warp ---------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_WARPCOLUMNEXCHANGE_H
#define BINADE_LIB_CODEGEN_LOOPS_WARPCOLUMNEXCHANGE_H

#include "Emitter.h"

namespace mlir::binade {

/// On a GPU: `body` for those of columns [0, count) for which `holds`, in their
/// order: `together` of them, as long as there are so many, then one at a time.
/// Threads of a warp ask for a vector of columns each; `body` is done by all of
/// them. `count` is a multiple of what they ask for at once.
void forEachActive(Emitter &e, int64_t count, int64_t together,
                   llvm::function_ref<Value(const Offset &)> holds,
                   llvm::function_ref<void(ArrayRef<Offset>)> body);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_WARPCOLUMNEXCHANGE_H
