//===- Threads.cpp - Work items on GPU threads ----------------------------===//
//
// Maps work items to the threads of a GPU. A team of threads computes one work
// item: its threads process adjacent vectors of a row, and several rows at a
// time. All teams of a block execute the same code, so that all threads reach
// every shuffle and barrier. A team without a work item repeats another one
// without storing; the same holds for threads without a row, group or column.
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::binade;

/// The gpu.module that contains all kernels.
static constexpr StringLiteral kGpuModule = "kernels";
/// Bytes of shared memory per block of threads.
static constexpr int64_t kMaxShared = 48 * 1024;
/// Number of vectors in a row from which on more than a warp processes it.
static constexpr int64_t kLongVectors = 1024;

static int64_t floorToPower(int64_t x) {
  return static_cast<int64_t>(llvm::bit_floor(static_cast<uint64_t>(x)));
}

GpuShape GpuShape::fit(int64_t lanes, int64_t columns, int64_t rows) const {
  GpuShape fitting = *this;
  fitting.lanes = lanes;
  int64_t vectors = columns / lanes;
  int64_t most = vectors < kLongVectors ? kWarp : threads;
  fitting.team = std::clamp<int64_t>(floorToPower(vectors), 1, most);
  fitting.down =
      std::clamp<int64_t>(floorToPower(rows), 1, threads / fitting.team);
  return fitting;
}

static gpu::GPUModuleOp getGpuModule(ModuleOp module, Location loc) {
  if (auto found = module.lookupSymbol<gpu::GPUModuleOp>(kGpuModule))
    return found;
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  return gpu::GPUModuleOp::create(b, loc, kGpuModule);
}

/// Returns the alignment of an operand, a result or the workspace, which are
/// numbered in this order.
IntegerAttr Emitter::getAlignAttr(unsigned index) {
  unsigned operands = kernel.getNumArguments();
  IntegerAttr own;
  if (index < operands)
    own = kernel.getArgAttrOfType<IntegerAttr>(index, kAlignAttr);
  else if (index - operands < kernel.getNumResults())
    own = kernel.getResultAttrOfType<IntegerAttr>(index - operands, kAlignAttr);
  return own ? own : b.getI32IntegerAttr(kGpuAlignment);
}

int64_t Emitter::getBaseAlignment(Value memory) {
  auto argument = dyn_cast<BlockArgument>(memory);
  auto function = cast<gpu::GPUFuncOp>(*target);
  // Other block arguments are shared memory of the block of threads.
  if (!argument || argument.getArgNumber() >= function.getNumArguments())
    return kGpuAlignment;
  return function
      .getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kAlignAttr)
      .getInt();
}

