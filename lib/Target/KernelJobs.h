//===- KernelJobs.h - kernels, each text compiled once ----------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_KERNELJOBS_H
#define BINADE_LIB_TARGET_KERNELJOBS_H

#include "ObjectCache.h"
#include <map>

namespace mlir::binade {

/// A module of its own with `kernel` under the name `name`, and the functions
/// and optimizers that it names.
std::string printAlone(ModuleOp module, func::FuncOp kernel, StringRef name);

/// Calls `body` with the module of `text` and an MLIR context of its own, so
/// that several threads can do it. Diagnostics are appended to `errors`, one
/// per line.
LogicalResult parseAlone(StringRef text, const DialectRegistry &registry,
                         std::string &errors,
                         function_ref<LogicalResult(ModuleOp)> body);

/// Replaces the one kernel of `module`, and all else, by what `emit` makes of
/// it.
FailureOr<KernelInfo>
replaceKernel(ModuleOp module,
              function_ref<FailureOr<KernelInfo>(func::FuncOp, ModuleOp)> emit);

/// What every kernel is called while it is looked up: its name is not part of
/// what it computes.
inline constexpr llvm::StringLiteral kKernelName = "kernel";

/// One text, whatever the kernels that have it are called.
struct KernelJob {
  std::string text; ///< With the symbol as the kernel's name.
  std::string key, symbol, errors;
  Location location;
  std::optional<EmittedCode> code;
  bool isWrong = false; ///< It was tried, in vain.
};

/// All kernels of a module.
struct KernelJobs {
  /// `options` is what the code depends on beside the text.
  explicit KernelJobs(ArrayRef<StringRef> options) {
    for (StringRef option : options)
      this->options.push_back(option.str());
  }
  /// The kernels of binade ops in `module`.
  void addAll(ModuleOp module);

  /// Adds the kernel that `text` defines under the name `kKernelName` followed
  /// by `suffix`. Its symbol begins with `name`, which has to follow from the
  /// text.
  KernelJob &add(std::string text, StringRef suffix, const std::string &name,
                 Location location);

  /// Takes code from the cache or makes it, on a few threads, until one cannot
  /// be compiled.
  LogicalResult
  run(const ObjectCache &cache, unsigned threads,
      llvm::function_ref<FailureOr<EmittedCode>(KernelJob &)> emit);

  std::map<std::string, KernelJob> jobs; ///< By key.
  /// In the order of the module.
  SmallVector<std::pair<func::FuncOp, KernelJob *>> kernels;
  SmallVector<std::string> options;
  unsigned reused = 0; ///< How many came from the cache.
};

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_KERNELJOBS_H
