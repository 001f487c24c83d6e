//===- Simulator.cpp - Simulation of GPU kernels --------------------------===//
//
// Blocks run one after the other, and so do the threads of a block, each up to
// its next barrier or exchange, where it waits for the others. On a device any
// thread may be first, so that a launch can request another order.
//
//===----------------------------------------------------------------------===//

#include "binade/Simulator/Simulator.h"
#include "Program.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <deque>
#include <numeric>
#include <random>

using namespace mlir;
using namespace mlir::binade;

/// Attribute for the alignment of a kernel's arguments.
static constexpr StringLiteral kAlignAttr = "llvm.align";

/// Returns the numbers below `count` in the order of the launch.
static std::vector<int64_t> getOrder(int64_t count, uint64_t seed) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), int64_t(0));
  if (seed != 0)
    std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  return order;
}

namespace {
/// The execution of one launch.
class Simulation {
public:
  Simulation(const SimulatedProgram &program, const SimulatedLaunch &launch)
      : program(program), launch(launch), machine(launch) {
    for (auto [argument, place] :
         llvm::zip(launch.arguments, program.arguments)) {
      uint64_t bits;
      if (auto *bytes = std::get_if<MutableArrayRef<char>>(&argument))
        bits = remember(
            SharedBytes(*bytes, reinterpret_cast<uintptr_t>(bytes->data())));
      else
        bits = std::get<uint64_t>(argument);
      if (launch.findOther && start.size() == launch.spansDevice)
        machine.spansDevice = Place::unpack(bits).memory;
      start.emplace_back(place, bits);
    }
    for (const KernelMemory &memory : program.constants) {
      constants.push_back(memory.start);
      start.emplace_back(
          memory.place,
          remember(SharedBytes(MutableArrayRef<char>(constants.back()),
                               memory.alignment)));
    }
    firstOfBlock = machine.memories.size();
    for (const KernelMemory &memory : program.workgroup)
      start.emplace_back(memory.place,
                         remember(SharedBytes(memory.bytes, memory.alignment)));
  }

  LogicalResult run() {
    auto [bx, by, bz] = launch.block;
    threadOrder = getOrder(bx * by * bz, launch.order);
    auto [x, y, z] = launch.grid;
    for (int64_t block : getOrder(x * y * z, launch.order)) {
      machine.block = static_cast<int32_t>(block);
      machine.blockId = {block % x, block / x % y, block / x / y};
      machine.epoch = 0;
      for (SharedBytes &bytes :
           MutableArrayRef(machine.memories)
               .slice(firstOfBlock, program.workgroup.size()))
        bytes.forget();
      if (failed(runBlock()))
        return failure();
    }
    return success();
  }

private:
  uint64_t remember(SharedBytes bytes) {
    machine.memories.push_back(std::move(bytes));
    auto number = static_cast<uint32_t>(machine.memories.size() - 1);
    return Place{/*isPrivate=*/false, number, 0}.pack();
  }

  void startThreads() {
    auto [x, y, z] = launch.block;
    threads.assign(x * y * z, Thread());
    for (auto [number, thread] : llvm::enumerate(threads)) {
      auto i = static_cast<int64_t>(number);
      thread.number = static_cast<int32_t>(number);
      thread.id = {i % x, i / x % y, i / x / y};
      thread.registers.resize(program.registers);
      for (auto [place, bits] : start)
        thread.registers[place] = bits;
      for (const KernelMemory &memory : program.privates) {
        auto own = static_cast<uint32_t>(thread.memories.size());
        thread.registers[memory.place] =
            Place{/*isPrivate=*/true, own, 0}.pack();
        thread.memories.push_back(
            {memory.alignment, std::vector<char>(memory.bytes)});
      }
    }
  }

  LogicalResult runBlock() {
    startThreads();
    while (true) {
      for (int64_t number : threadOrder) {
        Thread &thread = threads[number];
        while (thread.state == Thread::State::Running) {
          const Instruction &next = program.instructions[thread.next++];
          next.action(machine, thread);
          if (machine.hasFailed())
            return failure();
        }
      }
      bool isExchanged = false;
      for (size_t first = 0; first < threads.size(); first += kWarp)
        isExchanged |= exchange(MutableArrayRef(threads).slice(
            first, std::min<size_t>(kWarp, threads.size() - first)));
      if (machine.hasFailed())
        return failure();
      if (isExchanged)
        continue;
      if (llvm::all_of(threads, [](const Thread &thread) {
            return thread.state == Thread::State::Done;
          }))
        return success();
      if (!passBarrier())
        return failure();
    }
  }

