//===- PlanEmitter.h - Emission of a plan from launches ---------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_PLAN_PLANEMITTER_H
#define BINADE_LIB_KERNELS_PLAN_PLANEMITTER_H

#include "Storage.h"
#include "binade/IR/ExchangeOps.h"

namespace mlir::binade {

/// Emits the records of a module's programs, op by op; see emitPlan.
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

  /// Returns the buffer of a value: its storage with the value's type.
  uint32_t getBuffer(Value value);
  uint32_t getBuffer(unsigned storage, RankedTensorType type);
  /// Returns the place of a value. Values in the body of a tile are in slices
  /// of buffers outside, or in buffers of their own.
  View getView(Value value);
  /// Returns the slice of `whole` that has the size of `piece` and advances
  /// with the innermost loop.
  View getPiece(Value whole, Value piece);
  /// Returns the slice of `whole` that has the size of `piece` and ends with
  /// it.
  View getRemainder(Value whole, Value piece);
  /// Returns the buffer of `zero`.
  uint32_t getZero();
  /// Returns `bytes` of a storage as a buffer of bytes.
  View getBytes(unsigned storage, uint64_t bytes);

  //===--------------------------------------------------------------------===//
  // Records
  //===--------------------------------------------------------------------===//

  /// Appends the records of `block` to `into`.
  LogicalResult emit(Block &block, std::vector<Record> &into);
  LogicalResult emit(Operation *op);
  LogicalResult emitLibraryCall(Operation *op);
  LogicalResult emitExchange(ExchangeOp op);
  LogicalResult emitExchangeAdd(ExchangeAddOp op);
  ::binade::plan::Exchange buildBucket(::binade::plan::Exchange::Action action,
                                       unsigned bucket, ValueRange tensors);
  /// Inserts `record` into the current list at `position`.
  void insertRecord(size_t position, Record record);
  void addScratch(Record &record, Operation *op);
  LogicalResult emitLaunch(LaunchOp op);
  void addWorkspace(LaunchOp op, ::binade::plan::Launch &launch,
                    const KernelShape &shape, bool isMultiTensor);
  LogicalResult emitTile(TileOp op);
  LogicalResult emitPieces(TileOp op, Block &body, std::vector<Record> &into,
                           function_ref<View(Value whole, Value piece)> place);
  void clear(Value sum);
  LogicalResult emitProgram(unsigned index, std::vector<Record> &into);
  void separateObservation();

  //===--------------------------------------------------------------------===//
  // Ports
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
  std::vector<uint32_t> growing; ///< Buffers of scratch memory that may grow.
  SmallVector<ConstantOp> constants;
  DenseSet<unsigned> constantStorages; ///< The storages of `constants`.
  /// Indices of the step's records that are not executed in every step,
  /// ascending.
  std::vector<size_t> observing;
  std::vector<Record> *records = nullptr; ///< The list to append to.
  /// The number of records when an op of a program had been emitted.
  DenseMap<Operation *, size_t> ends;
  /// Values of tiles' bodies that are in buffers from outside.
  DenseMap<Value, View> pieces;
  unsigned depth = 0;           ///< Number of tiles around the current op.
  bool isAlone = false;         ///< Whether one of them runs in parallel.
  std::optional<unsigned> zero; ///< Storage of an f32 with the value 0.
  /// Labels and workspaces of launches that report indices out of range.
  std::vector<std::pair<std::string, unsigned>> statuses;
};

/// Returns a label for a record: the op, the first node of the model, and the
/// number of further nodes. Without names of nodes, it has a line and column.
std::string describe(Operation *op, StringRef what);

/// Whether `op` is a matmul whose result is added to its output in memory.
bool isSummand(Operation *op);

/// Returns a copy of the dense elements of `from` to `to`.
::binade::plan::Copy buildCopy(::binade::plan::View from,
                               ::binade::plan::View to, RankedTensorType type);

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_PLAN_PLANEMITTER_H
