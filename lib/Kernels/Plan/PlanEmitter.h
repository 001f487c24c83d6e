//===- PlanEmitter.h - from launches to a plan ------------------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_PLAN_PLANEMITTER_H
#define BINADE_LIB_KERNELS_PLAN_PLANEMITTER_H

#include "Storage.h"

namespace mlir::binade {

/// Writes down what a module's programs do, op by op; see emitPlan.
class PlanEmitter {
public:
  PlanEmitter(ArrayRef<Program> programs, const PlanOptions &options)
      : programs(programs), step(programs.front().function), options(options),
        storages(programs, options) {}

  FailureOr<EmittedPlan> run();

private:
  using View = ::binade::plan::View;
  using Record = ::binade::plan::Record;

  ::binade::Plan &plan() { return result.plan; }

  //===--------------------------------------------------------------------===//
  // Buffers
  //===--------------------------------------------------------------------===//

  /// The buffer of a value: its storage under the value's type.
  uint32_t getBuffer(Value value);
  uint32_t getBuffer(unsigned storage, RankedTensorType type);
  /// The place of a value. Values of a tile's body lie in pieces of buffers
  /// outside, or in buffers of their own.
  View getView(Value value);
  /// The part of `whole` that is as long as `piece` and moves with the
  /// innermost loop.
  View getPiece(Value whole, Value piece);
  /// The buffer of `zero`.
  uint32_t getZero();
  /// `bytes` of a storage as bytes.
  View getBytes(unsigned storage, uint64_t bytes);

  //===--------------------------------------------------------------------===//
  // Records
  //===--------------------------------------------------------------------===//

  /// Appends what `block` does to `into`.
  LogicalResult emit(Block &block, std::vector<Record> &into);
  LogicalResult emit(Operation *op);
  LogicalResult emitLibraryCall(Operation *op);
  void addScratch(Record &record, Operation *op);
  LogicalResult emitLaunch(LaunchOp op);
  void addWorkspace(LaunchOp op, ::binade::plan::Launch &launch,
                    const KernelShape &shape, bool overMany);
  LogicalResult emitTile(TileOp op);
  void clear(Value sum);
  LogicalResult emitProgram(unsigned index, std::vector<Record> &into);
  void separateObservation();

  //===--------------------------------------------------------------------===//
  // Ports and the whole
  //===--------------------------------------------------------------------===//

  void addPorts();
  void addArgumentPorts();
  void addResultPorts(unsigned program);
  void addPort(::binade::plan::Role role, StringRef name, Value value,
               ::binade::plan::Init init);
  void addPort(::binade::plan::Role role, StringRef name, uint32_t buffer,
               ::binade::plan::Init init);
  void finish();
  LogicalResult checkPolicy();

  ArrayRef<Program> programs;
  func::FuncOp step;
  const PlanOptions &options;
  StorageMap storages;
  EmittedPlan result;
  DenseMap<std::pair<unsigned, Type>, uint32_t> buffers;
  std::vector<unsigned> storageOfBuffer;
  SmallVector<ConstantOp> constants;
  DenseSet<unsigned> constantStorages; ///< Those of these.
  /// Of the step's records those that are not executed in each, ascending.
  std::vector<size_t> observing;
  std::vector<Record> *records = nullptr; ///< Where to append.
  /// Values of tiles' bodies that lie in buffers from outside.
  DenseMap<Value, View> pieces;
  unsigned depth = 0;           ///< Tiles around what is emitted.
  bool isAlone = false;         ///< One of them runs in parallel.
  std::optional<unsigned> zero; ///< Storage of one f32 that is 0.
  /// Labels and workspaces of launches that report indices out of range.
  std::vector<std::pair<std::string, unsigned>> statuses;
};

/// What a record is for, in a reader's words: op, first node, and how many more
/// nodes there are; a line and column where nodes have no names.
std::string describe(Operation *op, StringRef what);

/// Whether `op` is a product that is added to what is there already.
bool isSummand(Operation *op);

/// The dense elements from where `from` begins to where `to` begins.
::binade::plan::Copy buildCopy(::binade::plan::View from,
                               ::binade::plan::View to, RankedTensorType type);

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_PLAN_PLANEMITTER_H
