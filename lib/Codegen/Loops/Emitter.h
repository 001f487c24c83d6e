//===- Emitter.h - Emission of one kernel's loops ---------------*- C++ -*-===//
//
// Emits the loops of one kernel. A schedule (Rows.cpp, Columns.cpp ...) opens
// loops and requests the values that it stores or reduces; `pull` emits the
// code for a value at an offset by following its definition back to loads. A
// value is computed in the outermost loop that it allows, and once per offset.
//
// Every element is rounded to the type that it has in the IR: a bf16 value is
// rounded to bf16 even if it is never stored.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_EMITTER_H
#define BINADE_LIB_CODEGEN_LOOPS_EMITTER_H

#include "../Lanes.h"
#include "Offset.h"
#include "binade/Codegen/EmitKernel.h"
#include "binade/IR/Movement.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::binade {

/// Lanes of a vector on a CPU. The number is fixed, so that sums do not depend
/// on the instruction set.
inline constexpr int64_t kLanes = 16;

/// Returns the type of an element between memory and arithmetic: integers are
/// signless (ops know the sign from the tensor type), and integers of 2 or 4
/// bits are extended to a byte.
Type getRegisterType(Type element);
/// Returns the element type of a buffer for `element`, which has whole bytes:
/// i1 is stored as the byte 0 or 1, and floats of fewer than 8 bits as their
/// bit pattern in a byte.
Type getStorageType(Type element);
/// Returns the type in which arithmetic on `element` is done: f32 for narrow
/// floats.
Type getComputeType(Type element);

/// An upper bound of the number of elements of any tensor.
inline constexpr int64_t kMany = int64_t(1) << 40;

/// Returns x and y; null means true.
Value conjunction(ImplicitLocOpBuilder &b, Value x, Value y);

/// A value, one element or one per lane, with the number of loops around it.
struct Element {
  Value value;
  unsigned depth = 0;
};

/// One access of a kernel to an operand or result. The accesses decide whether
/// a result may overwrite an operand.
struct Access {
  /// The element of the current iteration, the element of the current row, or
  /// any other.
  enum class Place { Element, Row, Other };
  Place place;
  unsigned pass;
  bool operator==(const Access &other) const {
    return place == other.place && pass == other.pass;
  }
};
using Accesses = llvm::DenseMap<unsigned, SmallVector<Access, 2>>;

/// A vector of a row that a thread of a GPU has.
struct RowVector {
  Offset column; ///< Of its lanes.
  Value exists;  ///< Whether the row is long enough; null: always.
};

/// Threads of a warp.
inline constexpr int64_t kWarp = 32;

/// How the threads of a GPU block divide the work items. All numbers are powers
/// of two.
struct GpuShape {
  int64_t threads = 256; ///< Per block.
  /// Threads per work item: `team` threads share a row, and `down` rows are
  /// processed at a time.
  int64_t team = 32, down = 1;
  int64_t lanes = 4; ///< Per vector.
  /// Whether this is a multi-tensor kernel, or one for several sets of operands
  /// (`kBatchedAttr`). It gets one memory, and a table with a row of i64 per
  /// block of threads: the byte offset of each buffer, then the bounds of the
  /// block's elements or work items.
  bool isMultiTensor = false;
  /// Whether the bounds are those of work items.
  bool isBatched = false;

  /// Returns the number of work items that a block of threads processes at a
  /// time.
  int64_t countItems() const { return threads / (team * down); }
  /// Returns the number of threads that share a group of `group` columns. It is
  /// rounded up to a power of two, as shuffles require.
  int64_t countThreadsOfGroup(int64_t group) const;
  /// Returns this shape for work items of `rows` rows of `columns` elements:
  /// one thread per vector of a row, up to a warp or, for long rows, a block;
  /// the other threads of the block process further rows at the same time.
  GpuShape fit(int64_t lanes, int64_t columns, int64_t rows) const;
  /// Returns the shape for one work item whose rows have a single element.
  GpuShape ofRows() const { return fit(1, 1, threads); }
};