void Emitter::startOnGpu(ModuleOp module, StringRef name, TypeRange buffers) {
  gpu::GPUModuleOp kernels = getGpuModule(module, kernel.getLoc());
  b.setInsertionPointToEnd(kernels.getBody());
  SmallVector<Type> types(buffers);
  if (shape->isMultiTensor)
    types = {MemRefType::get({kMany}, b.getI8Type()),
             MemRefType::get({kMany}, b.getI64Type())};
  auto function = gpu::GPUFuncOp::create(b, name, b.getFunctionType(types, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  auto threads = static_cast<int32_t>(shape->threads);
  function.setKnownBlockSizeAttr(b.getDenseI32ArrayAttr({threads, 1, 1}));
  for (unsigned index = 0; index < types.size(); ++index)
    function.setArgAttr(index, kAlignAttr, getAlignAttr(index));
  target = function;
  width = shape->lanes;
  Block *entry = &function.getBody().front();
  b.setInsertionPointToStart(entry);
  gpu::ReturnOp::create(b);
  push(entry, nullptr);
  thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  auto divide = [&](Value number, int64_t by) {
    return std::pair<Value, Value>(
        arith::DivUIOp::create(b, number, index(by)),
        arith::RemUIOp::create(b, number, index(by)));
  };
  Value row;
  std::tie(row, team.member) = divide(thread, shape->team);
  team.size = shape->team;
  teamNumber = row;
  down.size = shape->down;
  if (down.size > 1)
    std::tie(teamNumber, down.member) = divide(row, shape->down);
  if (shape->isMultiTensor)
    readTable(buffers);
  else
    llvm::append_range(memories, entry->getArguments());
}

/// Loads the addresses and bounds for this block of threads from the table.
void Emitter::readTable(TypeRange buffers) {
  Value all = target.getArgument(0), table = target.getArgument(1);
  auto count = static_cast<int64_t>(buffers.size() + numbers.size());
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  Value row = arith::MulIOp::create(b, block, index(count));
  auto read = [&](int64_t entry) -> Value {
    Value place = arith::AddIOp::create(b, row, index(entry));
    Value word = memref::LoadOp::create(b, table, place);
    return arith::IndexCastOp::create(b, b.getIndexType(), word);
  };
  for (auto [entry, type] : llvm::enumerate(buffers))
    memories.push_back(memref::ViewOp::create(b, cast<MemRefType>(type), all,
                                              read(entry), ValueRange()));
  for (auto [entry, number] : llvm::enumerate(numbers))
    number = read(buffers.size() + entry);
}

void Emitter::readingTableAgain(llvm::function_ref<void()> body) {
  if (!shape || !shape->isMultiTensor)
    return body();
  llvm::SaveAndRestore ofBuffers(memories);
  llvm::SaveAndRestore ofNumbers(numbers);
  SmallVector<Type> types(ValueRange(memories).getTypes());
  memories.clear();
  readTable(types);
  body();
}

Value Emitter::chooseMemory(Value condition, Value x, Value y) {
  auto first = x.getDefiningOp<memref::ViewOp>(),
       second = y.getDefiningOp<memref::ViewOp>();
  Value shift = arith::SelectOp::create(b, condition, first.getByteShift(),
                                        second.getByteShift());
  return memref::ViewOp::create(b, cast<MemRefType>(x.getType()),
                                first.getSource(), shift, ValueRange());
}

/// Allocates shared memory of a block of threads.
Value Emitter::allocateShared(int64_t count, Type storage) {
  auto space =
      gpu::AddressSpaceAttr::get(b.getContext(), gpu::AddressSpace::Workgroup);
  auto function = cast<gpu::GPUFuncOp>(*target);
  sharedBytes += count * llvm::divideCeil(storage.getIntOrFloatBitWidth(), 8);
  if (sharedBytes > kMaxShared && !hasFailed) {
    hasFailed = true;
    kernel.emitError("needs ")
        << sharedBytes << " bytes of shared memory on a GPU, where a block of "
        << "threads has " << kMaxShared << "; choose "
        << "smaller groups of elements that share a scale";
  }
  Value memory = function.addWorkgroupAttribution(
      MemRefType::get({count}, storage, MemRefLayoutAttrInterface(), space),
      kernel.getLoc());
  function.setWorkgroupAttributionAttr(
      static_cast<int>(function.getNumWorkgroupAttributions()) - 1, kAlignAttr,
      b.getI32IntegerAttr(kGpuAlignment));
  return memory;
}

/// Returns a copy of `elements` in shared memory.
Value Emitter::sharedTable(DenseElementsAttr elements) {
  Value &known = sharedTables[elements];
  if (known)
    return known;
  Value constants = table(elements);
  At at(*this, 0);
  int64_t count = elements.size();
  known = allocateShared(
      count, cast<MemRefType>(constants.getType()).getElementType());
  auto loop =
      scf::ForOp::create(b, thread, index(count), index(shape->threads));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(loop.getBody()->getTerminator());
    Value entry = loop.getInductionVar();
    memref::StoreOp::create(b, memref::LoadOp::create(b, constants, entry),
                            known, entry);
  }
  gpu::BarrierOp::create(b);
  return known;
}

Value Emitter::share(int64_t bytes) {
  return allocateShared(bytes, b.getI8Type());
}

Value Emitter::allocateForTeam(int64_t count, Type storage) {
  int64_t bytes = llvm::alignTo(
      count * llvm::divideCeil(storage.getIntOrFloatBitWidth(), 8), 16);
  Value all = allocateShared(shape->countItems() * bytes, b.getI8Type());
  Value start = arith::MulIOp::create(b, teamNumber, index(bytes));
  auto type = MemRefType::get({count}, storage, MemRefLayoutAttrInterface(),
                              cast<MemRefType>(all.getType()).getMemorySpace());
  return memref::ViewOp::create(b, type, all, start, ValueRange());
}

void Emitter::forItems(int64_t extent,
                       llvm::function_ref<void(const Offset &)> body,
                       bool exchangesValues) {
  if (!shape) {
    loop(argument(0), argument(1), 1, {}, [&](Value item, ValueRange) {
      body(space.counter(item, extent, depth()));
      return SmallVector<Value>();
    });
    return;
  }
  int64_t teams = shape->countItems();
  Value first;
  if (shape->isBatched) {
    first = argument(0);
  } else {
    int64_t blocks = llvm::divideCeil(extent, teams);
    cast<gpu::GPUFuncOp>(*target).setKnownGridSizeAttr(
        b.getDenseI32ArrayAttr({static_cast<int32_t>(blocks), 1, 1}));
    first = arith::MulIOp::create(
        b, gpu::BlockIdOp::create(b, gpu::Dimension::x), index(teams));
  }
  Value item = arith::AddIOp::create(b, first, teamNumber);
  if (extent % teams != 0) {
    hasItem = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, item,
                                    index(extent));
    // What a single item loads does not depend on its number, and is loaded by
    // all teams.
    sharesItems = exchangesValues || extent == 1;
    if (!exchangesValues) {
      Value condition = std::exchange(hasItem, Value());
      conditional(condition, {}, [&] {
        body(space.counter(item, extent, depth()));
        return SmallVector<Value>();
      });
      return;
    }
    item = arith::MinUIOp::create(b, item, index(extent - 1));
  }
  body(space.counter(item, extent, depth()));
}

