//===- KernelJobs.h - Compilation of distinct kernels -----------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_KERNELJOBS_H
#define BINADE_LIB_TARGET_KERNELJOBS_H

#include "ObjectCache.h"
#include <map>

namespace mlir::binade {

/// Prints a module that contains `kernel`, under the name `name`, and the
/// functions and optimizers that it refers to.
std::string printStandalone(ModuleOp module, func::FuncOp kernel,
                            StringRef name);

/// Parses the module `text` in an MLIR context of its own and calls `body`, so
/// that several threads can do it. Diagnostics are appended to `errors`, one
/// per line.
LogicalResult parseStandalone(StringRef text, const DialectRegistry &registry,
                              std::string &errors,
                              function_ref<LogicalResult(ModuleOp)> body);

/// Replaces the kernel of `module`, and all its other functions, by what `emit`
/// adds.
FailureOr<KernelInfo>
replaceKernel(ModuleOp module,
              function_ref<FailureOr<KernelInfo>(func::FuncOp, ModuleOp)> emit);

/// The name of every kernel for the lookup in the cache, because kernels that
/// differ only in their names are equal.
inline constexpr llvm::StringLiteral kKernelName = "kernel";

/// One kernel to compile, on behalf of all kernels with the same text.
struct KernelJob {
  std::string text; ///< The module; `symbol` is the kernel's name.
  std::string key, symbol, errors;
  Location location;
  std::optional<EmittedCode> code;
  bool hasFailed = false; ///< Whether the compilation failed.
};

/// All kernels of a module.
struct KernelJobs {
  /// `options` are what the code depends on in addition to the text.
  explicit KernelJobs(ArrayRef<StringRef> options) {
    for (StringRef option : options)
      this->options.push_back(option.str());
  }
  /// Adds the kernels of `module`.
  void addAll(ModuleOp module);

  /// Adds the kernel that `text` defines under the name `kKernelName` followed
  /// by `suffix`, and those that accompany it, whose names begin with
  /// `kKernelName` and a dot. Its symbol begins with `name`, which must be
  /// determined by the text.
  KernelJob &add(std::string text, StringRef suffix, const std::string &name,
                 Location location);

  /// Loads code from the cache or compiles it, on `threads` threads, until a
  /// kernel fails to compile.
  LogicalResult
  run(const ObjectCache &cache, unsigned threads,
      llvm::function_ref<FailureOr<EmittedCode>(KernelJob &)> emit);

  std::map<std::string, KernelJob> jobs; ///< By key.
  /// In the order of the module.
  SmallVector<std::pair<func::FuncOp, KernelJob *>> kernels;
  SmallVector<std::string> options;
  unsigned reused = 0; ///< Number of jobs that came from the cache.
};

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_KERNELJOBS_H
