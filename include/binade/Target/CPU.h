//===- CPU.h - Compilation of kernels for CPUs ------------------*- C++ -*-===//

#ifndef BINADE_TARGET_CPU_H
#define BINADE_TARGET_CPU_H

#include "binade/Codegen/EmitKernel.h"
#include <optional>

namespace mlir::binade {

/// A level of the x86-64 instruction set: AVX2 and FMA, or AVX-512.
enum class CpuLevel { V3, V4 };

/// Returns `x86-64-v3` or `x86-64-v4`.
StringRef getName(CpuLevel level);
std::optional<CpuLevel> parseCpuLevel(StringRef name);
/// Returns the highest level that this machine supports; nothing below v3.
std::optional<CpuLevel> getHostLevel();

/// Returns $XDG_CACHE_HOME/binade or ~/.cache/binade; empty if both are
/// unknown.
std::string getDefaultCacheDirectory();

/// How kernels are compiled for a CPU.
struct CpuOptions {
  CpuLevel level = CpuLevel::V3;
  /// Directory in which object code of kernels is kept for later compilations;
  /// empty: none. It is created with mode 0700. A directory that other users
  /// can access, or that belongs to another user, is not used, with a warning.
  std::string cacheDirectory;
  unsigned threads = 2;
};

/// The kernels of a module as object code.
struct CompiledKernels {
  /// An ELF shared object. For each kernel it exports `void SYMBOL(void *const
  /// *buffers, int64_t begin, int64_t end)`, which executes the work items
  /// [begin, end), and with `hasFinish` also `void SYMBOL_finish(void *const
  /// *buffers, int64_t blocks)`, to be called once after all work items with
  /// the number of blocks of `grain` work items. `buffers` has the addresses of
  /// operands, results and, if the kernel needs one, the workspace.
  std::string object;
  /// In the order of the module.
  SmallVector<KernelInfo> kernels;
  /// Number of objects that came from the cache.
  unsigned reused = 0;
};

/// Compiles every function of `module` with the attribute `binade.kernel`.
/// Fails with a diagnostic if one cannot be compiled or linked.
FailureOr<CompiledKernels> compileKernels(ModuleOp module,
                                          const CpuOptions &options);

/// Returns the optimized LLVM IR or the assembly of the kernels of `module`, to
/// be read by people.
enum class CpuText { LLVM, Assembly };
FailureOr<std::string> printKernels(ModuleOp module, CpuLevel level,
                                    CpuText text);

} // namespace mlir::binade

#endif // BINADE_TARGET_CPU_H
