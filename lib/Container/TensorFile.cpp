//===- TensorFile.cpp - Readers of data files -----------------------------===//

#include "binade/Container/TensorFile.h"
#include "NpyHeader.h"
#include "Npz.h"
#include "SafetensorsHeader.h"
#include "binade/Container/Magic.h"
#include <algorithm>
#include <filesystem>

using namespace binade;
namespace fs = std::filesystem;

namespace {
class SafetensorsFile : public TensorFile::Reader {
public:
  explicit SafetensorsFile(Safetensors file) : file(std::move(file)) {}

  const std::string &getPath(const TensorInfo &) const override {
    return file.getPath();
  }
  Result<void> read(const TensorInfo &tensor, std::uint64_t start,
                    std::span<std::byte> into) const override {
    return file.read(tensor, start, into);
  }

private:
  Safetensors file;
};

/// Files with one array each.
class NpyFiles : public TensorFile::Reader {
public:
  const std::string &getPath(const TensorInfo &tensor) const override {
    return files.find(tensor.name)->second.getPath();
  }
  Result<void> read(const TensorInfo &tensor, std::uint64_t start,
                    std::span<std::byte> into) const override {
    return readRange(files.find(tensor.name)->second, tensor.offset + start,
                     into);
  }

  Result<TensorInfo> add(const std::string &path, ExternalFile file);

private:
  std::map<std::string, ExternalFile, std::less<>> files;
};
} // namespace

Result<TensorInfo> NpyFiles::add(const std::string &path, ExternalFile file) {
  auto read = [&](std::uint64_t offset, std::span<std::byte> into) {
    return readRange(file, offset, into);
  };
  std::string name = fs::path(path).stem().string();
  if (!isUtf8(name))
    return Error{file.getPath(), "its name is not UTF-8"};
  Result<TensorInfo> tensor =
      readNpyHeader(name, file.getSize(), read, file.getPath(), "");
  if (tensor)
    files.emplace(name, std::move(file));
  return tensor;
}

static constexpr const char *kExpected =
    "expected a .safetensors, .npz or .npy file, or a directory of .npy files";

static Result<OpenedTensors> openSafetensors(ExternalFile file) {
  Result<Safetensors> opened = Safetensors::open(std::move(file));
  if (!opened)
    return opened.takeError();
  std::vector<TensorInfo> tensors = opened->getTensors();
  return OpenedTensors{std::move(tensors),
                       std::make_unique<SafetensorsFile>(*std::move(opened))};
}

static Result<OpenedTensors> openNpy(const std::vector<std::string> &paths) {
  OpenedTensors opened;
  auto reader = std::make_unique<NpyFiles>();
  for (const std::string &path : paths) {
    Result<ExternalFile> file = openFile(path);
    if (!file)
      return file.takeError();
    Result<TensorInfo> tensor = reader->add(path, *std::move(file));
    if (!tensor)
      return tensor.takeError();
    opened.tensors.push_back(*std::move(tensor));
  }
  opened.reader = std::move(reader);
  return opened;
}

/// Opens a file by its contents.
static Result<OpenedTensors> openByContents(const std::string &path) {
  Result<ExternalFile> file = openFile(path);
  if (!file)
    return file.takeError();
  std::string head(std::min<std::uint64_t>(file->getSize(), kMagicBytes), '\0');
  if (Result<void> read =
          readRange(*file, 0, std::as_writable_bytes(std::span(head)));
      !read)
    return read.takeError();
  if (head.starts_with("\x93NUMPY"))
    return openNpy({path});
  // Checkpoints of PyTorch are zip archives too.
  constexpr std::size_t kFirstName = 30;
  bool isZip = head.starts_with("PK\x03\x04");
  if (isZip &&
      (head.find(".npy", kFirstName) != head.npos || path.ends_with(".npz")))
    return openNpz(*std::move(file));
  Result<OpenedTensors> opened = openSafetensors(*std::move(file));
  if (!opened && recognizeMagic(std::as_bytes(std::span(head))).empty())
    return opened.takeError().withNote(kExpected);
  return opened;
}

Result<TensorFile> TensorFile::open(const std::string &path) {
  std::error_code ignored;
  bool isDirectory = fs::is_directory(path, ignored);
  std::vector<std::string> files = listTensorFiles(path);
  if (files.empty())
    return Error{printable(path),
                 std::string("is a directory without .npy files: ") +
                     kExpected};
  Result<OpenedTensors> opened =
      isDirectory ? openNpy(files) : openByContents(path);
  if (!opened)
    return opened.takeError();
  return TensorFile(printable(path), std::move(opened->tensors),
                    std::move(opened->reader));
}

const TensorInfo *TensorFile::find(std::string_view name) const {
  auto found = std::ranges::find(tensors, name, &TensorInfo::name);
  return found == tensors.end() ? nullptr : &*found;
}

Result<void> TensorFile::read(const TensorInfo &tensor, std::uint64_t start,
                              std::span<std::byte> into) const {
  if (std::string fault = findRangeFault(tensor, start, into.size());
      !fault.empty())
    return errorAt(tensor, std::move(fault), ExitCode::Internal);
  if (Result<void> done = reader->read(tensor, start, into); !done)
    return done.takeError().withPart(tensorPart(tensor.name));
  return {};
}

Error TensorFile::errorAt(const TensorInfo &tensor, std::string message,
                          int exitCode) const {
  return Error{reader->getPath(tensor), std::move(message), exitCode,
               tensorPart(tensor.name)};
}

std::vector<std::string> binade::listTensorFiles(const std::string &path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored))
    return {path};
  std::vector<std::string> files;
  for (const fs::directory_entry &entry : fs::directory_iterator(path, ignored))
    if (entry.path().extension() == ".npy")
      files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}