void Emitter::forAll(int64_t extent,
                     llvm::function_ref<void(const Offset &)> body) {
  if (shape)
    return forItems(extent, body);
  if (extent == 1)
    return body(Offset());
  loop(index(0), index(extent), 1, {}, [&](Value item, ValueRange) {
    body(space.counter(item, extent, depth()));
    return SmallVector<Value>();
  });
}

void Emitter::perThread(int64_t lanes, Value exists,
                        llvm::function_ref<void()> body) {
  llvm::SaveAndRestore across(team.isPerThread, true);
  llvm::SaveAndRestore along(down.isPerThread, true);
  llvm::SaveAndRestore count(laneCount, lanes);
  llvm::SaveAndRestore has(hasPlace, conjunction(b, hasPlace, exists));
  body();
}

void Emitter::ownColumns(Value begin, int64_t count, int64_t group,
                         llvm::function_ref<void(const Offset &)> body) {
  llvm::SaveAndRestore perThread(team.isPerThread, true);
  llvm::SaveAndRestore lanes(laneCount, width);
  Value member = team.member, exists;
  int64_t own = team.size * width; // Columns of a team.
  if (group > 0 && !llvm::isPowerOf2_64(group / width)) {
    // Threads of a group that have no column repeat its last vector, which
    // changes neither a maximum nor a minimum.
    int64_t part = group / width, threads = shape->countThreadsOfGroup(group);
    own = team.size / threads * group;
    Value number = arith::DivUIOp::create(b, member, index(threads));
    Value within = arith::RemUIOp::create(b, member, index(threads));
    exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, within,
                                   index(part));
    within = arith::MinUIOp::create(b, within, index(part - 1));
    member = arith::AddIOp::create(
        b, arith::MulIOp::create(b, number, index(part)), within);
  }
  Value first = arith::MulIOp::create(b, member, index(width));
  Value column = arith::AddIOp::create(b, begin, first);
  if (count % own != 0) {
    Value isInside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, column,
                                           index(count));
    column = arith::SelectOp::create(b, isInside, column, begin);
    exists = conjunction(b, exists, isInside);
  }
  llvm::SaveAndRestore has(hasPlace, conjunction(b, hasPlace, exists));
  Offset counter = space.counter(column, count / width, depth(), width);
  body(counter * width + space.lanes(width));
}

