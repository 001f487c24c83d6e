//===- Safetensors.h - Reader and writer of safetensors ---------*- C++ -*-===//
// Binade stores bundles, data sets, checkpoints and results in this format: u64
// header length (little-endian), JSON header, tensor bytes.
//===----------------------------------------------------------------------===//

#ifndef BINADE_CONTAINER_SAFETENSORS_H
#define BINADE_CONTAINER_SAFETENSORS_H

#include "binade/Container/AtomicFile.h"
#include "binade/Container/DType.h"
#include "binade/Container/ExternalFile.h"
#include <map>

namespace binade {

/// Maximum length of the header, as in the safetensors library.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

using SafetensorsMetadata = std::map<std::string, std::string>;

/// One tensor of a file. `name` is not escaped; use `quote` in messages.
struct TensorInfo {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape; ///< Empty for a scalar.
  std::uint64_t offset = 0;        ///< Offset of the first byte in the file.
  std::uint64_t bytes = 0;         ///< Number of elements times element size.

  /// Returns the number of elements; 1 for a scalar.
  std::uint64_t getNumElements() const { return bytes / byteSize(dtype); }
};

/// A safetensors file, or its bytes in memory, with a validated header: tensors
/// are contiguous and cover the data part exactly.
class Safetensors {
public:
  /// Opens a file that the user named.
  static Result<Safetensors> open(const std::string &path);

  /// Reads an open file, for example of `openBeneath`.
  static Result<Safetensors> open(ExternalFile file);

  /// Reads from memory, which has to outlive the result. `where` names it in
  /// messages.
  static Result<Safetensors> fromMemory(std::span<const std::byte> memory,
                                        std::string where);

  /// Returns the tensors in the order of their offsets.
  const std::vector<TensorInfo> &getTensors() const { return tensors; }
  /// Returns null if there is no such tensor.
  const TensorInfo *find(std::string_view name) const;
  const SafetensorsMetadata &getMetadata() const { return metadata; }
  /// Returns the printable path of the file for messages.
  const std::string &getPath() const;

  /// Copies bytes [start, start + into.size()) of a tensor.
  Result<void> read(const TensorInfo &tensor, std::uint64_t start,
                    std::span<std::byte> into) const;
  /// Copies the whole tensor; `into` has `tensor.bytes` bytes.
  Result<void> read(const TensorInfo &tensor, std::span<std::byte> into) const;

  /// Returns an error about a tensor of this file.
  Error errorAt(const TensorInfo &tensor, std::string message,
                int exitCode = ExitCode::Rejected) const;

private:
  Safetensors() = default;
  Result<void> loadHeader();
  Result<void> readBytes(std::uint64_t offset, std::span<std::byte> into) const;

  std::optional<ExternalFile> file;
  std::span<const std::byte> memory;
  std::string memoryName;
  std::vector<TensorInfo> tensors;
  std::map<std::string_view, std::size_t> index;
  SafetensorsMetadata metadata;
};

/// Writes a file in parts. Names, types and shapes of the tensors are given
/// first, then their bytes in any number of pieces. The header is padded with
/// spaces so that the data starts at a multiple of 64 bytes. Tensors are sorted
/// by decreasing element size, so that each is aligned to its elements; within
/// one size their order is kept. The file appears under its name only after
/// `finish` (see `AtomicFile`).
class SafetensorsWriter {
public:
  /// Computes `offset` and `bytes` of the tensors. Rejects repeated names, the
  /// name `__metadata__`, text that is not UTF-8, and negative or overflowing
  /// shapes.
  static Result<SafetensorsWriter> create(const std::string &path,
                                          std::vector<TensorInfo> tensors,
                                          const SafetensorsMetadata &metadata);

  /// Appends bytes to tensor `tensor` of the list given to `create`. Tensors
  /// may be filled in any order.
  Result<void> append(std::size_t tensor, std::span<const std::byte> bytes);

  /// Checks that all tensors are complete, and commits the file.
  Result<void> finish();

private:
  SafetensorsWriter(AtomicFile file, std::string where,
                    std::vector<TensorInfo> tensors);

  AtomicFile file;
  std::string where;
  std::vector<TensorInfo> tensors;
  std::vector<std::uint64_t> written; ///< Written bytes of each tensor.
};

/// A tensor in memory.
struct TensorBytes {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Writes a file of tensors that are in memory.
Result<void> writeSafetensors(const std::string &path,
                              std::span<const TensorBytes> tensors,
                              const SafetensorsMetadata &metadata = {});

} // namespace binade

#endif // BINADE_CONTAINER_SAFETENSORS_H
