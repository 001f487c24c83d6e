//===- Storage.h - where values live ----------------------------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_PLAN_STORAGE_H
#define BINADE_LIB_KERNELS_PLAN_STORAGE_H

#include "Ports.h"
#include "binade/IR/Movement.h"
#include "binade/Plan/Plan.h"

namespace mlir::binade {

/// Memory of one or more values, live from step `first` to step `last` of the
/// schedule; what is persistent lives always.
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
};

/// A copy after everything else, between memory of two storages.
struct FinalCopy {
  std::string name; ///< Of the result that it is for.
  RankedTensorType type;
  unsigned from, to;
};

/// The value inside of `tile` that has the memory of result `index`: what is
/// yielded, or what it is a view of. Null where that is an argument or a
/// constant, or has the memory of another result: then it is copied.
Value findYielded(TileOp tile, unsigned index);

/// The storage of every value of the plan's programs: arguments in place, views
/// on their operand, results of the role and name of an argument on the
/// argument where its old value is not read any more. Programs follow each
/// other in time. Those beside the step have its arguments and constants, and
/// the others of their values where the step's were.
class StorageMap {
public:
  StorageMap(ArrayRef<Program> programs, const PlanOptions &options);

  unsigned of(Value value) const;
  const Storage &get(unsigned index) const { return storages[index]; }
  /// Adds memory that `op` needs and nothing else, `persistent` where somebody
  /// reads it after the step.
  unsigned addScratch(uint64_t bytes, Operation *op,
                      ::binade::plan::Category category,
                      bool persistent = false);
  /// How many iterations of `tile` run at the same time; 0 where they follow
  /// each other.
  int64_t getSlots(TileOp tile) const { return slots.lookup(tile); }
  /// Where result `index` of a program is after it.
  unsigned ofResult(unsigned program, unsigned index) const {
    return ends[program].results[index];
  }
  /// What is copied at the end of a program, in this order: results that could
  /// not be written in place, to their argument; before that, what lies in such
  /// an argument and is read afterwards.
  ArrayRef<FinalCopy> getCopies(unsigned program) const {
    return ends[program].copies;
  }

  /// Assigns offsets: what persists first, and of that small ports together
  /// and last, then the rest of each program, largest first, each at the lowest
  /// offset that is free while it lives.
  /// Returns the arena's size.
  uint64_t assignOffsets();

  /// Bytes per category at the fullest moment; their sum is `arenaBytes`.
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
  void count(Block &block);
  void placeArguments(func::FuncOp step);
  void place(Block &block);
  void placeResults(Operation *op);
  void placeTile(TileOp tile);
  void placeInArguments(const Program &program);
  void reuse(func::FuncOp function);
  void orderCopies(const Program &program);
  void categorize(func::FuncOp function);
  void keepNumbers(const Program &program);

  /// How a program ends.
  struct End {
    SmallVector<unsigned> displaced; ///< Results not written in place.
    SmallVector<FinalCopy> copies;
    SmallVector<unsigned> results; ///< Storages of all.
    unsigned position = 0;         ///< When its results have been read.
  };

  const PlanOptions &options;
  std::vector<Storage> storages;
  DenseMap<Value, unsigned> storageOf;
  /// The value whose memory, or a part of it, a value has.
  DenseMap<Value, Value> aliases;
  DenseMap<Attribute, Value> constants;
  /// When an op begins and when it ends: later, if it has a body.
  DenseMap<Operation *, std::pair<unsigned, unsigned>> positions;
  DenseMap<Operation *, int64_t> slots; ///< Of parallel tiles.
  std::vector<End> ends;
  unsigned end = 1; ///< Arguments are there before the first op, at 0.
  unsigned evaluationBegin =
      0; ///< When the step is over, and its results read.
};

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_PLAN_STORAGE_H
