//===- Program.cpp - a kernel as a list of instructions -------------------===//

#include "Program.h"
#include "Arithmetic.h"
#include "MovedLanes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cstring>

using namespace mlir;
using namespace mlir::binade;

namespace {
class Compiler {
public:
  explicit Compiler(gpu::GPUFuncOp kernel) : kernel(kernel) {}

  FailureOr<SimulatedProgram> run() {
    for (BlockArgument argument : kernel.getArguments())
      program.arguments.push_back(get(argument).first);
    for (BlockArgument memory : kernel.getWorkgroupAttributions())
      program.workgroup.push_back({get(memory).first, countBytes(memory), {}});
    for (BlockArgument memory : kernel.getPrivateAttributions())
      program.privates.push_back({get(memory).first, countBytes(memory), {}});
    if (failed(emit(kernel.getBody().front())))
      return failure();
    return std::move(program);
  }

private:
  static size_t countBytes(Value memory) {
    auto type = cast<MemRefType>(memory.getType());
    return type.getNumElements() * getByteWidth(type.getElementType());
  }

  Registers get(Value value) {
    auto [entry, isNew] = known.try_emplace(value);
    if (isNew) {
      entry->second = {static_cast<uint32_t>(program.registers),
                       countLanes(value.getType())};
      program.registers += entry->second.count;
    }
    return entry->second;
  }

  void add(Operation *op, Action action) {
    program.instructions.push_back({op, std::move(action)});
  }

  LogicalResult emit(Block &block) {
    for (Operation &op : block)
      if (failed(emit(&op)))
        return failure();
    return success();
  }

  LogicalResult emit(Operation *op) {
    return TypeSwitch<Operation *, LogicalResult>(op)
        .Case<scf::ForOp, scf::IfOp, scf::YieldOp, gpu::ReturnOp,
              gpu::BarrierOp, arith::ConstantOp, memref::LoadOp,
              memref::StoreOp, memref::AtomicRMWOp, vector::LoadOp,
              vector::StoreOp, vector::GatherOp, memref::AllocaOp,
              memref::ViewOp, memref::GetGlobalOp,
              memref::ExtractAlignedPointerAsIndexOp, vector::ReductionOp,
              vector::DeinterleaveOp, nvgpu::LdMatrixOp, nvgpu::MmaSyncOp>(
            [&](auto one) { return emit(one); })
        .Case<gpu::ThreadIdOp, gpu::BlockIdOp, gpu::BlockDimOp, gpu::GridDimOp>(
            [&](auto one) { return emitIndex(one); })
        .Case<gpu::ShuffleOp>([&](auto one) { return emitExchange(one); })
        .Case<gpu::LaneIdOp, gpu::SubgroupIdOp>([&](auto one) {
          bool isLane = isa<gpu::LaneIdOp>(op);
          uint32_t to = get(one.getResult()).first;
          add(op, [=](Machine &, Thread &t) {
            t.registers[to] = isLane ? t.number % kWarp : t.number / kWarp;
          });
          return success();
        })
        .Default([&](auto) { return emitLanes(op); });
  }

  //===--------------------------------------------------------------------===//
  // Control
  //===--------------------------------------------------------------------===//

  /// Copies values at once: one may be what another becomes.
  void copy(Operation *op, ValueRange from, ValueRange to) {
    SmallVector<std::pair<uint32_t, uint32_t>> moves;
    for (auto [source, target] : llvm::zip(from, to))
      for (uint32_t i = 0, count = get(source).count; i < count; ++i)
        moves.emplace_back(get(source).first + i, get(target).first + i);
    if (moves.empty())
      return;
    add(op, [moves](Machine &, Thread &t) {
      SmallVector<uint64_t> values;
      for (auto [source, target] : moves)
        values.push_back(t.registers[source]);
      for (auto [move, value] : llvm::zip(moves, values))
        t.registers[move.second] = value;
    });
  }

