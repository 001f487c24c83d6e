//===- Emitter.h - values of tensors, element by element --------*- C++ -*-===//
//
// Emits the loops of one kernel. A schedule (Rows.cpp, Columns.cpp ...) opens
// loops and asks for the values it has to store or to add up; `pull` produces a
// value at an offset by following its definition back to loads. A value is
// computed as far out in the loop nest as it can be, and once per offset.
//
// Every element has the type that the IR gives it: a bf16 value is rounded to
// bf16 even where nothing is stored.
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

/// Lanes of a vector: fixed, so that sums do not depend on the target.
inline constexpr int64_t kLanes = 16;

/// What an element is between memory and arithmetic: integers have no sign of
/// their own, which ops know from their tensors, and 2 or 4 bits fill a byte.
Type getRegisterType(Type element);
/// What a buffer of `element` holds, whole bytes: i1 is 0 or 1, and floats of
/// fewer bits are codes.
Type getStorageType(Type element);
/// The format that arithmetic on `element` is done in: f32 for narrow floats.
Type getComputeType(Type element);

/// More elements than any tensor has.
inline constexpr int64_t kMany = int64_t(1) << 40;

/// That both hold; null stands for what always does.
Value conjunction(ImplicitLocOpBuilder &b, Value x, Value y);

/// One element, or one per lane, and the number of loops around it.
struct Element {
  Value value;
  unsigned depth = 0;
};

/// When and where a kernel reads an operand or writes a result: decides what a
/// result may overwrite.
struct Access {
  /// The element of the present loops, the one of the present row, or others.
  enum class Place { Element, Row, Other };
  Place place;
  unsigned pass;
  bool operator==(const Access &other) const {
    return place == other.place && pass == other.pass;
  }
};
using Accesses = llvm::DenseMap<unsigned, SmallVector<Access, 2>>;

/// Threads of a GPU that shuffle.
inline constexpr int64_t kWarp = 32;

/// How threads of a GPU share a kernel: powers of two.
struct GpuShape {
  int64_t threads = 256; ///< Of a block.
  /// Those that have an item together: `team` side by side in a row of it, in
  /// `down` rows at a time.
  int64_t team = 32, down = 1;
  int64_t lanes = 4; ///< Of a vector.
  /// Whether the kernel is over many tensors, and gets one memory and a table
  /// of numbers for each block: where its buffers start, in bytes, and which
  /// elements are the block's.
  bool isOfMany = false;

  /// Of a block of threads.
  int64_t countItems() const { return threads / (team * down); }
  /// That share a group of so many columns: a power of two, for them to
  /// exchange what they have.
  int64_t countThreadsOfGroup(int64_t group) const;
  /// For items of `rows` rows of `columns` elements: a thread for each vector,
  /// as far as they go round.
  GpuShape fit(int64_t lanes, int64_t columns, int64_t rows) const;
  /// For one item of rows of a single element.
  GpuShape ofRows() const { return fit(1, 1, threads); }
};

class Emitter {
public:
  /// Starts function `name` in `module`, with one memory argument per type of
  /// `buffers` and `numbers` indices. `kernel` holds the values that will be
  /// asked for: its arguments are the first buffers, its results the next.
  /// `formulas` holds the functions that it names. With a `shape` the function
  /// is a kernel of a GPU, which takes no indices.
  Emitter(func::FuncOp kernel, ModuleOp formulas, ModuleOp module,
          StringRef name, TypeRange buffers, unsigned numbers,
          std::optional<GpuShape> shape = std::nullopt);

  ImplicitLocOpBuilder &builder() { return b; }
  OffsetSpace &offsets() { return space; }
  FunctionOpInterface function() const { return target; }
  bool isOnGpu() const { return shape.has_value(); }
  /// Of a GPU: the number of this thread in its block, and of warps there.
  Value threadNumber() const { return thread; }
  int64_t countWarps() const { return shape->threads / kWarp; }
  func::FuncOp source() const { return kernel; }
  ArrayRef<Value> buffers() const { return memories; }
  Value buffer(unsigned index) const { return memories[index]; }
  Value resultBuffer(unsigned index);
  /// Behind all operands and results.
  Value workspace();
  /// Argument `index` behind the buffers.
  Value argument(unsigned index);

