//===- Memory.h - Memory of simulated threads -------------------*- C++ -*-===//

#ifndef BINADE_LIB_SIMULATOR_MEMORY_H
#define BINADE_LIB_SIMULATOR_MEMORY_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mlir::binade {

/// The thread that accesses memory, and the number of barriers before the
/// access.
struct Accessor {
  int32_t block, thread;
  uint32_t epoch;
};

/// An update reads and writes atomically.
enum class AccessKind : uint8_t { Read, Write, Update };

/// Memory that several threads access, with the last accesses to each byte.
class SharedBytes {
public:
  enum class Start { Known, Unknown };

  /// Uses `bytes` of the caller, which are initialized. A device has them at
  /// `address`.
  SharedBytes(MutableArrayRef<char> bytes, uint64_t address);
  /// Allocates uninitialized memory of a block.
  SharedBytes(size_t size, uint64_t address);
  /// Resets the memory for the next block.
  void forget();

  size_t size() const { return bytes.size(); }
  uint64_t getAddress() const { return address; }
  /// Returns an error message if an access to [first, first + count) is not
  /// valid.
  std::optional<std::string> check(const Accessor &who, uint64_t first,
                                   size_t count, AccessKind access);
  char *at(uint64_t first) { return bytes.data() + first; }

private:
  static constexpr int32_t kNoThread = -1, kSeveralThreads = -2;
  struct Visit {
    int32_t block = kNoThread, thread = kNoThread;
    uint32_t epoch = 0;
    bool isUpdate = false;
    /// Whether no barrier orders this access and the one of `who`.
    bool isUnordered(const Accessor &who, AccessKind access) const;
  };
  struct Byte {
    Visit write, read;
  };

  std::vector<char> own;
  MutableArrayRef<char> bytes;
  uint64_t address;
  std::vector<Byte> visits;
  bool isKnown;
};

} // namespace mlir::binade

#endif // BINADE_LIB_SIMULATOR_MEMORY_H