  LogicalResult emit(scf::ForOp loop) {
    uint32_t i = get(loop.getInductionVar()).first;
    uint32_t begin = get(loop.getLowerBound()).first;
    uint32_t end = get(loop.getUpperBound()).first;
    uint32_t step = get(loop.getStep()).first;
    add(loop, [=](Machine &m, Thread &t) {
      t.registers[i] = t.registers[begin];
      if (static_cast<int64_t>(t.registers[step]) <= 0)
        m.fail(t, loop, "steps by nothing, or backwards");
    });
    copy(loop, loop.getInitArgs(), loop.getRegionIterArgs());
    auto behind = std::make_shared<size_t>();
    size_t head = program.instructions.size();
    add(loop, [=](Machine &, Thread &t) {
      if (static_cast<int64_t>(t.registers[i]) >=
          static_cast<int64_t>(t.registers[end]))
        t.next = *behind;
    });
    if (failed(emit(*loop.getBody())))
      return failure();
    add(loop, [=](Machine &, Thread &t) {
      t.registers[i] += t.registers[step];
      t.next = head;
    });
    *behind = program.instructions.size();
    copy(loop, loop.getRegionIterArgs(), loop.getResults());
    return success();
  }

  LogicalResult emit(scf::IfOp branch) {
    uint32_t condition = get(branch.getCondition()).first;
    auto otherwise = std::make_shared<size_t>(), behind = otherwise;
    add(branch, [=](Machine &, Thread &t) {
      if (!t.registers[condition])
        t.next = *otherwise;
    });
    if (failed(emit(*branch.thenBlock())))
      return failure();
    if (branch.elseBlock()) {
      behind = std::make_shared<size_t>();
      add(branch, [=](Machine &, Thread &t) { t.next = *behind; });
      *otherwise = program.instructions.size();
      if (failed(emit(*branch.elseBlock())))
        return failure();
    }
    *behind = program.instructions.size();
    return success();
  }

  LogicalResult emit(scf::YieldOp yield) {
    Operation *owner = yield->getParentOp();
    auto loop = dyn_cast<scf::ForOp>(owner);
    copy(yield, yield.getResults(),
         loop ? ValueRange(loop.getRegionIterArgs())
              : ValueRange(owner->getResults()));
    return success();
  }

  LogicalResult emit(gpu::ReturnOp end) {
    add(end, [](Machine &, Thread &t) { t.state = Thread::State::Done; });
    return success();
  }

  LogicalResult emit(gpu::BarrierOp barrier) {
    add(barrier,
        [](Machine &, Thread &t) { t.state = Thread::State::AtBarrier; });
    return success();
  }

  /// All threads of a warp do `op` when the last one has come to it.
  LogicalResult addExchange(Operation *op, Exchange exchange) {
    program.exchanges[program.instructions.size()] = std::move(exchange);
    add(op, [](Machine &, Thread &t) { t.state = Thread::State::AtExchange; });
    return success();
  }

  SmallVector<Registers> getAll(ValueRange values) {
    return llvm::map_to_vector(values, [&](Value value) { return get(value); });
  }

  template <typename Op> LogicalResult emitExchange(Op op) {
    return addExchange(op, getExchange(op, getAll(op->getOperands()),
                                       getAll(op->getResults())));
  }

  LogicalResult emit(nvgpu::LdMatrixOp op) {
    if (failed(checkShape(op, op.getSrcMemref().getType())))
      return failure();
    Element element = getElement(op.getSrcMemref(), op.getIndices());
    return addExchange(op,
                       getExchange(
                           op, [=](const Thread &t) { return element.of(t); },
                           get(op.getRes())));
  }

  LogicalResult emit(nvgpu::MmaSyncOp op) {
    Type format = op.getMatrixA().getType().getElementType();
    if ((!format.isF16() && !format.isBF16()) ||
        !op.getMatrixC().getType().getElementType().isF32() ||
        op.getMmaShapeAsArray() != std::array<int64_t, 3>{16, 8, 16})
      return op.emitOpError("is simulated for 16 x 8 x 16 of f16 or bf16 to "
                            "f32");
    return emitExchange(op);
  }

