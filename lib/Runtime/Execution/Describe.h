//===- Describe.h - Shapes and types in messages ----------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_DESCRIBE_H
#define BINADE_LIB_RUNTIME_EXECUTION_DESCRIBE_H

#include "binade/Container/DType.h"
#include "binade/Container/Error.h"
#include <span>
#include <string>

namespace binade {

/// Returns a shape as text, such as `[8, 64]`.
std::string describe(std::span<const std::int64_t> shape);
/// Returns type and shape as text, such as `F32 [8, 64]`.
std::string describe(DType dtype, std::span<const std::int64_t> shape);

/// Adds the first 19 of `notes` to `error`, and a note with the number of the
/// others.
Error withFirstNotes(Error error, std::span<const std::string> notes);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_DESCRIBE_H