SmallVector<RowVector> Emitter::splitRow(const Offset &begin, int64_t count) {
  int64_t step = team.size * width; // Columns of a team.
  Value first = arith::MulIOp::create(b, team.member, index(width));
  Offset lanes = space.lanes(width);
  Offset own =
      begin + space.counter(first, team.size, depth(), width) * width + lanes;
  SmallVector<RowVector> vectors;
  for (int64_t from = 0; from < count; from += step) {
    if (from + step <= count) {
      vectors.push_back({own + Offset(from), Value()});
      continue;
    }
    Value column = arith::AddIOp::create(b, first, index(from));
    Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, column,
                                         index(count));
    column = arith::AddIOp::create(b, column, number(begin));
    column = arith::SelectOp::create(b, exists, column, first);
    int64_t end = begin.maximum() + count;
    vectors.push_back(
        {space.counter(column, end / width, depth(), width) * width + lanes,
         exists});
  }
  return vectors;
}

void Emitter::forVector(const RowVector &vector,
                        llvm::function_ref<void()> body) {
  perThread(width, vector.exists, body);
}

int64_t GpuShape::countThreadsOfGroup(int64_t group) const {
  return static_cast<int64_t>(
      llvm::bit_ceil(static_cast<uint64_t>(group / lanes)));
}

void Emitter::withinGroup(int64_t size, llvm::function_ref<void()> body) {
  int64_t threads = shape->countThreadsOfGroup(size);
  Team group = {
      threads,
      arith::RemUIOp::create(b, team.member, index(threads)).getResult()};
  llvm::SaveAndRestore together(team, group);
  llvm::SaveAndRestore lanes(laneCount, int64_t(1));
  body();
}

SmallVector<Value> Emitter::rows(Value begin, Value end, int64_t extent,
                                 ValueRange carried, Columns body) {
  if (!down.member)
    return loop(begin, end, 1, carried, [&](Value row, ValueRange now) {
      return body(space.counter(row, extent, depth()), now);
    });
  llvm::SaveAndRestore perThread(down.isPerThread, true);
  // All threads execute as many iterations, because these may contain shuffles
  // and barriers.
  Value count = arith::SubIOp::create(b, end, begin);
  Value more = arith::AddIOp::create(b, count, index(down.size - 1));
  Value turns = arith::DivUIOp::create(b, more, index(down.size));
  return loop(index(0), turns, 1, carried, [&](Value turn, ValueRange now) {
    Value first = arith::AddIOp::create(
        b, begin, arith::MulIOp::create(b, turn, index(down.size)).getResult());
    Value row = arith::AddIOp::create(b, first, down.member);
    Value exists =
        arith::CmpIOp::create(b, arith::CmpIPredicate::ult, row, end);
    row = arith::SelectOp::create(b, exists, row, first);
    llvm::SaveAndRestore has(hasPlace, conjunction(b, hasPlace, exists));
    SmallVector<Value> next = body(space.counter(row, extent, depth()), now);
    for (auto [value, before] : llvm::zip(next, now))
      value = arith::SelectOp::create(b, exists, value, before);
    return next;
  });
}

