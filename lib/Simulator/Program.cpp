//===- Program.cpp - Kernels as lists of instructions ---------------------===//

#include "Arithmetic.h"
#include "LaneMovement.h"
#include "ProgramBuilder.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::binade;

/// Alignment in bytes of shared memory, as binade-lower-to-nvvm sets it.
static constexpr uint64_t kSharedAlignment = 16;

FailureOr<SimulatedProgram> ProgramBuilder::run() {
  for (BlockArgument argument : kernel.getArguments())
    program.arguments.push_back(get(argument).first);
  for (BlockArgument memory : kernel.getWorkgroupAttributions())
    program.workgroup.push_back(
        {get(memory).first, countBytes(memory), kSharedAlignment, {}});
  for (BlockArgument memory : kernel.getPrivateAttributions()) {
    Type element = cast<MemRefType>(memory.getType()).getElementType();
    program.privates.push_back(
        {get(memory).first, countBytes(memory), getByteWidth(element), {}});
  }
  if (failed(emit(kernel.getBody().front())))
    return failure();
  return std::move(program);
}

size_t ProgramBuilder::countBytes(Value memory) {
  auto type = cast<MemRefType>(memory.getType());
  return type.getNumElements() * getByteWidth(type.getElementType());
}

Registers ProgramBuilder::get(Value value) {
  auto [entry, isNew] = known.try_emplace(value);
  if (isNew) {
    entry->second = {static_cast<uint32_t>(program.registers),
                     countLanes(value.getType())};
    program.registers += entry->second.count;
  }
  return entry->second;
}

LogicalResult ProgramBuilder::emit(Block &block) {
  for (Operation &op : block)
    if (failed(emit(&op)))
      return failure();
  return success();
}

LogicalResult ProgramBuilder::emit(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<scf::ForOp, scf::IfOp, scf::YieldOp, gpu::ReturnOp, gpu::BarrierOp,
            arith::ConstantOp, memref::LoadOp, memref::StoreOp,
            memref::AtomicRMWOp, vector::LoadOp, vector::StoreOp,
            vector::GatherOp, memref::AllocaOp, memref::ViewOp,
            memref::GetGlobalOp, memref::ExtractAlignedPointerAsIndexOp,
            vector::ReductionOp, vector::DeinterleaveOp, nvgpu::LdMatrixOp,
            nvgpu::MmaSyncOp, nvgpu::DeviceAsyncCopyOp,
            nvgpu::DeviceAsyncCreateGroupOp, nvgpu::DeviceAsyncWaitOp>(
          [&](auto one) { return emit(one); })
      .Case<gpu::ThreadIdOp, gpu::BlockIdOp, gpu::BlockDimOp, gpu::GridDimOp>(
          [&](auto one) { return emitIndex(one); })
      .Case<gpu::ShuffleOp>([&](auto one) { return emitExchange(one); })
      .Case<gpu::SubgroupReduceOp>([&](auto one) -> LogicalResult {
        if (!one.getUniform() || one.getClusterSize() ||
            !one.getType().isInteger(32))
          return one.emitOpError(
              "is supported in the simulator for i32 and whole warps only");
        return emitExchange(one);
      })
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

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

/// Copies values simultaneously, because a target may also be a source.
void ProgramBuilder::copy(Operation *op, ValueRange from, ValueRange to) {
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

LogicalResult ProgramBuilder::emit(scf::ForOp loop) {
  uint32_t i = get(loop.getInductionVar()).first;
  uint32_t begin = get(loop.getLowerBound()).first;
  uint32_t end = get(loop.getUpperBound()).first;
  uint32_t step = get(loop.getStep()).first;
  add(loop, [=](Machine &m, Thread &t) {
    t.registers[i] = t.registers[begin];
    if (static_cast<int64_t>(t.registers[step]) <= 0)
      m.fail(t, loop, "has a step that is not positive");
  });
  copy(loop, loop.getInitArgs(), loop.getRegionIterArgs());
  auto exitIndex = std::make_shared<size_t>();
  size_t head = program.instructions.size();
  add(loop, [=](Machine &, Thread &t) {
    if (static_cast<int64_t>(t.registers[i]) >=
        static_cast<int64_t>(t.registers[end]))
      t.next = *exitIndex;
  });
  if (failed(emit(*loop.getBody())))
    return failure();
  add(loop, [=](Machine &, Thread &t) {
    t.registers[i] += t.registers[step];
    t.next = head;
  });
  *exitIndex = program.instructions.size();
  copy(loop, loop.getRegionIterArgs(), loop.getResults());
  return success();
}

LogicalResult ProgramBuilder::emit(scf::IfOp branch) {
  uint32_t condition = get(branch.getCondition()).first;
  auto otherwise = std::make_shared<size_t>(), exitIndex = otherwise;
  add(branch, [=](Machine &, Thread &t) {
    if (!t.registers[condition])
      t.next = *otherwise;
  });
  if (failed(emit(*branch.thenBlock())))
    return failure();
  if (branch.elseBlock()) {
    exitIndex = std::make_shared<size_t>();
    add(branch, [=](Machine &, Thread &t) { t.next = *exitIndex; });
    *otherwise = program.instructions.size();
    if (failed(emit(*branch.elseBlock())))
      return failure();
  }
  *exitIndex = program.instructions.size();
  return success();
}

LogicalResult ProgramBuilder::emit(scf::YieldOp yield) {
  Operation *owner = yield->getParentOp();
  auto loop = dyn_cast<scf::ForOp>(owner);
  copy(yield, yield.getResults(),
       loop ? ValueRange(loop.getRegionIterArgs())
            : ValueRange(owner->getResults()));
  return success();
}

LogicalResult ProgramBuilder::emit(gpu::ReturnOp end) {
  add(end, [](Machine &, Thread &t) { t.state = Thread::State::Done; });
  return success();
}

LogicalResult ProgramBuilder::emit(gpu::BarrierOp barrier) {
  add(barrier,
      [](Machine &, Thread &t) { t.state = Thread::State::AtBarrier; });
  return success();
}

/// Makes all threads of a warp execute `op` together once the last one reaches
/// it.
LogicalResult ProgramBuilder::addExchange(Operation *op, Exchange exchange) {
  program.exchanges[program.instructions.size()] = std::move(exchange);
  add(op, [](Machine &, Thread &t) { t.state = Thread::State::AtExchange; });
  return success();
}

SmallVector<Registers> ProgramBuilder::getAll(ValueRange values) {
  return llvm::map_to_vector(values, [&](Value value) { return get(value); });
}

LogicalResult ProgramBuilder::emit(nvgpu::LdMatrixOp op) {
  if (failed(checkShape(op, op.getSrcMemref().getType())))
    return failure();
  Element element = getElement(op.getSrcMemref(), op.getIndices());
  return addExchange(op, getExchange(
                             op, [=](const Thread &t) { return element.of(t); },
                             get(op.getRes())));
}

LogicalResult ProgramBuilder::emit(nvgpu::MmaSyncOp op) {
  Type format = op.getMatrixA().getType().getElementType();
  if ((!format.isF16() && !format.isBF16()) ||
      !op.getMatrixC().getType().getElementType().isF32() ||
      op.getMmaShapeAsArray() != std::array<int64_t, 3>{16, 8, 16})
    return op.emitOpError(
        "is supported in the simulator for 16 x 8 x 16 of f16 or bf16 to "
        "f32");
  return emitExchange(op);
}

FailureOr<SimulatedProgram> SimulatedProgram::of(gpu::GPUFuncOp kernel) {
  return ProgramBuilder(kernel).run();
}