/// Emits one function of a kernel. Schedules open loops with it and pull
/// values.
class Emitter {
public:
  /// Starts the function `name` in `module`, with one memory argument per type
  /// of `buffers` and with `numbers` indices. `kernel` contains the values that
  /// `pull` computes; its arguments are the first buffers, its results the
  /// next. `formulas` contains the functions that `kernel` refers to. With a
  /// `shape` the function is a GPU kernel, which takes no indices.
  Emitter(func::FuncOp kernel, ModuleOp formulas, ModuleOp module,
          StringRef name, TypeRange buffers, unsigned numbers,
          std::optional<GpuShape> shape = std::nullopt);

  ImplicitLocOpBuilder &builder() { return b; }
  OffsetSpace &offsets() { return space; }
  FunctionOpInterface function() const { return target; }
  bool isOnGpu() const { return shape.has_value(); }
  /// On a GPU: the thread's number in its block, and the number of warps per
  /// block.
  Value threadNumber() const { return thread; }
  int64_t countWarps() const { return shape->threads / kWarp; }
  func::FuncOp source() const { return kernel; }
  ArrayRef<Value> buffers() const { return memories; }
  Value buffer(unsigned index) const { return memories[index]; }
  Value resultBuffer(unsigned index);
  /// Returns the buffer that follows those of all operands and results.
  Value workspace();
  /// Returns the index argument `index`; these arguments follow the buffers.
  Value argument(unsigned index);

  //===--------------------------------------------------------------------===//
  // Loops
  //===--------------------------------------------------------------------===//

  using Body = llvm::function_ref<SmallVector<Value>(Value, ValueRange)>;
  using Columns =
      llvm::function_ref<SmallVector<Value>(const Offset &, ValueRange)>;