SmallVector<Value> Emitter::groups(Value count, int64_t most, int64_t size,
                                   ValueRange carried, Columns body) {
  if (!shape)
    return loop(index(0), count, 1, carried, [&](Value group, ValueRange now) {
      return body(space.counter(group, most, depth()), now);
    });
  Team whole = team;
  // There are at most as many parts as groups and, if possible, at most as many
  // threads as vectors.
  int64_t vectors = floorToPower(std::max<int64_t>(1, size / width));
  int64_t parts =
      std::min(team.size / std::min(team.size, vectors), floorToPower(most));
  int64_t part = team.size / parts;
  Value number = arith::DivUIOp::create(b, team.member, index(part));
  team = {part, arith::RemUIOp::create(b, whole.member, index(part))};
  bool isWhole = getConstantIntValue(count) == most && most % parts == 0;
  // All parts execute as many iterations.
  Value filled = arith::AddIOp::create(b, count, index(parts - 1));
  Value turns = arith::DivUIOp::create(b, filled, index(parts));
  SmallVector<Value> values =
      loop(index(0), turns, 1, carried, [&](Value turn, ValueRange now) {
        Value first = arith::MulIOp::create(b, turn, index(parts));
        Value group = arith::AddIOp::create(b, first, number);
        Value exists;
        if (!isWhole) {
          exists =
              arith::CmpIOp::create(b, arith::CmpIPredicate::ult, group, count);
          // The part repeats its last group, if it has one.
          Value last = arith::SubIOp::create(b, group, index(parts));
          last = arith::MaxSIOp::create(b, last, index(0));
          group = arith::SelectOp::create(b, exists, group, last);
        }
        llvm::SaveAndRestore has(hasPlace, conjunction(b, hasPlace, exists));
        SmallVector<Value> next =
            body(space.counter(group, most, depth()), now);
        if (exists)
          for (auto [value, before] : llvm::zip(next, now))
            value = arith::SelectOp::create(b, exists, value, before);
        return next;
      });
  team = whole;
  return values;
}

void Emitter::forEach(Value begin, Value end,
                      llvm::function_ref<void(Value)> body) {
  llvm::SaveAndRestore perThread(team.isPerThread, true);
  if (team.member)
    begin = arith::AddIOp::create(b, begin, team.member);
  loop(begin, end, team.size, {}, [&](Value entry, ValueRange) {
    body(entry);
    return SmallVector<Value>();
  });
}

void Emitter::endPass(bool isForOthers) {
  nextPass();
  if (isForOthers)
    barrier();
}

void Emitter::barrier() {
  if (shape)
    gpu::BarrierOp::create(b);
}

/// Exchanges a value between threads of a warp, in 32-bit words.
Value Emitter::shuffle(Value own, int32_t distance) {
  Type type = own.getType();
  if (type.getIntOrFloatBitWidth() <= 32)
    return gpu::ShuffleOp::create(b, own, distance, kWarp,
                                  gpu::ShuffleMode::XOR)
        .getShuffleResult();
  IntLanes bits(
      b, isa<FloatType>(type)
             ? arith::BitcastOp::create(b, b.getI64Type(), own).getResult()
             : own);
  auto shuffleHalf = [&](IntLanes half) {
    Value word = arith::TruncIOp::create(b, b.getI32Type(), half.value);
    return arith::ExtUIOp::create(b, b.getI64Type(), shuffle(word, distance))
        .getResult();
  };
  Value low = shuffleHalf(bits), high = shuffleHalf(bits >> 32);
  Value whole = ((IntLanes(b, high) << 32) | IntLanes(b, low)).value;
  if (!isa<FloatType>(type))
    return whole;
  return arith::BitcastOp::create(b, type, whole);
}

Value Emitter::exchange(Value own, int64_t distance) {
  auto vector = dyn_cast<VectorType>(own.getType());
  if (!vector && distance < kWarp)
    return shuffle(own, static_cast<int32_t>(distance));
  Type element = getElementTypeOrSelf(own.getType());
  Value &memory = exchanges[element];
  if (!memory)
    memory = allocateShared(shape->threads * width, element);
  int64_t lanes = vector ? vector.getDimSize(0) : 1;
  Value other = arith::XOrIOp::create(b, thread, index(distance));
  auto placeOf = [&](Value number) -> Value {
    return arith::MulIOp::create(b, number, index(lanes));
  };
  Value value;
  if (vector) {
    int64_t bytes = lanes * element.getIntOrFloatBitWidth() / 8;
    llvm::MaybeAlign alignment(std::min(bytes, kGpuAlignment));
    vector::StoreOp::create(b, own, memory, placeOf(thread),
                            /*nontemporal=*/false, alignment);
    gpu::BarrierOp::create(b);
    value = vector::LoadOp::create(b, vector, memory, placeOf(other),
                                   /*nontemporal=*/false, alignment);
  } else {
    memref::StoreOp::create(b, own, memory, placeOf(thread));
    gpu::BarrierOp::create(b);
    value = memref::LoadOp::create(b, memory, placeOf(other));
  }
  gpu::BarrierOp::create(b); // Until all have read.
  return value;
}

