//===- Safetensors.h - Read and write safetensors files ---------*- C++ -*-===//
// The one container of Binade: bundles, data sets, checkpoints and results.
// Layout: u64 header length (little-endian), JSON header, tensor bytes.
//===----------------------------------------------------------------------===//

#ifndef BINADE_CONTAINER_SAFETENSORS_H
#define BINADE_CONTAINER_SAFETENSORS_H

#include "binade/Container/AtomicFile.h"
#include "binade/Container/DType.h"
#include "binade/Container/ExternalFile.h"
#include <map>

namespace binade {

/// A longer header is rejected, as the format's own library does.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

using SafetensorsMetadata = std::map<std::string, std::string>;

/// One tensor of a file. `name` holds the bytes of the file: pass it through
/// `quote` before showing it.
struct TensorInfo {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape; ///< Empty for a scalar.
  std::uint64_t offset = 0; ///< Of the first byte, from the file's start.
  std::uint64_t bytes = 0;  ///< Product of the shape times element size.

  /// Product of the shape, 1 for a scalar.
  std::uint64_t getNumElements() const { return bytes / byteSize(dtype); }
};

/// A file (or a part of memory) whose header has been checked completely:
/// tensors lie one after the other and cover the data part exactly.
class Safetensors {
public:
  /// Opens a file that the user named.
  static Result<Safetensors> open(const std::string &path);

  /// Reads a file that is open, for example by `openBeneath`.
  static Result<Safetensors> open(ExternalFile file);

  /// Reads from memory, which has to outlive the result. `where` names it in
  /// messages.
  static Result<Safetensors> fromMemory(std::span<const std::byte> memory,
                                        std::string where);

  /// In the order of their bytes.
  const std::vector<TensorInfo> &getTensors() const { return tensors; }
  /// Null when there is none.
  const TensorInfo *find(std::string_view name) const;
  const SafetensorsMetadata &getMetadata() const { return metadata; }
  /// The file's name for messages, printable.
  const std::string &getPath() const;

  /// Copies bytes [start, start + into.size()) of a tensor's data.
  Result<void> read(const TensorInfo &tensor, std::uint64_t start,
                    std::span<std::byte> into) const;
  /// Copies the whole tensor; `into` has `tensor.bytes` bytes.
  Result<void> read(const TensorInfo &tensor, std::span<std::byte> into) const;

  /// An error about one tensor of this file.
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

/// Writes a file whose tensors are known by name, type and shape beforehand
/// and whose bytes arrive in pieces. The header is padded with spaces so that
/// the data starts at a multiple of 64 bytes; tensors lie in the order of
/// decreasing element size (then as given), so that each is aligned to its
/// element. Nothing appears under `path` before `finish` (see `AtomicFile`).
class SafetensorsWriter {
public:
  /// `offset` and `bytes` of the tensors are computed, not read. Rejected:
  /// repeated names, the name `__metadata__`, text that is not UTF-8, negative
  /// or overflowing shapes.
  static Result<SafetensorsWriter> create(const std::string &path,
                                          std::vector<TensorInfo> tensors,
                                          const SafetensorsMetadata &metadata);

  /// Appends bytes to tensor number `tensor` of the list given to `create`.
  /// Tensors may be filled in any order.
  Result<void> append(std::size_t tensor, std::span<const std::byte> bytes);

  /// Checks that every tensor is complete and makes the file appear.
  Result<void> finish();

private:
  SafetensorsWriter(AtomicFile file, std::string where,
                    std::vector<TensorInfo> tensors);

  AtomicFile file;
  std::string where;
  std::vector<TensorInfo> tensors;
  std::vector<std::uint64_t> written; ///< Bytes per tensor.
};

/// A tensor in memory.
struct TensorBytes {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Writes tensors that are in memory as a whole file.
Result<void> writeSafetensors(const std::string &path,
                              std::span<const TensorBytes> tensors,
                              const SafetensorsMetadata &metadata = {});

} // namespace binade

#endif // BINADE_CONTAINER_SAFETENSORS_H
