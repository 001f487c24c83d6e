//===- Storage.h - Storage of values ----------------------------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_PLAN_STORAGE_H
#define BINADE_LIB_KERNELS_PLAN_STORAGE_H

#include "Ports.h"
#include "binade/IR/Movement.h"
#include "binade/Plan/Plan.h"

namespace mlir::binade {

/// Memory of one or more values. It is live from op `first` to op `last` in
/// execution order; persistent memory is always live.
struct Storage {
  uint64_t bytes = 0;
  ::binade::plan::Category category = ::binade::plan::Category::Workspace;
  bool persistent = false;
  unsigned first = 0, last = 0;
  uint64_t offset = 0;
  /// The parallel tile that has this memory once per slot, and the bytes from
  /// one slot to the next.
  Operation *tile = nullptr;
  uint64_t slot = 0;
  /// The place among tensors that are exchanged, from 1: these are adjacent, in
  /// this order. 0 for others.
  unsigned exchanged = 0;
  /// Larger sizes that scratch memory of a library takes where memory is free,
  /// in ascending order.
  std::vector<uint64_t> larger = {};
};

/// A copy at the end of a program, between the memory of two storages.
struct FinalCopy {
  std::string name; ///< Name of the result.
  RankedTensorType type;
  unsigned from, to;
};

/// Returns the value in `body`, of a tile, that is computed in the memory of
/// result `index`: the yielded value, or the base of which it is a view.
/// Returns null if the base is an argument or constant, or is in the memory of
/// another result; the result is then copied.
Value findYielded(Block &body, unsigned index);

/// The storage of every value of the programs. Arguments have their own; views
/// share that of their operand; a result with the role and name of an argument
/// takes the argument's once the old value is dead. The programs are executed
/// one after the other: the other ones share arguments and constants with
/// `@step`, and reuse the memory of its temporary values.
class StorageMap {
public:
  StorageMap(ArrayRef<Program> programs, const PlanOptions &options);

  unsigned of(Value value) const;
  const Storage &get(unsigned index) const { return storages[index]; }
  /// Adds memory that only `op` uses; `persistent` if it is read after the
  /// step.
  unsigned addScratch(uint64_t bytes, Operation *op,
                      ::binade::plan::Category category,
                      bool persistent = false);
  /// Lets `assignOffsets` enlarge scratch memory to one of the sizes `larger`,
  /// in ascending order. Scratch memory in a parallel tile stays as it is.
  void allowLarger(unsigned storage, std::vector<uint64_t> larger) {
    storages[storage].larger = std::move(larger);
  }
  /// Returns the number of iterations of `tile` that run in parallel; 0 if they
  /// run in sequence.
  int64_t getSlots(TileOp tile) const { return slots.lookup(tile); }
  /// Returns the storage of result `index` at the end of a program.
  unsigned ofResult(unsigned program, unsigned index) const {
    return ends[program].results[index];
  }
  /// Returns the copies at the end of a program, in order. They write results
  /// that could not be written in place to their arguments, and before that
  /// save values that are in such an argument and are read afterwards.
  ArrayRef<FinalCopy> getCopies(unsigned program) const {
    return ends[program].copies;
  }

  /// Assigns offsets: persistent storages first, with small ports together at
  /// the end, then the others of each program, largest first, each at the
  /// lowest offset that is free during its live range. Then scratch memory
  /// grows as far as the arena does not. Returns the size of the arena.
  uint64_t assignOffsets();

  /// Returns the bytes per category when most memory is live; their sum is
  /// `arenaBytes`.
  std::map<::binade::plan::Category, uint64_t>
  getLedger(uint64_t arenaBytes) const;

private:
  unsigned getPosition(Operation *op) const {
    return positions.lookup(op).first;
  }
  unsigned add(uint64_t bytes, ::binade::plan::Category category,
               bool persistent, unsigned position, TileOp around = {});
  int64_t getConcurrency(TileOp tile) const;
  bool mayRunInParallel(TileOp tile) const;
  TileOp findParallelAround(Operation *op) const;
  uint64_t pack(std::vector<unsigned> moving, uint64_t base);
  void grow(Storage &storage, uint64_t base, uint64_t top);
  void count(Block &block);
  void placeArguments(func::FuncOp step);
  void place(Block &block);
  void placeResults(Operation *op);
  void placeTile(TileOp tile);
  void placeInArguments(const Program &program);
  void placeExchanged(func::FuncOp function);
  void reuse(func::FuncOp function);
  void orderCopies(const Program &program);
  void categorize(func::FuncOp function);
  void keepScalars(const Program &program);

  /// How a program ends.
  struct End {
    SmallVector<unsigned> displaced; ///< Results not written in place.
    SmallVector<FinalCopy> copies;
    SmallVector<unsigned> results; ///< Storages of all results.
    unsigned position = 0;         ///< When its results have been read.
  };

  const PlanOptions &options;
  std::vector<Storage> storages;
  DenseMap<Value, unsigned> storageOf;
  /// The value whose memory, or a part of it, a value shares.
  DenseMap<Value, Value> aliases;
  DenseMap<Attribute, Value> constants;
  /// The positions at which an op begins and ends. These differ for ops with a
  /// region.
  DenseMap<Operation *, std::pair<unsigned, unsigned>> positions;
  DenseMap<Operation *, int64_t> slots; ///< Slots of parallel tiles.
  std::vector<End> ends;
  unsigned end = 1; ///< Arguments are defined at 0, before all ops.
};

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_PLAN_STORAGE_H
