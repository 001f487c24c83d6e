//===- SharedLibrary.h - A library that is found at run time ----*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_SHAREDLIBRARY_H
#define BINADE_RUNTIME_CUDA_SHAREDLIBRARY_H

#include "Driver.h"
#include <span>

namespace binade::cuda {

/// One of NVIDIA's libraries. It stays loaded.
class SharedLibrary {
public:
  /// The first of `names` that can be opened. An error (exit code 6) says what
  /// was tried, and that the library comes with `package`.
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
  /// Whether it had all that `find` looked for; an error says what `needed`
  /// version has it.
  Result<void> check(std::string_view needed) const;

private:
  void *look(const char *symbol);

  std::string title;
  void *handle = nullptr;
  const char *missing = nullptr;
};

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_SHAREDLIBRARY_H
