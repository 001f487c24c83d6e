//===- PackStorage.cpp - Offsets in the arena -----------------------------===//

#include "Storage.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::plan::Category;

static constexpr uint64_t kAlignment = 64;
/// Alignment of scratch memory, as cuBLASLt requires it.
static constexpr uint64_t kLibraryAlignment = 256;

/// Returns the order of persistent storages: small ports are adjacent, so that
/// one copy can transfer them.
static int getOrder(Category category) {
  switch (category) {
  case Category::Batch:
    return 1;
  case Category::Scalar:
    return 2;
  case Category::Workspace: // It begins with a status, a port.
    return 3;
  default:
    return 0;
  }
}

/// Gives each of `moving` the lowest offset from `base` that is free during its
/// live range, the largest first. Returns the end of the memory used.
uint64_t StorageMap::pack(std::vector<unsigned> moving, uint64_t base) {
  llvm::stable_sort(moving, [&](unsigned l, unsigned r) {
    return storages[l].bytes > storages[r].bytes;
  });
  struct Placed {
    uint64_t offset, end;
    unsigned first, last;
  };
  uint64_t top = base;
  std::vector<Placed> taken; // By offset.
  for (unsigned index : moving) {
    Storage &storage = storages[index];
    uint64_t alignment =
        storage.category == Category::Library ? kLibraryAlignment : kAlignment;
    uint64_t offset = llvm::alignTo(base, alignment);
    for (const Placed &other : taken) {
      if (other.offset >= offset + storage.bytes)
        break;
      if (other.first <= storage.last && storage.first <= other.last)
        offset = std::max(offset, llvm::alignTo(other.end, alignment));
    }
    storage.offset = offset;
    uint64_t end = offset + llvm::alignTo(storage.bytes, kAlignment);
    top = std::max(top, end);
    auto place = llvm::upper_bound(taken, offset,
                                   [](uint64_t offset, const Placed &other) {
                                     return offset < other.offset;
                                   });
    taken.insert(place, {offset, end, storage.first, storage.last});
  }
  return top;
}

/// Enlarges scratch memory to the largest size of `larger` that fits into a
/// range between `base` and `top` that is free while its op is executed, and
/// moves it there. Keeps it if none fits.
void StorageMap::grow(Storage &storage, uint64_t base, uint64_t top) {
  std::vector<std::pair<uint64_t, uint64_t>> taken = {{top, top}};
  for (const Storage &other : storages)
    if (&other != &storage && other.bytes && !other.persistent && !other.tile &&
        storage.first <= other.last && other.first <= storage.last)
      taken.emplace_back(other.offset, other.offset + other.bytes);
  llvm::sort(taken);
  uint64_t from = base, free = 0, offset = 0;
  for (auto [begin, end] : taken) {
    uint64_t start = llvm::alignTo(from, kLibraryAlignment);
    if (begin > start && begin - start > free) {
      free = begin - start;
      offset = start;
    }
    from = std::max(from, end);
  }
  for (uint64_t bytes : llvm::reverse(storage.larger))
    if (bytes <= free) {
      storage.bytes = bytes;
      storage.offset = offset;
      return;
    }
}

uint64_t StorageMap::assignOffsets() {
  // Values that moved into an argument leave their own storage unused.
  DenseSet<unsigned> used;
  for (auto [value, storage] : storageOf)
    used.insert(storage);
  std::vector<unsigned> persistent, moving;
  // Iterations of a parallel tile execute different ops at the same time, so
  // that storages in a tile share memory only within a slot.
  llvm::MapVector<Operation *, std::vector<unsigned>> inside;
  for (auto [index, storage] : llvm::enumerate(storages)) {
    bool isScratch = storage.first == storage.last && !used.contains(index);
    if (!used.contains(index) && !isScratch)
      storage.bytes = 0;
    if (storage.bytes == 0)
      continue;
    if (storage.tile) {
      inside[storage.tile].push_back(index);
    } else if (!storage.persistent) {
      moving.push_back(index);
    } else {
      persistent.push_back(index);
    }
  }
  llvm::stable_sort(persistent, [&](unsigned l, unsigned r) {
    auto key = [&](unsigned index) {
      const Storage &storage = storages[index];
      return std::pair(getOrder(storage.category), storage.exchanged);
    };
    return key(l) < key(r);
  });
  uint64_t top = 0;
  for (unsigned index : persistent) {
    storages[index].offset = top;
    top += llvm::alignTo(storages[index].bytes, kAlignment);
  }
  SmallVector<unsigned> frames;
  for (auto &[tile, members] : inside) {
    uint64_t slot = pack(members, 0);
    auto [begin, finish] = positions.lookup(tile);
    frames.push_back(add(slot * slots.lookup(tile), Category::Workspace,
                         /*persistent=*/false, begin));
    storages.back().last = finish;
    for (unsigned member : members)
      storages[member].slot = slot;
    moving.push_back(frames.back());
  }
  // The step is laid out as if it were the only program.
  uint64_t base = top;
  for (const End &end : ends) {
    auto later = llvm::partition(moving, [&](unsigned index) {
      return storages[index].first <= end.position;
    });
    top = std::max(top, pack({moving.begin(), later}, base));
    moving.erase(moving.begin(), later);
  }
  for (Storage &storage : storages)
    if (!storage.larger.empty() && !storage.tile)
      grow(storage, base, top);
  for (auto [frame, members] : llvm::zip(frames, inside))
    for (unsigned member : members.second)
      storages[member].offset += storages[frame].offset;
  return top;
}

std::map<Category, uint64_t> StorageMap::getLedger(uint64_t arenaBytes) const {
  std::vector<int64_t> change(end + 2, 0);
  for (const Storage &storage : storages)
    if (!storage.persistent && !storage.tile) {
      change[storage.first] += storage.bytes;
      change[storage.last + 1] -= storage.bytes;
    }
  unsigned fullest = 0;
  int64_t live = 0, most = 0;
  for (unsigned moment = 0; moment <= end; ++moment)
    if ((live += change[moment]) > most) {
      most = live;
      fullest = moment;
    }
  std::map<Category, uint64_t> ledger;
  uint64_t total = 0;
  for (const Storage &storage : storages)
    if (storage.bytes && !storage.tile &&
        (storage.persistent ||
         (storage.first <= fullest && fullest <= storage.last))) {
      ledger[storage.category] += storage.bytes;
      total += storage.bytes;
    }
  ledger[Category::Unused] = arenaBytes - total;
  return ledger;
}
