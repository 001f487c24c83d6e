//===- TileScales.h - Scales of an operand's tile ---------------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_CONTRACTION_TILESCALES_H
#define BINADE_LIB_TARGET_CUDA_CONTRACTION_TILESCALES_H

#include "Gather.h"

namespace mlir::binade {

/// The scales of a tile's entries, for terms that share them. Each is loaded
/// once.
class TileScales {
public:
  TileScales(Indices at, const Operand &scale, Value memory, Value first,
             Extent entries, int64_t tile, int64_t terms, Value term)
      : at(at), first(first), isOne(scale.entries.back().size % tile == 0),
        scales(at, scale, memory, at.constant(0), entries, {terms, terms}),
        term(scales.findTerm(term)) {}

  /// Returns the scale of the entry `further` after `entry` of the tile.
  Value load(Value entry, int64_t further) {
    Value &known = loaded[isOne ? std::pair(first, int64_t(0))
                                : std::pair(entry, further)];
    if (!known) {
      Value own = isOne ? first : at.add(first, at.add(entry, further));
      known = scales.load(scales.find(scales.findEntry(own), term), 1);
    }
    return known;
  }

private:
  Indices at;
  Value first; ///< First entry of the tile.
  bool isOne;  ///< Whether the whole tile shares a scale.
  Gather scales;
  Gather::Share term;
  llvm::SmallDenseMap<std::pair<Value, int64_t>, Value> loaded;
};

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_CONTRACTION_TILESCALES_H