  /// Returns the op at which a thread waits.
  Operation *getOp(const Thread &thread) const {
    return program.instructions[thread.next - 1].op;
  }

  /// Executes the exchange at which all threads of a warp wait. Returns false
  /// if no thread waits at one.
  bool exchange(MutableArrayRef<Thread> warp) {
    auto *waiting = llvm::find_if(warp, [](const Thread &thread) {
      return thread.state == Thread::State::AtExchange;
    });
    if (waiting == warp.end())
      return false;
    for (const Thread &thread : warp)
      if (thread.state != Thread::State::AtExchange ||
          thread.next != waiting->next) {
        machine.fail(*waiting, getOp(*waiting),
                     "waits for its warp, but thread " + Twine(thread.number) +
                         " of the warp does not");
        return true;
      }
    program.exchanges.find(waiting->next - 1)->second(machine, warp);
    for (Thread &thread : warp)
      thread.state = Thread::State::Running;
    return true;
  }

  /// Passes the barrier at which all threads wait. Fails if they do not all
  /// wait at the same one.
  bool passBarrier() {
    auto waiting = llvm::find_if(threads, [](const Thread &thread) {
      return thread.state == Thread::State::AtBarrier;
    });
    for (const Thread &thread : threads)
      if (thread.state != Thread::State::AtBarrier ||
          thread.next != waiting->next) {
        machine.fail(*waiting, getOp(*waiting),
                     "waits at a barrier, but thread " + Twine(thread.number) +
                         " does not");
        return false;
      }
    ++machine.epoch;
    for (Thread &thread : threads)
      thread.state = Thread::State::Running;
    return true;
  }

  const SimulatedProgram &program;
  const SimulatedLaunch &launch;
  Machine machine;
  std::vector<std::pair<uint32_t, uint64_t>> start; ///< Initial registers.
  std::deque<std::vector<char>> constants;
  size_t firstOfBlock = 0; ///< First memory of a block, after the launch's.
  std::vector<Thread> threads;
  std::vector<int64_t> threadOrder;
};
} // namespace

/// Checks the arguments of a launch against those of the kernel.
static LogicalResult check(gpu::GPUFuncOp kernel,
                           const SimulatedLaunch &launch) {
  ArrayRef<Type> types = kernel.getArgumentTypes();
  if (types.size() != launch.arguments.size())
    return kernel.emitError("expects ")
           << types.size() << " arguments, got " << launch.arguments.size();
  for (auto [index, type] : llvm::enumerate(types)) {
    const auto *bytes =
        std::get_if<MutableArrayRef<char>>(&launch.arguments[index]);
    auto memory = dyn_cast<MemRefType>(type);
    if (bool(bytes) != bool(memory))
      return kernel.emitError("expects ")
             << type << " as argument " << index << ", got "
             << (bytes ? "memory" : "a number");
    // LLVM relies on the alignment.
    auto alignment = kernel.getArgAttrOfType<IntegerAttr>(index, kAlignAttr);
    if (!bytes || !alignment)
      continue;
    uint64_t beyond = reinterpret_cast<uintptr_t>(bytes->data()) %
                      static_cast<uint64_t>(alignment.getInt());
    if (beyond != 0)
      return kernel.emitError("expects memory at a multiple of ")
             << alignment.getInt() << " as argument " << index
             << ", got memory that starts " << beyond << " bytes after one";
  }
  for (int64_t size : launch.block)
    if (size < 1)
      return kernel.emitError("expects blocks of at least one thread");
  return success();
}

LogicalResult mlir::binade::simulate(gpu::GPUFuncOp kernel,
                                     const SimulatedLaunch &launch) {
  if (failed(check(kernel, launch)))
    return failure();
  FailureOr<SimulatedProgram> program = SimulatedProgram::of(kernel);
  if (failed(program))
    return failure();
  return Simulation(*program, launch).run();
}

void mlir::binade::loadKernelDialects(MLIRContext &context) {
  context.loadDialect<arith::ArithDialect, gpu::GPUDialect, math::MathDialect,
                      memref::MemRefDialect, nvgpu::NVGPUDialect,
                      scf::SCFDialect, vector::VectorDialect>();
}