  /// Emits a loop over the work items of `extent` between the two index
  /// arguments. On a GPU, emits `body` for the work item of the thread's team.
  /// If there are fewer items than teams, the other teams skip `body`, or, if
  /// threads exchange values there, execute it for the last item without
  /// storing anything.
  void forItems(int64_t extent, llvm::function_ref<void(const Offset &)> body,
                bool exchangesValues = true);
  /// Whether some teams read the operands of another team's item.
  bool repeatsItems() const { return sharesItems; }
  /// Emits a loop over all of `extent`. On a GPU, emits `body` for the work
  /// item of the thread's team.
  void forAll(int64_t extent, llvm::function_ref<void(const Offset &)> body);
  /// Emits a loop over groups [0, count), with count <= `most`. A group has
  /// `size` columns, over which `body` iterates with `columns`.
  SmallVector<Value> groups(Value count, int64_t most, int64_t size,
                            ValueRange carried, Columns body);
  /// Emits a loop over [begin, end), whose iterations the threads of a team
  /// divide.
  void forEach(Value begin, Value end, llvm::function_ref<void(Value)> body);
  /// Emits a loop over rows [begin, end), with end <= `extent`. On a GPU, the
  /// threads of a team process several rows at a time.
  SmallVector<Value> rows(Value begin, Value end, int64_t extent,
                          ValueRange carried, Columns body);
  /// Emits `body` with `lanes` elements per thread, instead of elements that
  /// the threads of a team share.
  void perThread(int64_t lanes, llvm::function_ref<void()> body);
  /// Emits `body` such that only threads for which `exists` is true store. Null
  /// means true.
  void storing(Value exists, llvm::function_ref<void()> body);
  /// Combines the integers `own` of `count` adjacent threads of a warp by
  /// `kind`. Each of them gets the result.
  Value combineNeighbours(Value own, int64_t count, vector::CombiningKind kind);
  /// Returns the 32-bit value `own` of the thread `lane` of the warp.
  Value readLane(Value own, Value lane);
  /// Ends a pass over the elements. With `isForOthers`, a barrier lets other
  /// threads read what was stored.
  void endPass(bool isForOthers = true);
  /// Emits a barrier for the threads of the block; nothing on a CPU.
  void barrier();
  /// Combines `own` of all threads of the team that share an element. Each of
  /// them gets the result. `kind` is set if `combine` is a signed maximum or
  /// minimum of 32-bit integers, for which a warp has an instruction.
  Value combineThreads(Value own,
                       llvm::function_ref<Value(Value, Value)> combine,
                       std::optional<vector::CombiningKind> kind = {});
  /// Emits for (i = begin; i < end; i += step). `body` gets i and the carried
  /// values, and returns their next values.
  SmallVector<Value> loop(Value begin, Value end, int64_t step,
                          ValueRange carried, Body body);
  /// Emits a loop over columns [0, count) in vectors of `wholeLanes()`, the
  /// last one with fewer lanes. `body` gets the column of the lanes as an
  /// offset.
  SmallVector<Value> columns(int64_t count, ValueRange carried, Columns body);
  /// Does the same for [begin, begin + size), clipped to [0, count).
  SmallVector<Value> columnBlock(Value begin, int64_t size, int64_t count,
                                 ValueRange carried, Columns body);
  /// Emits `body` for one vector of columns per thread, from `begin` on and
  /// below `count`. With a `group`, a group of as many adjacent columns has
  /// threads of its own. All threads execute `body`.
  void ownColumns(Value begin, int64_t count, int64_t group,
                  llvm::function_ref<void(const Offset &)> body);
  /// Returns the vectors that a thread has of the `count` columns from `begin`
  /// on, for code without a loop over them. A vector that does not exist
  /// repeats the thread's first, which always exists.
  SmallVector<RowVector> splitRow(const Offset &begin, int64_t count);
  /// Emits `body` with the elements of `vector` per thread.
  void forVector(const RowVector &vector, llvm::function_ref<void()> body);
  /// Emits `body` with teams of the threads that share the same `size` columns.
  void withinGroup(int64_t size, llvm::function_ref<void()> body);
  /// Emits `body` with elements per thread, in vectors of `lanes`. Only threads
  /// for which `exists` is true store; null means true.
  void perThread(int64_t lanes, Value exists, llvm::function_ref<void()> body);
  /// Returns the thread's position along a row, and the number of its row among
  /// those processed at a time.
  std::pair<Value, Value> threadPlace() const {
    return {team.member, down.member};
  }
  /// Allocates shared memory of the block of threads.
  Value share(int64_t bytes);
  /// Emits a loop over columns [begin, end), with end <= `extent` and `begin` a
  /// multiple of the lanes. Columns that fill no vector are processed one by
  /// one.
  SmallVector<Value> dynamicColumns(Value begin, Value end, int64_t extent,
                                    ValueRange carried, Columns body);
  /// Emits `body` if `condition` is true. Returns its values, otherwise
  /// `carried`.
  SmallVector<Value> conditional(Value condition, ValueRange carried,
                                 llvm::function_ref<SmallVector<Value>()> body);
  /// Returns the number of loops around the insertion point.
  unsigned depth() const { return scopes.size() - 1; }
  /// Returns the lanes of the current vectors.
  int64_t lanes() const { return laneCount; }
  /// Returns the lanes of a full vector.
  int64_t wholeLanes() const { return width; }
  /// Returns how many adjacent vectors, from the current one on, an iteration
  /// of the loop over columns computes.
  int64_t adjacentVectors() const { return vectorsLeft; }

  //===--------------------------------------------------------------------===//
  // Values
  //===--------------------------------------------------------------------===//

