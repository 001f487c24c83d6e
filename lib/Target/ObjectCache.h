//===- ObjectCache.h - objects of kernels, kept on disk ---------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_OBJECTCACHE_H
#define BINADE_LIB_TARGET_OBJECTCACHE_H

#include "binade/Codegen/EmitKernel.h"
#include <optional>

namespace mlir::binade {

/// What a target made of one kernel.
struct EmittedCode {
  KernelInfo info;
  std::vector<std::string> parts; ///< As the target has them; bytes.
};

/// Files named by the hash of what they were made from, each with the hash of
/// its own bytes.
class ObjectCache {
public:
  /// An empty directory: no cache. Warns at `location` where the directory
  /// cannot be used.
  ObjectCache(StringRef directory, Location location);

  /// Nothing where there is no such entry, or a damaged one (with a warning).
  std::optional<EmittedCode> find(StringRef key) const;
  void insert(StringRef key, const EmittedCode &code) const;

private:
  std::string directory; ///< Empty where there is no cache.
  Location location;
};

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_OBJECTCACHE_H