  //===--------------------------------------------------------------------===//
  // Loops
  //===--------------------------------------------------------------------===//

  using Body = llvm::function_ref<SmallVector<Value>(Value, ValueRange)>;
  using Columns =
      llvm::function_ref<SmallVector<Value>(const Offset &, ValueRange)>;

  /// The work items that a call is for, of `extent`: between the two numbers
  /// behind the buffers, or that of a team of threads.
  void forItems(int64_t extent, llvm::function_ref<void(const Offset &)> body);
  /// All of `extent` in a loop or, on a GPU, that of a team of threads.
  void forAll(int64_t extent, llvm::function_ref<void(const Offset &)> body);
  /// Groups [0, count) of up to `most`, of `size` columns each, which `columns`
  /// inside walks over.
  SmallVector<Value> groups(Value count, int64_t most, int64_t size,
                            ValueRange carried, Columns body);
  /// Each of [begin, end) once.
  void forEach(Value begin, Value end, llvm::function_ref<void(Value)> body);
  /// Rows [begin, end) of up to `extent`, one after the other or, on a GPU,
  /// several at a time.
  SmallVector<Value> rows(Value begin, Value end, int64_t extent,
                          ValueRange carried, Columns body);
  /// `body` while each thread has `lanes` elements of its own, whoever walked
  /// together.
  void perThread(int64_t lanes, llvm::function_ref<void()> body);
  /// `body` while only threads that have `exists` store; null is all of them.
  void storing(Value exists, llvm::function_ref<void()> body);
  /// What `kind` makes of the integers of `count` neighbours in a warp, for
  /// each of them.
  Value combineNeighbours(Value own, int64_t count, vector::CombiningKind kind);
  /// What the thread `lane` of the warp has, 32 bits.
  Value takeFrom(Value own, Value lane);
  /// From here on other threads may read what was stored, if `isForOthers`.
  void endWalk(bool isForOthers = true);
  /// Threads wait for each other.
  void barrier();
  /// What `combine` makes of the numbers of all threads that walk together and
  /// are at the same place, for each of them.
  Value combineThreads(Value own,
                       llvm::function_ref<Value(Value, Value)> combine);
  /// for (i = begin; i < end; i += step): `body` gets i and the carried
  /// values, and returns the next ones.
  SmallVector<Value> loop(Value begin, Value end, int64_t step,
                          ValueRange carried, Body body);
  /// Columns [0, count) in vectors of `kLanes`, the last one narrower. `body`
  /// gets the column of the lanes as offset.
  SmallVector<Value> columns(int64_t count, ValueRange carried, Columns body);
  /// The block [begin, begin + size) of columns [0, count).
  SmallVector<Value> columnBlock(Value begin, int64_t size, int64_t count,
                                 ValueRange carried, Columns body);
  /// Of the columns from `begin` on, below `count`, those of this thread: one
  /// vector. With a `group` of neighbours each has threads of its own. All
  /// threads get there.
  void ownColumns(Value begin, int64_t count, int64_t group,
                  llvm::function_ref<void(const Offset &)> body);
  /// `body` while threads that have the same `size` columns are together.
  void withinGroup(int64_t size, llvm::function_ref<void()> body);
  /// `body` with a place for each thread alone, if `exists` holds (null:
  /// always), and vectors of `lanes`.
  void perThread(int64_t lanes, Value exists, llvm::function_ref<void()> body);
  /// Which thread of a row this is, and of which row of its item's.
  std::pair<Value, Value> threadPlace() const {
    return {team.member, down.member};
  }
  /// Memory of a block of threads.
  Value share(int64_t bytes);
  /// Columns [begin, end) of up to `extent`, `begin` a multiple of the lanes;
  /// single columns at the end.
  SmallVector<Value> dynamicColumns(Value begin, Value end, int64_t extent,
                                    ValueRange carried, Columns body);
  /// `body` where `condition` holds, otherwise `carried`.
  SmallVector<Value> conditional(Value condition, ValueRange carried,
                                 llvm::function_ref<SmallVector<Value>()> body);
  /// Number of loops around what is emitted next.
  unsigned depth() const { return scopes.size() - 1; }
  /// Lanes of the vectors that are emitted next.
  int64_t lanes() const { return laneCount; }
  /// Lanes of those that are not the last of their columns.
  int64_t wholeLanes() const { return width; }