  /// Returns `value` at `offset`, and emits its computation where needed.
  Element pull(Value value, const Offset &offset);
  /// Returns `value` at `offset` with one element per lane, in the compute
  /// type.
  Value pullLanes(Value value, const Offset &offset);
  /// Records that `value` at `offset` is `known` inside the current loops.
  void define(Value value, const Offset &offset, Value known);
  /// Records the results `known` of `LaneCodec::prepareDecoding` for `factors`
  /// at `place`.
  void defineDecoding(ValueRange factors, const Offset &place,
                      ArrayRef<Value> known);
  /// Records that `value` is stored in `memory`, at `offset` - `base`.
  void place(Value value, Value memory, const Offset &base);
  void forgetPlace(Value value) { homes.erase(value); }
  /// Whether pulling `value` again loads it from the memory of `place`.
  bool isPlaced(Value value) const { return homes.contains(value); }

  /// Stores result `index` of the kernel. `element` is as `pull` returns it.
  void storeResult(unsigned index, Value element, const Offset &offset);
  void store(Value memory, Value element, const Offset &offset);
  /// Does the same for a vector, which may have a single lane.
  void storeLanes(Value memory, Value lanes, const Offset &offset);
  /// Stores one element, or one per lane, in only one of the threads that have
  /// it.
  void storeOnce(Value memory, Value element, const Offset &offset);
  /// Emits `store` such that only one of the threads that have the value
  /// executes it.
  void guarded(llvm::function_ref<void()> store);
  /// Does the same as `store` in memory that belongs to the team.
  void storeForTeam(Value memory, Value element, const Offset &offset);
  /// Adds the integer `value` to element `place` of `memory`, atomically on a
  /// GPU.
  void addTo(Value memory, Value place, Value value);
  /// Loads one element, or one per lane, of `memory` as type `element`. The
  /// load is hoisted out of all loops that the offset does not depend on, but
  /// not out of the loop at `depth`.
  Element load(Value memory, Type element, const Offset &offset,
               unsigned depth = 0);
  /// Emits `body` with the addresses and bounds of a multi-tensor kernel loaded
  /// again, for code after the main loop, in which they would take registers.
  void readingTableAgain(llvm::function_ref<void()> body);
  /// Returns `x` if `condition` is true, otherwise `y`: two buffers of equal
  /// type of a multi-tensor kernel.
  Value chooseMemory(Value condition, Value x, Value y);
  /// Records a load of an operand, for code that loads without `pull`.
  void recordLoad(unsigned operand, const Offset &offset) {
    record(loads, operand, offset);
  }
  /// Loads from `memory` at the insertion point.
  Value loadNow(Value memory, const Offset &offset);
  /// Starts to load the cache line with the element `place` of `memory`.
  void prefetch(Value memory, Value place);

  /// Returns the part of an offset that is equal for all lanes, as an index.
  Value number(const Offset &offset);
  /// Returns an offset as one index per lane.
  Value perLane(const Offset &offset);
  Value index(int64_t value);
  /// Broadcasts `x` to a vector of the current number of lanes.
  Value broadcast(Value x);
  /// Returns `lanes`, filled up with the last lanes of `rest` if it has fewer.
  Value fillLanes(Value lanes, Value rest);
  /// Draws the random value of `op` for the element at `offset`, in [0, 1):
  /// word `word` of four. `stream` is added to the stream of `op`.
  FloatLanes drawNumber(OptimizerUpdateOp op, int64_t stream, unsigned word,
                        const Offset &offset);
  Value widen(Value x);
  Value narrow(Value x, Type element, bool saturate = false);
  /// Copies small tables of all following lookups to shared memory: threads
  /// that read different entries wait for each line of a cache, but only for
  /// equal banks of shared memory.
  void shareTables() { sharesTables = true; }
  /// Returns the elements of a rank-1 `table` at an i32 index, or one per lane.
  Value lookUp(DenseElementsAttr table, Value index);
  /// Whether tables of up to 16 elements are looked up in registers.
  bool hasRegisterTables() const { return !isOnGpu(); }
  /// Allocates local memory of `count` elements, on a GPU one per team.
  Value allocate(int64_t count, Type element);
  /// Returns the part of the workspace that starts at `byte`.
  Value viewWorkspace(int64_t byte, int64_t count, Type element);

