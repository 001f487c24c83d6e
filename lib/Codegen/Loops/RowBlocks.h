//===- RowBlocks.h - Several rows of a thread at a time ---------*- C++ -*-===//
//
// Threads of a GPU that add rows load several of them before they add the
// first one, so that the loads are in flight at the same time.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_ROWBLOCKS_H
#define BINADE_LIB_CODEGEN_LOOPS_ROWBLOCKS_H

#include "Emitter.h"

namespace mlir::binade {

/// The rows of one iteration of a GPU's threads.
struct RowBlock {
  int64_t down = 1;  ///< Threads along the rows, as in the kernel's shape.
  int64_t count = 1; ///< Rows of a thread.
  /// Whether the number of all rows is a multiple of `down` * `count`.
  bool isWhole = false;
};

/// Emits a loop over rows [begin, end), with end <= `extent`, as
/// `Emitter::rows` does, in whose iterations a thread calls `load` for each of
/// its rows before it calls `body` for the first one. Each thread has elements
/// of its own in a row.
SmallVector<Value> forRowBlocks(Emitter &emitter, Value begin, Value end,
                                int64_t extent, ValueRange carried,
                                RowBlock block,
                                llvm::function_ref<void(const Offset &)> load,
                                Emitter::Columns body);

/// Loads the elements at `offset` that `needed` are computed from, of those
/// values for which `isWanted` is true.
void loadElements(Emitter &emitter, SmallVector<Value> needed,
                  const Offset &offset,
                  llvm::function_ref<bool(Value)> isWanted);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_ROWBLOCKS_H
