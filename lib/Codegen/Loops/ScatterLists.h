//===- ScatterLists.h - Indices sorted by parts of a table ------*- C++ -*-===//
//
// On a GPU, a scatter-add divides its table into parts of adjacent rows. Its
// first kernel lists the indices that select a row of each part, in their
// order, in the workspace. The list of a part begins after as many entries as
// there are indices of lower rows, so that no block of threads depends on
// another.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_SCATTERLISTS_H
#define BINADE_LIB_CODEGEN_LOOPS_SCATTERLISTS_H

#include "Emitter.h"

namespace mlir::binade {

/// The parts of a table, and the lists of their indices in the workspace.
struct ScatterLists {
  /// Threads of a block, which lists the indices of one part.
  static constexpr int64_t kThreads = 512;

  int64_t tokens; ///< Number of indices.
  int64_t rows;   ///< Of the table.
  int64_t partRows, parts;

  ScatterLists(int64_t tokens, int64_t rows);
  int64_t countEntries() const { return std::max<int64_t>(1, tokens); }
  /// Returns the size of the workspace.
  int64_t getBytes() const;
  /// Returns where the list of each part begins, then their lengths, as i32.
  Value viewBounds(Emitter &e) const;
  /// Returns the row in its part of each entry, as i32.
  Value viewRows(Emitter &e) const;
  /// Returns which index each entry is, as i32.
  Value viewTokens(Emitter &e) const;
  /// Emits the code of one block of threads, which lists the elements of
  /// `indices` that belong to `part`. Reports indices out of range. Without
  /// indices, emits nothing, and the bounds have no value.
  void emitPart(Emitter &e, Value indices, const Offset &part) const;
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_SCATTERLISTS_H
