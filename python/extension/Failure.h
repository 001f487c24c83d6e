//===- Failure.h - Errors as Python exceptions ------------------*- C++ -*-===//

#ifndef BINADE_PYTHON_FAILURE_H
#define BINADE_PYTHON_FAILURE_H

#include "binade/Container/Error.h"
#include <nanobind/nanobind.h>

namespace binade::python {

/// C++ exception that is translated to the subclass of `binade.BinadeError` for
/// its exit code.
struct Failure : std::exception {
  explicit Failure(Error error) : error(std::move(error)) {}
  const char *what() const noexcept override { return error.message.c_str(); }

  Error error;
};

template <typename T> T take(Result<T> result) {
  if (!result)
    throw Failure(result.takeError());
  return std::move(*result);
}

inline void check(Result<void> result) {
  if (!result)
    throw Failure(result.takeError());
}

/// Logs warnings of the compiler or the runtime.
void warn(const std::vector<std::string> &warnings);

/// Registers the translation of a thrown `Failure` to a Python exception.
void registerFailure(nanobind::module_ &module);

} // namespace binade::python

#endif // BINADE_PYTHON_FAILURE_H