  //===--------------------------------------------------------------------===//
  // Values
  //===--------------------------------------------------------------------===//

  /// `value` at `offset`.
  Element pull(Value value, const Offset &offset);
  /// `pull`, one element per lane, in the compute format.
  Value pullLanes(Value value, const Offset &offset);
  /// Says that `value` is `known` at `offset` inside the present loops.
  void define(Value value, const Offset &offset, Value known);
  /// Says what `LaneCodec::prepareDecoding` makes of the factors, the first of
  /// which is `scale`, at `place`.
  void defineDecoding(Value scale, const Offset &place, ArrayRef<Value> known);
  /// Says that `value` lies in `memory`, at `offset` - `base`.
  void place(Value value, Value memory, const Offset &base);
  void unplace(Value value) { homes.erase(value); }
  /// Whether pulling `value` again would read memory only.
  bool isPlaced(Value value) const { return homes.contains(value); }

  /// Stores result `index` of the kernel; `element` as from `pull`.
  void storeResult(unsigned index, Value element, const Offset &offset);
  void store(Value memory, Value element, const Offset &offset);
  /// `store` of a vector, also where it has a single lane.
  void storeLanes(Value memory, Value lanes, const Offset &offset);
  /// Stores one element, or one per lane, by one of the threads that have it.
  void storeOnce(Value memory, Value element, const Offset &offset);
  /// `store` where this thread is the one to do so.
  void guarded(llvm::function_ref<void()> store);
  /// `store` in memory of the team itself.
  void storeKept(Value memory, Value element, const Offset &offset);
  /// Adds the integer `value` to element `place` of `memory`, whatever other
  /// threads of a GPU add.
  void addTo(Value memory, Value place, Value value);
  /// One element, or one per lane, of `memory` as `element`, loaded outside of
  /// all loops that the offset does not depend on, but not outside of `depth`.
  Element load(Value memory, Type element, const Offset &offset,
               unsigned depth = 0);
  /// What `memory` holds at this point of the code.
  Value loadNow(Value memory, const Offset &offset);

  /// An offset as an index: its part that is equal for all lanes.
  Value number(const Offset &offset);
  /// An offset as one index per lane.
  Value perLane(const Offset &offset);
  Value index(int64_t value);
  /// `x` as a vector of the present number of lanes.
  Value broadcast(Value x);
  /// The lanes of `lanes`, where those are fewer in front of the ones of
  /// `rest`.
  Value fillLanes(Value lanes, Value rest);
  /// Word `word` of the four that `op` draws for the element at `offset`, as a
  /// number in [0, 1); `stream` is added to that of `op`.
  FloatLanes drawNumber(OptimizerUpdateOp op, int64_t stream, unsigned word,
                        const Offset &offset);
  Value widen(Value x);
  Value narrow(Value x, Type element, bool saturate = false);
  /// The elements of a rank-1 `table` that an i32, or one per lane, names.
  Value lookUp(DenseElementsAttr table, Value index);
  /// Memory of this function, `count` elements.
  Value allocate(int64_t count, Type element);
  /// The part of the workspace that starts at `byte`.
  Value viewWorkspace(int64_t byte, int64_t count, Type element);

  /// `index` (one, or one per lane), counted from the end where negative, if
  /// it is one of `rows` rows, otherwise 0; says so in the first word of the
  /// workspace.
  Value checkIndex(Value index, int64_t rows);

