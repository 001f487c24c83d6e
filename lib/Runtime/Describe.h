//===- Describe.h - Tensors in messages -------------------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_DESCRIBE_H
#define BINADE_RUNTIME_DESCRIBE_H

#include "binade/Container/DType.h"
#include <span>
#include <string>

namespace binade {

/// `[8, 64]`
std::string describe(std::span<const std::int64_t> shape);
/// `F32 [8, 64]`
std::string describe(DType dtype, std::span<const std::int64_t> shape);

} // namespace binade

#endif // BINADE_RUNTIME_DESCRIBE_H
