//===- Machine.cpp - Threads, their registers and memory ------------------===//

#include "Machine.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr unsigned kByteBits = 44, kMemoryBits = 19;

uint64_t Place::pack() const {
  return uint64_t(isPrivate) << (kByteBits + kMemoryBits) |
         uint64_t(memory) << kByteBits | byte;
}

Place Place::unpack(uint64_t bits) {
  return {(bits >> (kByteBits + kMemoryBits)) != 0,
          static_cast<uint32_t>(bits >> kByteBits) & ((1u << kMemoryBits) - 1),
          bits & ((uint64_t(1) << kByteBits) - 1)};
}

bool Machine::isAligned(const Thread &thread, Operation *op, Place place,
                        uint64_t alignment) {
  uint64_t first = place.isPrivate ? thread.memories[place.memory].address
                                   : memories[place.memory].getAddress();
  if ((first + place.byte) % alignment == 0)
    return true;
  std::string begin;
  if (uint64_t beyond = first % alignment)
    begin =
        (" of memory that starts " + Twine(beyond) + " bytes after a multiple")
            .str();
  fail(thread, op,
       "accesses byte " + Twine(place.byte) + begin +
           "; expected an address that is a multiple of " + Twine(alignment));
  return false;
}

char *Machine::access(Thread &thread, Operation *op, Place place, size_t count,
                      AccessKind access) {
  if (place.isPrivate) {
    std::vector<char> &bytes = thread.memories[place.memory].bytes;
    if (place.byte <= bytes.size() && count <= bytes.size() - place.byte)
      return bytes.data() + place.byte;
    fail(thread, op,
         "is out of bounds of private memory of " + Twine(bytes.size()) +
             " bytes");
    return nullptr;
  }
  SharedBytes &bytes = memories[place.memory];
  std::optional<std::string> wrong =
      bytes.check({block, thread.number, epoch}, place.byte, count, access);
  if (!wrong)
    return bytes.at(place.byte);
  fail(thread, op, *wrong);
  return nullptr;
}

void Machine::fail(const Thread &thread, Operation *op, const Twine &what) {
  if (!failed)
    op->emitOpError("of thread ")
        << thread.number << " of block " << block << " " << what;
  failed = true;
}
