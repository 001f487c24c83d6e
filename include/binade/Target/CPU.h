//===- CPU.h - kernels as object code of the CPU ----------------*- C++ -*-===//

#ifndef BINADE_TARGET_CPU_H
#define BINADE_TARGET_CPU_H

#include "binade/Codegen/EmitKernel.h"
#include <optional>

namespace mlir::binade {

/// A level of the x86-64 instruction set: AVX2 and FMA, or AVX-512.
enum class CpuLevel { V3, V4 };

/// `x86-64-v3` or `x86-64-v4`.
StringRef getName(CpuLevel level);
std::optional<CpuLevel> parseCpuLevel(StringRef name);
/// The highest level that this machine has; nothing below v3.
std::optional<CpuLevel> getHostLevel();

/// $XDG_CACHE_HOME/binade, or ~/.cache/binade; empty where neither is known.
std::string getDefaultCacheDirectory();

struct CpuOptions {
  CpuLevel level = CpuLevel::V3;
  /// Where objects of kernels are kept from one compilation to the next; empty:
  /// nowhere. Created with mode 0700; a directory that others can write to or
  /// that belongs to someone else is not used (a warning says so).
  std::string cacheDirectory;
  unsigned threads = 2;
};

struct CompiledKernels {
  /// An ELF shared object. For each kernel it exports
  /// `void SYMBOL(void *const *buffers, int64_t begin, int64_t end)`, which
  /// does work items [begin, end), and where `hasFinish` `void
  /// SYMBOL_finish(void *const *buffers, int64_t blocks)`, to be called once
  /// after all items with the number of blocks of `grain` items. `buffers`
  /// holds the addresses of operands, results and, if there is one, the
  /// workspace.
  std::string object;
  /// In the order of the module.
  SmallVector<KernelInfo> kernels;
  /// How many objects came from the cache.
  unsigned reused = 0;
};

/// Compiles every function of `module` that carries `binade.kernel`.
FailureOr<CompiledKernels> compileKernels(ModuleOp module,
                                          const CpuOptions &options);

/// LLVM IR, optimized, or assembly of the kernels of `module`, for people.
enum class CpuText { LLVM, Assembly };
FailureOr<std::string> printKernels(ModuleOp module, CpuLevel level,
                                    CpuText text);

} // namespace mlir::binade

#endif // BINADE_TARGET_CPU_H