  /// What the next accesses belong to.
  void nextPass() { ++pass; }
  void setPlaces(std::optional<Offset> element, std::optional<Offset> row) {
    elementPlace = std::move(element);
    rowPlace = std::move(row);
  }
  /// Says that result `result` may overwrite operand `operand`, whatever the
  /// accesses look like.
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
    Operation *before; ///< Where the scope's code ends for now.
    std::map<std::pair<void *, Offset>, Value> values;
    std::map<Offset, Value> numbers;
    std::map<std::pair<void *, Offset>, SmallVector<Value>> decodings,
        encodings;
  };
  struct Home {
    Value memory;
    Offset base;
    unsigned depth; ///< Where the memory was filled: no load goes further out.
  };
  /// Emits at the end of the scope at `depth` while it lives.
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
  /// What elements whose factors lie at `place` take to be decoded, and the
  /// number of loops around it.
  std::pair<SmallVector<Value>, unsigned>
  pullDecoding(QuantizedAttr format, ValueRange factors, const Offset &place);
  /// In f32, the element of a tensor of `shape` that is kept as `parts`.
  Element decode(QuantizedAttr format, ValueRange parts,
                 ArrayRef<int64_t> shape, const Offset &offset);
  /// The same for elements that `op` encodes. A fourth and fifth number are the
  /// divisor and whether it is one to rely on, of elements that may be far
  /// beyond it.
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
  /// Memory that holds the numbers of a rank-1 `elements`.
  Value table(DenseElementsAttr elements);
  /// The elements of `memory` that the lanes of `index` name.
  Value gather(Value memory, Value index);
  llvm::MaybeAlign getAlignment(Value memory, const Offset &offset);
  IntegerAttr getAlignAttr(unsigned index);
  /// Of a kernel of a GPU: what the address of `memory` is a multiple of.
  int64_t getBaseAlignment(Value memory);
  void reportIndex(Value bad);
  Value variableValue(const Variable *variable, bool asLanes);

  /// Threads that have an item together.
  struct Team {
    int64_t size = 1;
    Value member;             ///< Number of this one; null where it is alone.
    bool isPerThread = false; ///< Whether each has an element of its own now.
    bool isTogether() const { return size > 1 && !isPerThread; }
  };
  void startOnGpu(ModuleOp module, StringRef name, TypeRange buffers);
  void readTable(TypeRange buffers);
  Value allocateShared(int64_t count, Type storage);
  Value shuffle(Value own, int32_t distance);
  /// What the thread whose number differs in the bit `distance` has.
  Value exchange(Value own, int64_t distance);
  Value allocateForTeam(int64_t count, Type storage);
  SmallVector<Value> wholeColumns(Value begin, Value end, int64_t whole,
                                  ValueRange carried, Columns body);
  /// `body` in the first thread of those that walk together, `carried` in all
  /// others.
  SmallVector<Value>
  whereFirst(ValueRange carried,
             llvm::function_ref<SmallVector<Value>(ValueRange)> body);
  void storeIf(Value condition, llvm::function_ref<void()> store);

  func::FuncOp kernel;
  FunctionOpInterface target;
  ImplicitLocOpBuilder b;
  SmallVector<Value> memories, numbers; ///< What the function is called with.
  OffsetSpace space;
  SmallVector<Scope> scopes;
  DenseMap<Value, Home> homes;
  DenseMap<Attribute, Value> tables; ///< Of constants.
  ModuleOp formulas;                 ///< Holds the optimizers' functions.
  Accesses loads, stores;
  llvm::DenseSet<std::pair<unsigned, unsigned>> inPlace;
  std::optional<Offset> elementPlace, rowPlace;
  int64_t laneCount = 1;
  std::optional<GpuShape> shape;
  Team team, down;
  Value thread, teamNumber;        ///< In the block.
  DenseMap<Type, Value> exchanges; ///< Shared memory, of each type.
  int64_t sharedBytes = 0;
  Value hasItem;  ///< Whether there is one for this team; null if always.
  Value hasPlace; ///< The same of what threads in a team have.
  int64_t width = kLanes;
  unsigned pass = 0;
  bool hasFailed = false;
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_EMITTER_H
