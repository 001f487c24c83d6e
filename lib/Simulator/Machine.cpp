//===- Machine.cpp - Threads, their registers and memory ------------------===//

#include "Machine.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr unsigned kByteBits = 44, kMemoryBits = 19;

uint64_t Place::pack() const {
  // A negative distance keeps its lowest bits.
  return uint64_t(isPrivate) << (kByteBits + kMemoryBits) |
         uint64_t(memory) << kByteBits |
         (byte & ((uint64_t(1) << kByteBits) - 1));
}

Place Place::unpack(uint64_t bits) {
  return {(bits >> (kByteBits + kMemoryBits)) != 0,
          static_cast<uint32_t>(bits >> kByteBits) & ((1u << kMemoryBits) - 1),
          bits & ((uint64_t(1) << kByteBits) - 1)};
}

Place Machine::resolve(Place place) {
  if (place.isPrivate || spansDevice != place.memory ||
      place.byte < memories[place.memory].size())
    return place;
  int64_t distance = llvm::SignExtend64<kByteBits>(place.byte);
  auto next = others.upper_bound(distance);
  if (next != others.begin()) {
    auto [begin, memory] = *std::prev(next);
    uint64_t byte = static_cast<uint64_t>(distance - begin);
    if (byte < memories[memory].size())
      return {/*isPrivate=*/false, memory, byte};
  }
  std::optional<SimulatedLaunch::Memory> found = launch.findOther(distance);
  if (!found)
    return place;
  auto memory = static_cast<uint32_t>(memories.size());
  memories.emplace_back(found->bytes,
                        reinterpret_cast<uintptr_t>(found->bytes.data()));
  others.emplace(found->begin, memory);
  return {/*isPrivate=*/false, memory,
          static_cast<uint64_t>(distance - found->begin)};
}

bool Machine::isAligned(const Thread &thread, Operation *op, Place place,
                        uint64_t alignment) {
  place = resolve(place);
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
  place = resolve(place);
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
