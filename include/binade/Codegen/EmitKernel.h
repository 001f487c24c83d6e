//===- EmitKernel.h - Emission of loops for one kernel ----------*- C++ -*-===//
//
// Lowers a kernel, a private function of `binade` ops on tensors, to functions
// of loops over memory in the dialects arith, math, memref, scf and vector.
// Vectors have at most 16 lanes, on every target.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_CODEGEN_EMITKERNEL_H
#define BINADE_CODEGEN_EMITKERNEL_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace mlir::binade {

/// Elements per block of a multi-tensor kernel: the grain of its launches. Each
/// block has one partial result.
inline constexpr int64_t kTensorBlock = 16384;

/// Alignment in bytes of the buffers of a GPU kernel, unless `kAlignAttr` is
/// set.
inline constexpr int64_t kGpuAlignment = 16;
/// On an operand or result of a kernel, an i32: its alignment in bytes on a GPU
/// where this is less than `kGpuAlignment`. Multi-tensor kernels ignore it.
/// This is the name of the LLVM dialect's attribute, whose header takes seconds
/// to compile.
inline constexpr StringLiteral kAlignAttr = "llvm.align";
/// On a GPU kernel, an i32: the number of thread blocks that should be resident
/// on a multiprocessor at the same time. It becomes `nvvm.minctasm` on chips
/// whose assembler can allocate registers for as many without spilling;
/// otherwise it is dropped.
inline constexpr StringLiteral kResidentBlocksAttr = "nvvm.preferred_minctasm";

/// Offset in bytes of the partial results in the workspace. The bytes before it
/// are reserved for the status word.
inline constexpr int64_t kStatusBytes = 64;

/// What a launch needs to know about a kernel.
struct KernelInfo {
  std::string symbol;
  /// Number of work items; 0 for a multi-tensor kernel, whose work items are
  /// the elements of each tensor.
  int64_t extent = 0;
  /// Number of work items per task. A multi-tensor kernel must be called with
  /// blocks of this size: a block starts at a multiple of it and has at most as
  /// many elements.
  int64_t grain = 1;
  /// Size in bytes of the workspace, which is the last buffer; 0 without a
  /// workspace. For a multi-tensor kernel, bytes per block.
  int64_t workspaceBytes = 0;
  /// Whether the entry point `<symbol>_finish` has to run after all work items.
  bool hasFinish = false;
  /// Whether the first i32 of the workspace is a status word. It must be 0
  /// before the launch, and is 1 afterwards if an index was out of range: a
  /// gather has then read row 0, a scatter has skipped the row, and a class
  /// index has selected nothing.
  bool hasStatus = false;
  /// For each result, the operands whose buffer the result may reuse.
  SmallVector<SmallVector<unsigned>> inPlace;
};

/// Adds the function `@<symbol>.items` to `into`. Its arguments are one memref
/// of rank 1 per operand, per result and for the workspace, then two indices,
/// the bounds of the range of work items. A kernel with partial results also
/// gets `@<symbol>.finish`, which takes the same memrefs and the number of
/// partial results.
///
/// `kernel` must have the attribute `binade.kernel` and be in the module that
/// contains the functions it refers to. Fails with a diagnostic for an op
/// without a lowering.
FailureOr<KernelInfo> emitKernel(func::FuncOp kernel, ModuleOp into);

/// Adds `@kernels::@<symbol>.items` to `into`, a kernel of the gpu dialect that
/// executes all work items. It takes the same memrefs and no indices;
/// `known_block_size` and `known_grid_size` are its launch configuration.
FailureOr<KernelInfo> emitGpuKernel(func::FuncOp kernel, ModuleOp into);

} // namespace mlir::binade

#endif // BINADE_CODEGEN_EMITKERNEL_H
