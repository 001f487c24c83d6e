//===- TensorFile.h - Readers of data files ---------------------*- C++ -*-===//
// The arrays that a user has: a safetensors file, NumPy's .npz or .npy, or a
// directory of .npy files.
//===----------------------------------------------------------------------===//

#ifndef BINADE_CONTAINER_TENSORFILE_H
#define BINADE_CONTAINER_TENSORFILE_H

#include "binade/Container/Safetensors.h"
#include <memory>

namespace binade {

/// Named tensors in a file or a directory. The contents of the file decide how
/// it is read, not its name. The tensor of a .npy file is called like the file.
class TensorFile {
public:
  /// The reader of one format.
  struct Reader {
    virtual ~Reader() = default;
    /// Returns the printable path of the file that contains the tensor.
    virtual const std::string &getPath(const TensorInfo &tensor) const = 0;
    /// Copies bytes whose range has been checked.
    virtual Result<void> read(const TensorInfo &tensor, std::uint64_t start,
                              std::span<std::byte> into) const = 0;
  };

  /// Opens what the user named. Arrays of an .npz file that are stored as they
  /// are stay in the file; compressed ones are decompressed to memory. An error
  /// (exit code 3) names the array that has no element type of safetensors,
  /// that is big-endian, or that is in Fortran order.
  static Result<TensorFile> open(const std::string &path);

  const std::vector<TensorInfo> &getTensors() const { return tensors; }
  /// Returns null if there is no such tensor.
  const TensorInfo *find(std::string_view name) const;
  /// Returns the printable path for messages.
  const std::string &getPath() const { return path; }

  /// Copies bytes [start, start + into.size()) of a tensor.
  Result<void> read(const TensorInfo &tensor, std::uint64_t start,
                    std::span<std::byte> into) const;

  /// Returns an error about a tensor of this file.
  Error errorAt(const TensorInfo &tensor, std::string message,
                int exitCode = ExitCode::Rejected) const;

private:
  TensorFile(std::string path, std::vector<TensorInfo> tensors,
             std::unique_ptr<Reader> reader)
      : path(std::move(path)), tensors(std::move(tensors)),
        reader(std::move(reader)) {}

  std::string path;
  std::vector<TensorInfo> tensors;
  std::unique_ptr<Reader> reader;
};

/// Returns the paths of the files that `TensorFile::open` reads: `path`, or the
/// .npy files in this directory, in the order of their names.
std::vector<std::string> listTensorFiles(const std::string &path);

} // namespace binade

#endif // BINADE_CONTAINER_TENSORFILE_H
