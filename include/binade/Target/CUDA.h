//===- CUDA.h - kernels as code of NVIDIA's GPUs ----------------*- C++ -*-===//
//
// Kernels of one text are compiled once, each to a module of its own: an entry
// of the cache is one kernel's, and a change to one leaves the others. What a
// module costs by itself is a header of PTX and about 2 KiB of a cubin.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_TARGET_CUDA_H
#define BINADE_TARGET_CUDA_H

#include "binade/Codegen/EmitKernel.h"
#include "binade/Target/GpuContractions.h"
#include <array>
#include <optional>

namespace mlir::binade {

/// A chip that code is made for.
struct CudaChip {
  StringRef name; ///< As in `ptxas -arch`.
  StringRef ptx;  ///< The version of PTX, as a feature of LLVM's target.
  bool hasFloat8; ///< Conversions of E4M3 and E5M2.
  bool hasBlocks; ///< The library's products of codes with scales of blocks.
  /// Whether ptxas keeps kernels within the registers of their resident blocks
  /// without spilling.
  bool boundsRegisters;
};

/// sm_80, sm_89, sm_90 and sm_100.
ArrayRef<CudaChip> getCudaChips();
/// Null where there is no chip of that name.
const CudaChip *findCudaChip(StringRef name);
/// As users name them: "cuda:sm_90".
std::vector<std::string> getCudaTargets();
std::string getCudaTarget(const CudaChip &chip);
/// Null where there is no such target.
const CudaChip *findCudaTarget(StringRef target);
/// The same, with an error that names all chips.
FailureOr<const CudaChip *>
getCudaChip(StringRef name, function_ref<InFlightDiagnostic()> emitError);

/// The path of ptxas: of $BINADE_CUDA_ROOT, of the CUDA that was there when
/// Binade was configured, or the first in $PATH. Empty where there is none.
std::string findPtxas();
/// What the program at `path` says that it is; empty where it does not run.
std::string getPtxasVersion(StringRef path);

struct CudaOptions {
  const CudaChip *chip = findCudaChip("sm_90");
  /// The path of ptxas; empty: PTX only, which a driver compiles when it loads
  /// it.
  std::string assembler;
  /// What `getPtxasVersion` says of it; asked for where it is empty.
  std::string assemblerVersion;
  /// As for the CPU.
  std::string cacheDirectory;
  unsigned threads = 2;
};

/// A kernel as a driver launches it. Its arguments are the addresses of
/// operands, results and, if there is one, the workspace.
struct GpuEntry {
  std::string symbol;
  std::array<int64_t, 3> grid = {1, 1, 1}, block = {1, 1, 1};
  int64_t sharedBytes = 0;
};

/// A module for a driver to load.
struct GpuCode {
  std::string ir; ///< In the gpu dialect: what it was made of.
  std::string ptx;
  std::string cubin; ///< Empty without an assembler.
};

struct CompiledGpuKernel {
  KernelInfo info;
  /// In the order in which a launch runs them.
  SmallVector<GpuEntry> entries;
  size_t code; ///< Which of the modules has them.
};

struct CompiledGpuKernels {
  SmallVector<CompiledGpuKernel> kernels; ///< In the order of the module.
  std::vector<GpuCode> codes;
  unsigned reused = 0; ///< How many modules came from the cache.
};

/// The elements of operands as the kernels of records have them.
Type getElementType(MLIRContext *context, ::binade::DType dtype);

/// A kernel for each of `products`, whose arguments are the addresses of the
/// operands, the result and, as far as there are any, the bias, the scales and
/// the workspace; equal ones are one.
FailureOr<CompiledGpuKernels> compileGpuProducts(Location location,
                                                 ArrayRef<GpuProduct> products,
                                                 const CudaOptions &options);

/// The same for convolutions: the two that are read, `y` first for gradients
/// and otherwise `x`, the one that is written, and what there is of the rest.
FailureOr<CompiledGpuKernels>
compileGpuConvolutions(Location location, ArrayRef<GpuConvolution> convolutions,
                       const CudaOptions &options);

/// The same for attention: `tensors`, and the workspace if there is one.
FailureOr<CompiledGpuKernels>
compileGpuAttentions(Location location, ArrayRef<GpuAttention> attentions,
                     const CudaOptions &options);

/// Elements of so many bytes from one place to another; strides are in
/// elements.
struct GpuCopy {
  int64_t bytes = 4;
  std::vector<int64_t> sizes, from, to;

  bool operator==(const GpuCopy &) const = default;
};

/// The same for copies; arguments are the two addresses.
FailureOr<CompiledGpuKernels> compileGpuCopies(Location location,
                                               ArrayRef<GpuCopy> copies,
                                               const CudaOptions &options);

/// Compiles every function of `module` that carries `binade.kernel`.
FailureOr<CompiledGpuKernels> compileGpuKernels(ModuleOp module,
                                                const CudaOptions &options);

/// PTX of the kernels of the gpu dialect in `module`, which is lowered.
FailureOr<std::string> emitPtx(ModuleOp module, const CudaChip &chip);

/// The PTX of several modules for one chip as one module.
std::string joinPtx(ArrayRef<GpuCode> codes);

} // namespace mlir::binade

#endif // BINADE_TARGET_CUDA_H
