//===- Npz.cpp - Archives of NumPy arrays ---------------------------------===//
// A zip archive with one .npy file per array, which minizip reads. The archive
// is untrusted: sizes are checked before memory is allocated for them.
//===----------------------------------------------------------------------===//

#include "Npz.h"
#include "NpyHeader.h"
#include <minizip/unzip.h>
#include <set>

using namespace binade;

/// Deflate does not compress by more than a factor of 1032.
static constexpr std::uint64_t kMaxRatio = 1032;
/// A limit for the number of arrays, which a file claims.
static constexpr std::uint64_t kMaxArrays = 1'000'000;

//===----------------------------------------------------------------------===//
// Files for minizip
//===----------------------------------------------------------------------===//

namespace {
/// An open file with a position, as minizip sees it.
struct Stream {
  const ExternalFile *file;
  std::uint64_t position = 0;
};

struct CloseArchive {
  void operator()(void *archive) const { unzClose(archive); }
};
using Archive = std::unique_ptr<void, CloseArchive>;
} // namespace

static uLong readStream(void *, void *handle, void *into, uLong size) {
  auto &stream = *static_cast<Stream *>(handle);
  std::uint64_t left = stream.file->getSize() - stream.position;
  std::size_t count = std::min<std::uint64_t>(size, left);
  std::span<std::byte> bytes(static_cast<std::byte *>(into), count);
  if (!readRange(*stream.file, stream.position, bytes))
    return 0;
  stream.position += count;
  return count;
}

static long seekStream(void *, void *handle, ZPOS64_T offset, int origin) {
  auto &stream = *static_cast<Stream *>(handle);
  std::uint64_t base = origin == ZLIB_FILEFUNC_SEEK_CUR ? stream.position
                       : origin == ZLIB_FILEFUNC_SEEK_END
                           ? stream.file->getSize()
                           : 0;
  std::uint64_t position;
  if (__builtin_add_overflow(base, offset, &position) ||
      position > stream.file->getSize())
    return -1;
  stream.position = position;
  return 0;
}

static Archive openArchive(Stream &stream) {
  zlib_filefunc64_def functions = {};
  functions.opaque = &stream;
  functions.zopen64_file = [](void *opaque, const void *, int) -> void * {
    return opaque;
  };
  functions.zread_file = readStream;
  functions.ztell64_file = [](void *, void *handle) -> ZPOS64_T {
    return static_cast<Stream *>(handle)->position;
  };
  functions.zseek64_file = seekStream;
  functions.zclose_file = [](void *, void *) { return 0; };
  functions.zerror_file = [](void *, void *) { return 0; };
  return Archive(unzOpen2_64("", &functions));
}

//===----------------------------------------------------------------------===//
// Arrays
//===----------------------------------------------------------------------===//

namespace {
/// Arrays in the file, or decompressed.
class NpzReader : public TensorFile::Reader {
public:
  explicit NpzReader(ExternalFile file) : file(std::move(file)) {}

  const std::string &getPath(const TensorInfo &) const override {
    return file.getPath();
  }
  Result<void> read(const TensorInfo &tensor, std::uint64_t start,
                    std::span<std::byte> into) const override {
    auto bytes = decompressed.find(tensor.name);
    if (bytes == decompressed.end())
      return readRange(file, tensor.offset + start, into);
    auto from = bytes->second.begin() +
                static_cast<std::ptrdiff_t>(tensor.offset + start);
    std::copy_n(from, into.size(), into.begin());
    return {};
  }

  /// Reads the list of arrays.
  Result<std::vector<TensorInfo>> open();

private:
  Result<TensorInfo> openArray(void *archive);
  Result<TensorInfo> findStored(void *archive, const unz_file_info64 &info,
                                const std::string &name) const;
  Result<TensorInfo> decompress(void *archive, const unz_file_info64 &info,
                                const std::string &name);
  Error reject(const std::string &name, std::string message,
               int exitCode = ExitCode::Rejected) const {
    return {file.getPath(), std::move(message), exitCode,
            "array " + quote(name)};
  }

  ExternalFile file;
  std::map<std::string, std::vector<std::byte>, std::less<>> decompressed;
};
} // namespace

Result<std::vector<TensorInfo>> NpzReader::open() {
  Stream stream{&file};
  Archive archive = openArchive(stream);
  unz_global_info64 global;
  if (!archive || unzGetGlobalInfo64(archive.get(), &global) != UNZ_OK)
    return Error{file.getPath(), "cannot read the list of arrays at the end of "
                                 "the file: is it cut off?"};
  if (global.number_entry > kMaxArrays)
    return Error{file.getPath(),
                 "has " + std::to_string(global.number_entry) +
                     " arrays, the limit is " + std::to_string(kMaxArrays),
                 ExitCode::Resources};
  std::vector<TensorInfo> tensors;
  std::set<std::string> names;
  int status = unzGoToFirstFile(archive.get());
  for (; status == UNZ_OK; status = unzGoToNextFile(archive.get())) {
    Result<TensorInfo> tensor = openArray(archive.get());
    if (!tensor)
      return tensor.takeError();
    if (!names.insert(tensor->name).second)
      return reject(tensor->name, "is in the file twice");
    tensors.push_back(*std::move(tensor));
  }
  if (status != UNZ_END_OF_LIST_OF_FILE)
    return Error{file.getPath(), "the list of arrays is damaged"};
  return tensors;
}