  /// Returns `index` (one, or one per lane) if it is in [-rows, rows), counting
  /// from the end if it is negative. Otherwise returns 0 and sets the first
  /// word of the workspace.
  Value checkIndex(Value index, int64_t rows);

  /// Assigns the following accesses to a new pass.
  void nextPass() { ++pass; }
  void setPlaces(std::optional<Offset> element, std::optional<Offset> row) {
    elementPlace = std::move(element);
    rowPlace = std::move(row);
  }
  /// Records that result `result` may overwrite operand `operand`, regardless
  /// of the accesses.
  void allowInPlace(unsigned operand, unsigned result) {
    inPlace.insert({operand, result});
  }
  bool isAllowedInPlace(unsigned operand, unsigned result) const {
    return inPlace.contains({operand, result});
  }
  const Accesses &getLoads() const { return loads; }
  const Accesses &getStores() const { return stores; }

  LogicalResult status() const { return success(!hasFailed); }

private:
  struct Scope {
    Block *block;
    Operation *before; ///< Insertion point of hoisted code.
    std::map<std::pair<void *, Offset>, Value> values;
    std::map<Offset, Value> numbers;
    /// Of the first and the last factor: formats with and without a scale of
    /// the tensor may share scales of blocks.
    std::map<std::tuple<void *, void *, Offset>, SmallVector<Value>> decodings;
    std::map<std::pair<void *, Offset>, SmallVector<Value>> encodings;
  };
  struct Home {
    Value memory;
    Offset base;
    unsigned depth; ///< Of the store to it; loads stay inside.
  };
  /// Sets the insertion point to the end of the scope at `depth` during its
  /// lifetime.
  struct At {
    At(Emitter &emitter, unsigned depth);
    OpBuilder::InsertionGuard guard;
  };

  void record(Accesses &accesses, unsigned index, const Offset &offset);
  void push(Block *block, Operation *owner);
  void pop();
  Element remember(Value value, const Offset &offset, Element element);
  std::optional<Element> recall(Value value, const Offset &offset);
  Element compute(Value value, const Offset &offset);
  Element computeElementwise(Operation *op, const Offset &offset);
  Element computeConcat(ConcatOp op, const Offset &offset);
  Element computePad(PadOp op, const Offset &offset);
  Element computeIota(Operation *op, const Offset &offset);
  Element computeCheck(CheckIndexOp op, const Offset &offset);
  Element computeConstant(Operation *op, const Offset &offset);
  Element computeDequantize(DequantizeOp op, const Offset &offset);
  /// Returns what is needed to decode the elements whose factors are at
  /// `place`, and the number of loops around it.
  std::pair<SmallVector<Value>, unsigned>
  pullDecoding(QuantizedAttr format, ValueRange factors, const Offset &place);
  /// Decodes to f32 an element of a tensor of `shape` that is stored as
  /// `parts`.
  Element decode(QuantizedAttr format, ValueRange parts,
                 ArrayRef<int64_t> shape, const Offset &offset);
  /// Returns what is needed to encode the elements of `op` whose factors are at
  /// `place`, and the number of loops around it. For elements that may be far
  /// out of the format's range, the last two values are the divisor and whether
  /// the division may use its reciprocal.
  std::pair<SmallVector<Value>, unsigned> pullEncoding(EncodeOp op,
                                                       const Offset &place);
  Element computeEncode(EncodeOp op, const Offset &offset);
  Element computeChooseScale(ChooseScaleOp op, unsigned result,
                             const Offset &offset);
  std::optional<Element> loadPairs(Value codes, const Offset &offset);
  Offset findScale(QuantizedAttr format, ArrayRef<int64_t> shape,
                   const Offset &offset);
  Element computeFormula(Operation *op, unsigned result, const Offset &offset);
  Element computeScalars(OptimizerScalarsOp op, func::FuncOp formula,
                         unsigned result);
  Element computeUpdate(OptimizerUpdateOp op, func::FuncOp formula,
                        unsigned result, const Offset &offset);
  SmallVector<Value> inlineFormula(func::FuncOp formula,
                                   ArrayRef<Value> arguments);
  Offset gatherOffset(GatherOp op, const Offset &offset);
  Value choose(Value uniform, Value perLane, Value previous,
               llvm::function_ref<Value()> inside);
  Element fail(Operation *op, const Twine &reason, Type element);
  Value zero(Type element, const Offset &offset);
  /// Returns constant memory with the values of a rank-1 `elements`.
  Value table(DenseElementsAttr elements);
  Value sharedTable(DenseElementsAttr elements);
  /// Loads the elements of `memory` at the lanes of `index`.
  Value gather(Value memory, Value index);
  llvm::MaybeAlign getAlignment(Value memory, const Offset &offset);
  IntegerAttr getAlignAttr(unsigned index);
  /// Returns the alignment in bytes of the address of `memory` in a GPU kernel.
  int64_t getBaseAlignment(Value memory);
  void reportIndex(Value bad);
  Value variableValue(const Variable *variable, bool asLanes);

