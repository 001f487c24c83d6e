//===- AmxTiles.h - The tile registers of AMX -------------------*- C++ -*-===//
//
// Included by files that are compiled for processors with AMX, inside of their
// `target` attribute.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_AMXTILES_H
#define BINADE_LIB_RUNTIME_EXECUTION_AMXTILES_H

#include <cstdint>
#include <immintrin.h>

namespace binade {

/// Rows of a tile, and 32-bit words of one of its rows.
inline constexpr std::int64_t kAmxRows = 16;

/// The thread's eight tiles of 16 rows of 64 bytes. A thread may use tiles
/// while it has such an object.
class AmxTiles {
public:
  AmxTiles() {
    Configuration configuration;
    for (int i = 0; i < 8; ++i) {
      configuration.rowBytes[i] = 64;
      configuration.rows[i] = kAmxRows;
    }
    _tile_loadconfig(&configuration);
  }
  ~AmxTiles() { _tile_release(); }
  AmxTiles(const AmxTiles &) = delete;

private:
  /// The operand of `ldtilecfg`.
  struct Configuration {
    std::uint8_t palette = 1, startRow = 0, reserved[14] = {};
    std::uint16_t rowBytes[16] = {};
    std::uint8_t rows[16] = {};
  };
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_AMXTILES_H