Result<TensorInfo> NpzReader::openArray(void *archive) {
  constexpr std::size_t kMaxName = 4096;
  unz_file_info64 info;
  std::string name(kMaxName, '\0');
  if (unzGetCurrentFileInfo64(archive, &info, name.data(), name.size(), nullptr,
                              0, nullptr, 0) != UNZ_OK)
    return Error{file.getPath(), "the list of arrays is damaged"};
  name.resize(std::min<std::size_t>(info.size_filename, kMaxName));
  if (!isUtf8(name))
    return reject(name, "its name is not UTF-8");
  if (!name.ends_with(".npy"))
    return reject(name, "is not a NumPy array: numpy.savez(FILE, NAME=ARRAY) "
                        "writes archives whose files are called NAME.npy");
  name.resize(name.size() - 4);
  constexpr unsigned kEncrypted = 1, kStored = 0;
  if (info.flag & kEncrypted)
    return reject(name, "is encrypted");
  if (info.compression_method != kStored &&
      info.compression_method != Z_DEFLATED)
    return reject(name, "compression method " +
                            std::to_string(info.compression_method) +
                            ", expected none or deflate");
  if (unzOpenCurrentFile(archive) != UNZ_OK)
    return reject(name, "its place in the file is damaged");
  return info.compression_method == kStored ? findStored(archive, info, name)
                                            : decompress(archive, info, name);
}

Result<TensorInfo> NpzReader::findStored(void *archive,
                                         const unz_file_info64 &info,
                                         const std::string &name) const {
  std::uint64_t begin = unzGetCurrentFileZStreamPos64(archive);
  unzCloseCurrentFile(archive);
  if (begin > file.getSize() || info.uncompressed_size > file.getSize() - begin)
    return reject(name, "has " + std::to_string(info.uncompressed_size) +
                            " bytes at byte " + std::to_string(begin) +
                            ", but the file ends at byte " +
                            std::to_string(file.getSize()) +
                            ": is it cut off?");
  auto read = [&](std::uint64_t offset, std::span<std::byte> into) {
    return readRange(file, begin + offset, into);
  };
  Result<TensorInfo> tensor =
      readNpyHeader(name, info.uncompressed_size, read, file.getPath(),
                    "array " + quote(name));
  if (tensor)
    tensor->offset += begin;
  return tensor;
}

Result<TensorInfo> NpzReader::decompress(void *archive,
                                         const unz_file_info64 &info,
                                         const std::string &name) {
  constexpr std::uint64_t kPiece = 1 << 20, kSlack = 1024;
  if (info.compressed_size > file.getSize() ||
      info.uncompressed_size / kMaxRatio > info.compressed_size + kSlack)
    return reject(name, std::to_string(info.compressed_size) +
                            " compressed bytes cannot hold the " +
                            std::to_string(info.uncompressed_size) +
                            " bytes that the file claims");
  std::vector<std::byte> bytes;
  while (bytes.size() < info.uncompressed_size) {
    std::size_t done = bytes.size();
    bytes.resize(
        std::min<std::uint64_t>(done + kPiece, info.uncompressed_size));
    int count = unzReadCurrentFile(archive, bytes.data() + done,
                                   static_cast<unsigned>(bytes.size() - done));
    if (count <= 0)
      return reject(name, "its compressed data is damaged or cut off");
    bytes.resize(done + static_cast<std::size_t>(count));
  }
  if (unzCloseCurrentFile(archive) != UNZ_OK)
    return reject(name, "its data does not match its checksum");
  auto read = [&](std::uint64_t offset,
                  std::span<std::byte> into) -> Result<void> {
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset),
                into.size(), into.begin());
    return {};
  };
  Result<TensorInfo> tensor = readNpyHeader(
      name, bytes.size(), read, file.getPath(), "array " + quote(name));
  if (tensor)
    decompressed.emplace(name, std::move(bytes));
  return tensor;
}

Result<OpenedTensors> binade::openNpz(ExternalFile file) {
  auto reader = std::make_unique<NpzReader>(std::move(file));
  Result<std::vector<TensorInfo>> tensors = reader->open();
  if (!tensors)
    return tensors.takeError();
  return OpenedTensors{*std::move(tensors), std::move(reader)};
}
