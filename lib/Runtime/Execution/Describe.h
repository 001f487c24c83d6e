//===- Describe.h - Tensors in messages -------------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_DESCRIBE_H
#define BINADE_LIB_RUNTIME_EXECUTION_DESCRIBE_H

#include "binade/Container/DType.h"
#include "binade/Container/Error.h"
#include <span>
#include <string>

namespace binade {

/// `[8, 64]`
std::string describe(std::span<const std::int64_t> shape);
/// `F32 [8, 64]`
std::string describe(DType dtype, std::span<const std::int64_t> shape);

/// Adds the first 19 of `notes`, and how many there are more: with its error, a
/// list of up to 20.
Error withFirst(Error error, std::span<const std::string> notes);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_DESCRIBE_H