  /// Threads that share a work item.
  struct Team {
    int64_t size = 1;
    Value member;             ///< This thread's number; null on a CPU.
    bool isPerThread = false; ///< Whether each thread has elements of its own.
    bool isTogether() const { return size > 1 && !isPerThread; }
  };
  void startOnGpu(ModuleOp module, StringRef name, TypeRange buffers);
  void readTable(TypeRange buffers);
  Value allocateShared(int64_t count, Type storage);
  Value shuffle(Value own, int32_t distance);
  /// Returns `own` of the thread whose number differs in the bit `distance`.
  Value exchange(Value own, int64_t distance);
  Value allocateForTeam(int64_t count, Type storage);
  /// Combines a value of each of as many adjacent threads.
  using WarpCombination = llvm::function_ref<Value(Value, int64_t)>;
  Value combineWarps(Value own, const WarpCombination &combine);
  SmallVector<Value> wholeColumns(Value begin, Value end, int64_t size,
                                  int64_t whole, ValueRange carried,
                                  Columns body);
  /// Emits `body` in the first thread of a team; the other threads get
  /// `carried`.
  SmallVector<Value>
  whereFirst(ValueRange carried,
             llvm::function_ref<SmallVector<Value>(ValueRange)> body);
  void storeIf(Value condition, llvm::function_ref<void()> store);

  func::FuncOp kernel;
  FunctionOpInterface target;
  ImplicitLocOpBuilder b;
  SmallVector<Value> memories, numbers; ///< The function's arguments.
  OffsetSpace space;
  SmallVector<Scope> scopes;
  DenseMap<Value, Home> homes;
  DenseMap<Attribute, Value> tables;       ///< Constants.
  DenseMap<Attribute, Value> sharedTables; ///< Their copies.
  ModuleOp formulas; ///< Contains the optimizers' functions.
  Accesses loads, stores;
  llvm::DenseSet<std::pair<unsigned, unsigned>> inPlace;
  std::optional<Offset> elementPlace, rowPlace;
  int64_t laneCount = 1;
  std::optional<GpuShape> shape;
  Team team, down;
  Value thread, teamNumber;        ///< Numbers in the block.
  DenseMap<Type, Value> exchanges; ///< Shared memory per type.
  int64_t sharedBytes = 0;
  Value hasItem; ///< Whether the team has a work item; null: always.
  bool sharesItems = false;
  Value hasPlace; ///< Whether the thread has an element; null: always.
  int64_t width = kLanes;
  int64_t vectorsPerIteration = 1, vectorsLeft = 1;
  unsigned pass = 0;
  bool sharesTables = false;
  bool hasFailed = false;
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_EMITTER_H
