//===- ObjectCache.h - Cache of compiled kernels ----------------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_OBJECTCACHE_H
#define BINADE_LIB_TARGET_OBJECTCACHE_H

#include "binade/Codegen/EmitKernel.h"
#include <optional>

namespace mlir::binade {

/// The code that a target generated for one kernel.
struct EmittedCode {
  KernelInfo info;
  std::vector<std::string> parts; ///< Bytes, as the target defines them.
};

/// A directory of files. A file's name is the hash of what its code was
/// generated from, and the file contains the hash of its own bytes.
class ObjectCache {
public:
  /// An empty `directory` disables the cache. Warns at `location` if the
  /// directory cannot be used.
  ObjectCache(StringRef directory, Location location);

  /// Returns nothing if there is no entry, or if it is damaged (with a
  /// warning).
  std::optional<EmittedCode> find(StringRef key) const;
  void insert(StringRef key, const EmittedCode &code) const;

private:
  std::string directory; ///< Empty: no cache.
  Location location;
};

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_OBJECTCACHE_H