/// Combines one value of each warp of a team through shared memory, whose
/// entries are the warps of the block. Each thread gets the result.
Value Emitter::combineWarps(Value own, const WarpCombination &combine) {
  int64_t warps = team.size / kWarp;
  Value memory = allocateShared(countWarps(), own.getType());
  auto divide = [&](Value number, int64_t by) -> Value {
    return arith::DivUIOp::create(b, number, index(by));
  };
  auto remainder = [&](Value number, int64_t by) -> Value {
    return arith::RemUIOp::create(b, number, index(by));
  };
  Value isFirst = arith::CmpIOp::create(
      b, arith::CmpIPredicate::eq, remainder(team.member, kWarp), index(0));
  Value entry = divide(thread, kWarp);
  storeIf(isFirst, [&] { memref::StoreOp::create(b, own, memory, entry); });
  gpu::BarrierOp::create(b);
  Value first = arith::SubIOp::create(b, entry, divide(team.member, kWarp));
  Value number = remainder(team.member, warps);
  Value other = arith::AddIOp::create(b, first, number);
  own = memref::LoadOp::create(b, memory, other);
  if (depth() > 0)
    gpu::BarrierOp::create(b); // Until all have read, before the next turn.
  return combine(own, warps);
}

Value Emitter::combineThreads(Value own,
                              llvm::function_ref<Value(Value, Value)> combine,
                              std::optional<vector::CombiningKind> kind) {
  auto butterfly = [&](Value x, int64_t count, int64_t step) {
    for (int64_t n = count / 2; n > 0; n /= 2)
      x = combine(x, exchange(x, n * step));
    return x;
  };
  auto inWarp = [&](Value x, int64_t count) {
    return kind ? combineNeighbours(x, count, *kind) : butterfly(x, count, 1);
  };
  if (team.isTogether() && !isa<VectorType>(own.getType())) {
    own = inWarp(own, std::min(team.size, kWarp));
    if (team.size > kWarp)
      own = combineWarps(own, [&](Value x, int64_t count) {
        // More entries than there are do not change a maximum.
        return inWarp(x, kind ? kWarp : count);
      });
  } else if (team.isTogether()) {
    own = butterfly(own, team.size, 1);
  }
  if (down.isTogether())
    own = butterfly(own, down.size, team.size);
  return own;
}

SmallVector<Value>
Emitter::whereFirst(ValueRange carried,
                    llvm::function_ref<SmallVector<Value>(ValueRange)> body) {
  if (!team.member)
    return body(carried);
  llvm::SaveAndRestore perThread(team.isPerThread, true);
  Value isFirst =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, team.member, index(0));
  return conditional(isFirst, carried, [&] { return body(carried); });
}

void Emitter::guarded(llvm::function_ref<void()> store) {
  Value condition = conjunction(b, hasItem, hasPlace);
  for (const Team &threads : {team, down})
    if (threads.isTogether())
      condition = conjunction(b, condition,
                              arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                                    threads.member, index(0)));
  storeIf(condition, store);
}

void Emitter::storeForTeam(Value memory, Value element, const Offset &offset) {
  (void)number(offset); // Computed outside of the branch.
  // A team without a work item has memory of its own, too.
  storeIf(hasPlace, [&] { store(memory, element, offset); });
}

void Emitter::storeIf(Value condition, llvm::function_ref<void()> store) {
  if (!condition)
    return store();
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenYield());
  store();
}
