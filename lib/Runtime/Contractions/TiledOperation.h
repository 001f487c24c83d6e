//===- TiledOperation.h - Base class of tiled contractions ------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_CONTRACTIONS_TILEDOPERATION_H
#define BINADE_LIB_RUNTIME_CONTRACTIONS_TILEDOPERATION_H

#include "../Execution/Operation.h"
#include "Tile.h"

namespace binade {

inline std::int64_t roundUp(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

/// A contraction that is computed in tiles. Its scratch memory consists of a
/// part that all threads share, then a private part for each thread.
class TiledOperation : public Operation {
public:
  explicit TiledOperation(unsigned threads,
                          const tile::Kernels &kernels = tile::kernels())
      : kernels(kernels), threads(threads) {}

  std::uint64_t getScratchBytes() const override {
    return static_cast<std::uint64_t>(sharedFloats + threads * privateFloats) *
           sizeof(float);
  }
  void setScratch(std::byte *bytes) override {
    scratch = reinterpret_cast<float *>(bytes);
  }
  std::string getImplementation() const override {
    return "own " + std::string(kernels.name);
  }

protected:
  float *privateMemory(unsigned thread) const {
    return scratch + sharedFloats + thread * privateFloats;
  }

  const tile::Kernels &kernels;
  std::int64_t threads, sharedFloats = 0, privateFloats = 0;
  float *scratch = nullptr;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_CONTRACTIONS_TILEDOPERATION_H