  template <typename Op> LogicalResult emitIndex(Op op) {
    uint32_t to = get(op.getResult()).first;
    auto axis = static_cast<unsigned>(op.getDimension());
    add(op, [=](Machine &m, Thread &t) {
      t.registers[to] = std::is_same_v<Op, gpu::ThreadIdOp>  ? t.id[axis]
                        : std::is_same_v<Op, gpu::BlockIdOp> ? m.blockId[axis]
                        : std::is_same_v<Op, gpu::BlockDimOp>
                            ? m.launch.block[axis]
                            : m.launch.grid[axis];
    });
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Memory
  //===--------------------------------------------------------------------===//

  static LogicalResult checkShape(Operation *op, MemRefType type) {
    if (type.hasStaticShape() && type.getRank() <= 1 &&
        type.getLayout().isIdentity())
      return success();
    return op->emitOpError("is simulated for memory with one axis, got ")
           << type;
  }

  /// Element `index` of the memref in register `base`; none for number 0.
  struct Element {
    uint32_t base;
    std::optional<uint32_t> index;
    unsigned bytes;

    Place of(const Thread &t, uint64_t further = 0) const {
      Place place = Place::unpack(t.registers[base]);
      place.byte += (further + (index ? t.registers[*index] : 0)) * bytes;
      return place;
    }
  };

  Element getElement(Value memory, ValueRange indices) {
    auto type = cast<MemRefType>(memory.getType());
    std::optional<uint32_t> index;
    if (!indices.empty())
      index = get(indices.front()).first;
    return {get(memory).first, index, getByteWidth(type.getElementType())};
  }

  void load(Operation *op, Element element, Registers to, int64_t alignment) {
    add(op, [=](Machine &m, Thread &t) {
      Place place = element.of(t);
      if (!isAligned(m, t, op, place, alignment))
        return;
      const char *bytes =
          m.access(t, op, place, to.count * element.bytes, Access::Read);
      for (uint32_t i = 0; bytes && i < to.count; ++i) {
        t.registers[to.first + i] = 0;
        std::memcpy(&t.registers[to.first + i], bytes + i * element.bytes,
                    element.bytes);
      }
    });
  }

  void store(Operation *op, Element element, Registers from,
             int64_t alignment) {
    add(op, [=](Machine &m, Thread &t) {
      Place place = element.of(t);
      if (!isAligned(m, t, op, place, alignment))
        return;
      char *bytes =
          m.access(t, op, place, from.count * element.bytes, Access::Write);
      for (uint32_t i = 0; bytes && i < from.count; ++i)
        std::memcpy(bytes + i * element.bytes, &t.registers[from.first + i],
                    element.bytes);
    });
  }

  static bool isAligned(Machine &m, Thread &t, Operation *op, Place place,
                        int64_t alignment) {
    if (place.byte % alignment == 0)
      return true;
    m.fail(t, op,
           "is at byte " + Twine(place.byte) + ", no multiple of " +
               Twine(alignment));
    return false;
  }

  template <typename Op> static int64_t getAlignment(Op op) {
    return std::max<int64_t>(1, op.getAlignment().value_or(1));
  }

  LogicalResult emit(memref::LoadOp op) {
    load(op, getElement(op.getMemref(), op.getIndices()), get(op.getResult()),
         1);
    return checkShape(op, op.getMemRefType());
  }
  LogicalResult emit(memref::StoreOp op) {
    store(op, getElement(op.getMemref(), op.getIndices()), get(op.getValue()),
          1);
    return checkShape(op, op.getMemRefType());
  }
  LogicalResult emit(vector::LoadOp op) {
    load(op, getElement(op.getBase(), op.getIndices()), get(op.getResult()),
         getAlignment(op));
    return checkShape(op, op.getMemRefType());
  }
  LogicalResult emit(vector::StoreOp op) {
    store(op, getElement(op.getBase(), op.getIndices()),
          get(op.getValueToStore()), getAlignment(op));
    return checkShape(op, op.getMemRefType());
  }

  LogicalResult emit(memref::AtomicRMWOp op) {
    Element element = getElement(op.getMemref(), op.getIndices());
    uint32_t operand = get(op.getValue()).first,
             before = get(op.getResult()).first;
    LaneFunction combine = getUpdate(op.getKind(), op.getValue().getType());
    if (!combine)
      return op.emitOpError("is no update that is simulated");
    add(op, [=](Machine &m, Thread &t) {
      char *bytes =
          m.access(t, op, element.of(t), element.bytes, Access::Update);
      if (!bytes)
        return;
      uint64_t both[] = {0, t.registers[operand]};
      std::memcpy(both, bytes, element.bytes);
      t.registers[before] = both[0];
      uint64_t after = combine(both);
      std::memcpy(bytes, &after, element.bytes);
    });
    return checkShape(op, op.getMemRefType());
  }

  /// Integers only: they do not depend on who is first.
  static LaneFunction getUpdate(arith::AtomicRMWKind kind, Type element) {
    using Kind = arith::AtomicRMWKind;
    auto of = [&](vector::CombiningKind combining) {
      return getCombiner(
          vector::CombiningKindAttr::get(element.getContext(), combining),
          element);
    };
    return kind == Kind::addi   ? of(vector::CombiningKind::ADD)
           : kind == Kind::maxu ? of(vector::CombiningKind::MAXUI)
           : kind == Kind::minu ? of(vector::CombiningKind::MINUI)
           : kind == Kind::ori  ? of(vector::CombiningKind::OR)
                                : LaneFunction();
  }

  LogicalResult emit(vector::GatherOp op) {
    Element element = getElement(op.getBase(), op.getOffsets());
    Registers to = get(op.getResult()), index = get(op.getIndices()),
              mask = get(op.getMask()), rest = get(op.getPassThru());
    add(op, [=](Machine &m, Thread &t) {
      for (uint32_t i = 0; i < to.count; ++i) {
        uint64_t &lane = t.registers[to.first + i];
        if (!t.registers[mask.first + i]) {
          lane = t.registers[rest.first + i];
          continue;
        }
        const char *bytes =
            m.access(t, op, element.of(t, t.registers[index.first + i]),
                     element.bytes, Access::Read);
        lane = 0;
        if (bytes)
          std::memcpy(&lane, bytes, element.bytes);
      }
    });
    return checkShape(op, cast<MemRefType>(op.getBase().getType()));
  }

  LogicalResult emit(memref::AllocaOp op) {
    program.privates.push_back(
        {get(op.getResult()).first, countBytes(op.getResult()), {}});
    return checkShape(op, op.getType());
  }

  LogicalResult emit(memref::ViewOp op) {
    uint32_t from = get(op.getSource()).first, to = get(op.getResult()).first,
             shift = get(op.getByteShift()).first;
    add(op, [=](Machine &, Thread &t) {
      Place place = Place::unpack(t.registers[from]);
      place.byte += t.registers[shift];
      t.registers[to] = place.pack();
    });
    return checkShape(op, op.getType());
  }

  /// A number that no other place has.
  LogicalResult emit(memref::ExtractAlignedPointerAsIndexOp op) {
    copy(op, op.getSource(), op->getResults());
    return success();
  }

  LogicalResult emit(memref::GetGlobalOp op) {
    auto global = SymbolTable::lookupNearestSymbolFrom<memref::GlobalOp>(
        op, op.getNameAttr());
    auto elements = global ? dyn_cast_if_present<DenseElementsAttr>(
                                 global.getInitialValueAttr())
                           : DenseElementsAttr();
    if (!elements)
      return op.emitOpError("is simulated for constants");
    unsigned width = getByteWidth(elements.getElementType());
    std::vector<char> bytes;
    for (Attribute number : elements.getValues<Attribute>()) {
      uint64_t bits = getBits(number);
      bytes.insert(bytes.end(), reinterpret_cast<char *>(&bits),
                   reinterpret_cast<char *>(&bits) + width);
    }
    program.constants.push_back(
        {get(op.getResult()).first, bytes.size(), bytes});
    return checkShape(op, op.getType());
  }

  //===--------------------------------------------------------------------===//
  // Numbers
  //===--------------------------------------------------------------------===//

  LogicalResult emit(arith::ConstantOp op) {
    Registers to = get(op.getResult());
    SmallVector<uint64_t> lanes;
    if (auto elements = dyn_cast<DenseElementsAttr>(op.getValue()))
      for (Attribute number : elements.getValues<Attribute>())
        lanes.push_back(getBits(number));
    else
      lanes.push_back(getBits(op.getValue()));
    add(op, [=](Machine &, Thread &t) {
      llvm::copy(lanes, t.registers.begin() + to.first);
    });
    return success();
  }

  LogicalResult emit(vector::ReductionOp op) {
    Registers from = get(op.getVector()), to = get(op.getDest());
    std::optional<uint32_t> start;
    if (Value acc = op.getAcc())
      start = get(acc).first;
    LaneFunction combine =
        getCombiner(op.getKindAttr(), op.getDest().getType());
    if (!combine)
      return op.emitOpError("is no reduction that is simulated");
    add(op, [=](Machine &, Thread &t) {
      uint64_t total = t.registers[start ? *start : from.first];
      for (uint32_t i = start ? 0 : 1; i < from.count; ++i) {
        uint64_t both[] = {total, t.registers[from.first + i]};
        total = combine(both);
      }
      t.registers[to.first] = total;
    });
    return success();
  }

  LogicalResult emit(vector::DeinterleaveOp op) {
    Registers from = get(op.getSource()), even = get(op.getRes1()),
              odd = get(op.getRes2());
    add(op, [=](Machine &, Thread &t) {
      for (uint32_t i = 0; i < even.count; ++i) {
        t.registers[even.first + i] = t.registers[from.first + 2 * i];
        t.registers[odd.first + i] = t.registers[from.first + 2 * i + 1];
      }
    });
    return success();
  }

  LogicalResult emitLanes(Operation *op) {
    if (op->getNumResults() != 1 || op->getNumRegions() > 0)
      return op->emitOpError("is not simulated");
    Registers to = get(op->getResult(0));
    if (isa<vector::StepOp>(op)) {
      add(op, [=](Machine &, Thread &t) {
        for (uint32_t i = 0; i < to.count; ++i)
          t.registers[to.first + i] = i;
      });
      return success();
    }
    if (std::optional<SmallVector<MovedLane>> lanes = findMovedLanes(op)) {
      SmallVector<uint32_t> from;
      for (auto [operand, lane] : *lanes)
        from.push_back(get(op->getOperand(operand)).first + lane);
      add(op, [=](Machine &, Thread &t) {
        for (uint32_t i = 0; i < to.count; ++i)
          t.registers[to.first + i] = t.registers[from[i]];
      });
      return success();
    }
    LaneFunction compute = getLaneFunction(op);
    if (!compute)
      return op->emitOpError("is not simulated");
    SmallVector<Registers> operands = getAll(op->getOperands());
    add(op, [=](Machine &, Thread &t) {
      SmallVector<uint64_t, 4> lane(operands.size());
      for (uint32_t i = 0; i < to.count; ++i) {
        for (auto [value, from] : llvm::zip(lane, operands))
          value = t.registers[from.first + (from.count == 1 ? 0 : i)];
        t.registers[to.first + i] = compute(lane.data());
      }
    });
    return success();
  }

  gpu::GPUFuncOp kernel;
  SimulatedProgram program;
  DenseMap<Value, Registers> known;
};
} // namespace

FailureOr<SimulatedProgram> SimulatedProgram::of(gpu::GPUFuncOp kernel) {
  return Compiler(kernel).run();
}
