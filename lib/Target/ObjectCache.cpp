//===- ObjectCache.cpp - Cache of compiled kernels ------------------------===//

#include "ObjectCache.h"
#include "binade/Container/Sha256.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <sys/stat.h>
#include <unistd.h>

using namespace mlir;
using namespace mlir::binade;

static constexpr StringLiteral kMagic = "binade-kernel 2\n";

//===----------------------------------------------------------------------===//
// Format of an entry: a line of numbers, then the parts
//===----------------------------------------------------------------------===//

static std::string write(const EmittedCode &code) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  const KernelInfo &info = code.info;
  stream << info.extent << ' ' << info.grain << ' ' << info.workspaceBytes
         << ' ' << info.hasFinish << ' ' << info.hasStatus << ' '
         << info.inPlace.size();
  for (const SmallVector<unsigned> &operands : info.inPlace) {
    stream << ' ' << operands.size();
    for (unsigned operand : operands)
      stream << ' ' << operand;
  }
  stream << ' ' << code.parts.size();
  for (const std::string &part : code.parts)
    stream << ' ' << part.size();
  stream << '\n';
  for (const std::string &part : code.parts)
    stream << part;
  return text;
}

static std::optional<EmittedCode> read(StringRef text) {
  auto [line, rest] = text.split('\n');
  bool good = true;
  auto next = [&, &line = line]() -> int64_t {
    int64_t value = 0;
    line = line.ltrim(' ');
    good &= !line.consumeInteger(10, value);
    return value;
  };
  EmittedCode code;
  KernelInfo &info = code.info;
  info.extent = next();
  info.grain = next();
  info.workspaceBytes = next();
  info.hasFinish = next();
  info.hasStatus = next();
  for (int64_t results = next(); good && results > 0; --results) {
    SmallVector<unsigned> &operands = info.inPlace.emplace_back();
    for (int64_t count = next(); good && count > 0; --count)
      operands.push_back(next());
  }
  for (int64_t parts = next(); good && parts > 0; --parts) {
    auto size = static_cast<size_t>(next());
    code.parts.push_back(rest.take_front(size).str());
    rest = rest.drop_front(std::min(size, rest.size()));
  }
  if (!good)
    return std::nullopt;
  return code;
}

//===----------------------------------------------------------------------===//
// ObjectCache
//===----------------------------------------------------------------------===//

/// Returns why `path` is not a directory that only this user can access; empty
/// if it is.
static std::string explainUnsafe(const std::string &path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0)
    return "cannot be read";
  if (!S_ISDIR(info.st_mode))
    return "is not a directory";
  if (info.st_uid != ::geteuid())
    return "belongs to another user";
  if (info.st_mode & 077)
    return "is accessible to other users (run chmod 700 on it)";
  return "";
}

ObjectCache::ObjectCache(StringRef wanted, Location location)
    : location(location) {
  if (wanted.empty())
    return;
  std::string path = wanted.str();
  if (std::error_code code = llvm::sys::fs::create_directories(
          path, /*IgnoreExisting=*/true, llvm::sys::fs::owner_all)) {
    emitWarning(location) << "cache directory '" << path
                          << "' cannot be created: " << code.message();
    return;
  }
  std::string problem = explainUnsafe(path);
  if (problem.empty())
    directory = path;
  else
    emitWarning(location) << "cache directory '" << path << "' " << problem
                          << "; kernels are compiled without it";
}

static std::string getPath(StringRef directory, StringRef key) {
  SmallString<128> path(directory);
  llvm::sys::path::append(path, key + ".o");
  return path.str().str();
}

std::optional<EmittedCode> ObjectCache::find(StringRef key) const {
  if (directory.empty())
    return std::nullopt;
  std::string path = getPath(directory, key);
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false,
                                          /*IsVolatile=*/true);
  if (!file)
    return std::nullopt;
  StringRef bytes = (*file)->getBuffer();
  std::optional<EmittedCode> entry;
  if (bytes.consume_front(kMagic)) {
    auto [hash, body] = bytes.split('\n');
    if (::binade::sha256(std::string_view(body)) == hash)
      entry = read(body);
  }
  if (!entry)
    emitWarning(location) << "cached kernel '" << path
                          << "' is damaged; it is compiled again";
  return entry;
}

void ObjectCache::insert(StringRef key, const EmittedCode &code) const {
  if (directory.empty())
    return;
  // Another process may write the same entry, so that the file is renamed when
  // it is complete. Failures are ignored, because they only cost time.
  std::string path = getPath(directory, key);
  llvm::Expected<llvm::sys::fs::TempFile> file =
      llvm::sys::fs::TempFile::create(path + ".%%%%%%", 0600);
  if (!file)
    return llvm::consumeError(file.takeError());
  std::string body = write(code);
  {
    llvm::raw_fd_ostream stream(file->FD, /*shouldClose=*/false);
    stream << kMagic << ::binade::sha256(std::string_view(body)) << '\n'
           << body;
    stream.flush();
    if (stream.has_error()) {
      stream.clear_error();
      return llvm::consumeError(file->discard());
    }
  }
  llvm::consumeError(file->keep(path));
}
