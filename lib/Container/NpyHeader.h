//===- NpyHeader.h - Headers of NumPy arrays --------------------*- C++ -*-===//

#ifndef BINADE_LIB_CONTAINER_NPYHEADER_H
#define BINADE_LIB_CONTAINER_NPYHEADER_H

#include "binade/Container/Safetensors.h"
#include <functional>

namespace binade {

/// Copies the bytes at an offset of an array file, counted from its start.
using ReadBytes =
    std::function<Result<void>(std::uint64_t offset, std::span<std::byte>)>;

/// Reads the header of a .npy file of `size` bytes. `where` and `part` name it
/// in messages. In the result, `offset` is that of the first element.
Result<TensorInfo> readNpyHeader(const std::string &name, std::uint64_t size,
                                 const ReadBytes &read,
                                 const std::string &where,
                                 const std::string &part);

} // namespace binade

#endif // BINADE_LIB_CONTAINER_NPYHEADER_H
