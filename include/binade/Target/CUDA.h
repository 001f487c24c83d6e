//===- CUDA.h - Compilation of kernels for NVIDIA GPUs ----------*- C++ -*-===//
//
// Kernels with equal IR are compiled once, each to a module of its own: an
// entry of the cache belongs to one kernel, and a change of one kernel does not
// affect the others. The overhead of a module is a PTX header and about 2 KiB
// of a cubin.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_TARGET_CUDA_H
#define BINADE_TARGET_CUDA_H

#include "binade/Codegen/EmitKernel.h"
#include "binade/Target/GpuContractions.h"
#include <array>
#include <optional>

namespace mlir::binade {

/// A chip for which code can be generated.
struct CudaChip {
  StringRef name; ///< Name, as in `ptxas -arch`.
  StringRef ptx;  ///< PTX version, as a feature of LLVM's target.
  bool hasFloat8; ///< It has conversions of E4M3 and E5M2.
  bool hasBlocks; ///< cuBLASLt has FP8 matmuls with block scales.
  /// Whether ptxas can limit the registers of kernels to those that the
  /// resident blocks leave without spilling.
  bool boundsRegisters;
};

/// Returns sm_80, sm_89, sm_90 and sm_100.
ArrayRef<CudaChip> getCudaChips();
/// Returns null if no chip has this name.
const CudaChip *findCudaChip(StringRef name);
/// Return the names of targets as users write them: "cuda:sm_90".
std::vector<std::string> getCudaTargets();
std::string getCudaTarget(const CudaChip &chip);
/// Returns null if there is no such target.
const CudaChip *findCudaTarget(StringRef target);
/// Returns the chip of this name, or emits an error that lists all chips.
FailureOr<const CudaChip *>
getCudaChip(StringRef name, function_ref<InFlightDiagnostic()> emitError);

/// Returns the path of ptxas: in $BINADE_CUDA_ROOT, in the CUDA Toolkit found
/// when Binade was configured, or the first in $PATH. Empty if there is none.
std::string findPtxas();
/// Returns the output of `--version` of the program at `path`; empty if it
/// fails.
std::string getPtxasVersion(StringRef path);

/// How kernels are compiled for a GPU.
struct CudaOptions {
  const CudaChip *chip = findCudaChip("sm_90");
  /// The path of ptxas. Empty: emit PTX only, which the driver compiles when it
  /// loads a module.
  std::string assembler;
  /// The result of `getPtxasVersion` for it; determined if empty.
  std::string assemblerVersion;
  /// As in `CpuOptions`.
  std::string cacheDirectory;
  unsigned threads = 2;
};

/// A kernel as the driver launches it. Its arguments are the addresses of
/// operands, results and, if the kernel needs one, the workspace.
struct GpuEntry {
  std::string symbol;
  std::array<int64_t, 3> grid = {1, 1, 1}, block = {1, 1, 1};
  int64_t sharedBytes = 0;
};

/// A module that the driver loads.
struct GpuCode {
  std::string ir; ///< Its kernel in the gpu dialect.
  std::string ptx;
  std::string cubin; ///< Empty without an assembler.
};

/// A compiled kernel and its entries in a module.
struct CompiledGpuKernel {
  KernelInfo info;
  /// In the order in which a launch runs them.
  SmallVector<GpuEntry> entries;
  size_t code; ///< Index of their module.
};

/// The kernels of a module or of plan records, compiled for a GPU.
struct CompiledGpuKernels {
  SmallVector<CompiledGpuKernel> kernels; ///< In the order of the module.
  std::vector<GpuCode> codes;
  unsigned reused = 0; ///< Number of modules that came from the cache.
};

/// Returns the element type that kernels of plan records use for `dtype`.
Type getElementType(MLIRContext *context, ::binade::DType dtype);

/// Compiles a matmul kernel for each of `products`; equal ones share a kernel.
/// The arguments of a kernel are the addresses of the operands and the result
/// and, as far as they exist, of the bias, the scales and the workspace.
FailureOr<CompiledGpuKernels> compileGpuMatmuls(Location location,
                                                ArrayRef<GpuMatmul> products,
                                                const CudaOptions &options);

/// Does the same for convolutions. The arguments are the two tensors that are
/// read (for gradients `y` first, otherwise `x`), the one that is written, the
/// bias and the workspace.
FailureOr<CompiledGpuKernels>
compileGpuConvolutions(Location location, ArrayRef<GpuConvolution> convolutions,
                       const CudaOptions &options);

/// Does the same for attention. The arguments are `tensors`, and the workspace
/// if there is one.
FailureOr<CompiledGpuKernels>
compileGpuAttentions(Location location, ArrayRef<GpuAttention> attentions,
                     const CudaOptions &options);

/// A copy of elements of `bytes` bytes. Strides are in elements.
struct GpuCopy {
  int64_t bytes = 4;
  std::vector<int64_t> sizes, from, to;

  bool operator==(const GpuCopy &) const = default;
};

/// Does the same for copies. The arguments are the two addresses.
FailureOr<CompiledGpuKernels> compileGpuCopies(Location location,
                                               ArrayRef<GpuCopy> copies,
                                               const CudaOptions &options);

/// Compiles every function of `module` with the attribute `binade.kernel`.
FailureOr<CompiledGpuKernels> compileGpuKernels(ModuleOp module,
                                                const CudaOptions &options);

/// Returns the PTX of the kernels of the gpu dialect in `module`, which is
/// lowered in place.
FailureOr<std::string> emitPtx(ModuleOp module, const CudaChip &chip);

/// Joins the PTX of several modules for one chip to one module.
std::string joinPtx(ArrayRef<GpuCode> codes);

} // namespace mlir::binade

#endif // BINADE_TARGET_CUDA_H
