//===- SharedLibrary.h - Libraries loaded at run time -----------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_SHAREDLIBRARY_H
#define BINADE_RUNTIME_CUDA_SHAREDLIBRARY_H

#include "Driver.h"
#include <span>

namespace binade::cuda {

/// One of NVIDIA's libraries, which is never unloaded.
class SharedLibrary {
public:
  /// Opens the first of `names` that exists. An error (exit code 6) lists the
  /// names that were tried, and the `package` that contains the library.
  static Result<SharedLibrary> open(std::string title,
                                    std::span<const char *const> names,
                                    std::string_view package);

  template <typename Type>
  void find(Function<Type> &function, const char *symbol) {
    find(function.address, symbol);
  }
  template <typename Type> void find(Type *&address, const char *symbol) {
    address = reinterpret_cast<Type *>(look(symbol));
  }
  /// Returns an error if a symbol was not found; it names the `needed` version.
  Result<void> check(std::string_view needed) const;

private:
  void *look(const char *symbol);

  std::string title;
  void *handle = nullptr;
  const char *missing = nullptr;
};

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_SHAREDLIBRARY_H
