//===- EmitKernel.h - loops for one kernel ----------------------*- C++ -*-===//
//
// From a kernel, a private function of `binade` ops on tensors, to functions of
// loops over memory (arith, math, memref, scf, vector), for any target with
// 16-lane vectors or fewer.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_CODEGEN_EMITKERNEL_H
#define BINADE_CODEGEN_EMITKERNEL_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace mlir::binade {

/// Elements of a block of a kernel over many tensors: what one partial result
/// stands for, and the grain of its launches.
inline constexpr int64_t kTensorBlock = 16384;

/// Bytes of which the addresses of a GPU kernel's buffers are multiples.
inline constexpr int64_t kGpuAlignment = 16;
/// On an operand or result of a kernel, an i32: what its address is a multiple
/// of on a GPU, where that is less. Not for kernels over many tensors. The name
/// is the LLVM dialect's, whose header takes seconds to compile.
inline constexpr StringLiteral kAlignAttr = "llvm.align";
/// On a GPU kernel, an i32: blocks of threads that a multiprocessor should hold
/// at the same time. `nvvm.minctasm` on chips whose assembler finds registers
/// for as many without spilling, dropped on others.
inline constexpr StringLiteral kResidentBlocksAttr = "nvvm.preferred_minctasm";

/// Byte in the workspace at which the partial results start; the first 64 are
/// the status word's.
inline constexpr int64_t kStatusBytes = 64;

/// What a launch of the kernel has to know.
struct KernelInfo {
  std::string symbol;
  /// Number of work items; 0 for a kernel over many tensors, whose items are
  /// the elements of each.
  int64_t extent = 0;
  /// Items worth a task. A kernel over many tensors must be called with blocks
  /// of this size: a block starts at a multiple of it and does not exceed it.
  int64_t grain = 1;
  /// Size of the workspace, the last buffer, 0 where there is none. For a
  /// kernel over many tensors, bytes per block.
  int64_t workspaceBytes = 0;
  /// Whether `<symbol>_finish` has to run after all items.
  bool hasFinish = false;
  /// Whether the first word (i32) of the workspace is a status: to be 0 before
  /// the launch, 1 after it if an index was out of range (row 0 was then read,
  /// no row added, no class hit).
  bool hasStatus = false;
  /// For each result, the operands whose buffer it may have as its own.
  SmallVector<SmallVector<unsigned>> inPlace;
};

/// Adds `@<symbol>.items` to `into`, with one argument per operand, per result
/// and for the workspace, a memref of rank 1, and two indices, the bounds of
/// the work items; and where the kernel has a second part `@<symbol>.finish`
/// with the same memory and the number of partial results.
///
/// `kernel` carries `binade.kernel` and lies in a module that holds the
/// functions it names. Fails with a diagnostic where an op has no code.
FailureOr<KernelInfo> emitKernel(func::FuncOp kernel, ModuleOp into);

/// Adds `@kernels::@<symbol>.items` to `into`, a kernel of the gpu dialect that
/// does all work items; the same memory, no indices. Its block and grid are its
/// `known_block_size` and `known_grid_size`.
FailureOr<KernelInfo> emitGpuKernel(func::FuncOp kernel, ModuleOp into);

} // namespace mlir::binade

#endif // BINADE_CODEGEN_EMITKERNEL_H
