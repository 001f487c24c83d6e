//===- Memory.h - what simulated threads read and write ---------*- C++ -*-===//

#ifndef BINADE_LIB_SIMULATOR_MEMORY_H
#define BINADE_LIB_SIMULATOR_MEMORY_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mlir::binade {

/// Who accesses memory, and behind how many barriers of its block.
struct Accessor {
  int32_t block, thread;
  uint32_t epoch;
};

/// An update reads and writes at once, whatever others do so.
enum class AccessKind : uint8_t { Read, Write, Update };

/// Memory that several threads see, with who was at each byte last.
class SharedBytes {
public:
  enum class Start { Known, Unknown };

  /// `bytes` belong to another, and hold values from the start. To a device
  /// they lie at `address`.
  SharedBytes(MutableArrayRef<char> bytes, uint64_t address);
  /// Memory of a block; nobody has written it.
  SharedBytes(size_t size, uint64_t address);
  /// The same for the next block.
  void forget();

  size_t size() const { return bytes.size(); }
  uint64_t getAddress() const { return address; }
  /// Nothing, or what is wrong with an access to [first, first + count).
  std::optional<std::string> check(const Accessor &who, uint64_t first,
                                   size_t count, AccessKind access);
  char *at(uint64_t first) { return bytes.data() + first; }

private:
  static constexpr int32_t kNobody = -1, kSeveral = -2;
  struct Visit {
    int32_t block = kNobody, thread = kNobody;
    uint32_t epoch = 0;
    bool isUpdate = false;
    /// Whether nothing orders this and what `who` does.
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
