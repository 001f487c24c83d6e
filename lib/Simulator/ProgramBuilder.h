//===- ProgramBuilder.h - Emission of a kernel's instructions ---*- C++ -*-===//

#ifndef BINADE_LIB_SIMULATOR_PROGRAMBUILDER_H
#define BINADE_LIB_SIMULATOR_PROGRAMBUILDER_H

#include "Program.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::binade {

/// Assigns a register to every lane of every value, and emits instructions for
/// every op.
class ProgramBuilder {
public:
  explicit ProgramBuilder(gpu::GPUFuncOp kernel) : kernel(kernel) {}

  FailureOr<SimulatedProgram> run();

private:
  static size_t countBytes(Value memory);
  Registers get(Value value);
  SmallVector<Registers> getAll(ValueRange values);
  void add(Operation *op, Action action) {
    program.instructions.push_back({op, std::move(action)});
  }
  LogicalResult emit(Block &block);
  LogicalResult emit(Operation *op);

  //===--------------------------------------------------------------------===//
  // Control
  //===--------------------------------------------------------------------===//

  void copy(Operation *op, ValueRange from, ValueRange to);
  LogicalResult emit(scf::ForOp loop);
  LogicalResult emit(scf::IfOp branch);
  LogicalResult emit(scf::YieldOp yield);
  LogicalResult emit(gpu::ReturnOp end);
  LogicalResult emit(gpu::BarrierOp barrier);
  LogicalResult addExchange(Operation *op, Exchange exchange);
  LogicalResult emit(nvgpu::LdMatrixOp op);
  LogicalResult emit(nvgpu::MmaSyncOp op);

  template <typename Op> LogicalResult emitExchange(Op op) {
    return addExchange(op, getExchange(op, getAll(op->getOperands()),
                                       getAll(op->getResults())));
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

  /// Element `index` of the memref in register `base`; the first one without
  /// index.
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

  static LogicalResult checkShape(Operation *op, MemRefType type);
  Element getElement(Value memory, ValueRange indices);
  void load(Operation *op, Element element, Registers to, uint64_t alignment);
  void store(Operation *op, Element element, Registers from,
             uint64_t alignment);
  LogicalResult emit(memref::LoadOp op);
  LogicalResult emit(memref::StoreOp op);
  LogicalResult emit(vector::LoadOp op);
  LogicalResult emit(vector::StoreOp op);
  LogicalResult emit(nvgpu::DeviceAsyncCopyOp op);
  LogicalResult emit(nvgpu::DeviceAsyncCreateGroupOp op);
  LogicalResult emit(nvgpu::DeviceAsyncWaitOp op);
  LogicalResult emit(memref::AtomicRMWOp op);
  LogicalResult emit(vector::GatherOp op);
  LogicalResult emit(memref::AllocaOp op);
  LogicalResult emit(memref::ViewOp op);
  LogicalResult emit(memref::ExtractAlignedPointerAsIndexOp op);
  LogicalResult emit(memref::GetGlobalOp op);

  //===--------------------------------------------------------------------===//
  // Values
  //===--------------------------------------------------------------------===//

  LogicalResult emit(arith::ConstantOp op);
  LogicalResult emit(vector::ReductionOp op);
  LogicalResult emit(vector::DeinterleaveOp op);
  LogicalResult emitLanes(Operation *op);

  gpu::GPUFuncOp kernel;
  SimulatedProgram program;
  DenseMap<Value, Registers> known;
};

} // namespace mlir::binade

#endif // BINADE_LIB_SIMULATOR_PROGRAMBUILDER_H
