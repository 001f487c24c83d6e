//===- LinkObjects.cpp - one shared object of many ------------------------===//

#include "EmitObject.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

using namespace mlir;

namespace {
/// A directory for one link, removed with what is in it.
class Scratch {
public:
  Scratch() {
    SmallString<128> name;
    failed = bool(llvm::sys::fs::createUniqueDirectory("binade-link", name));
    path = name.str().str();
  }
  ~Scratch() {
    if (!failed)
      llvm::sys::fs::remove_directories(path);
  }
  std::string file(const Twine &name) const {
    SmallString<128> full(path);
    llvm::sys::path::append(full, name);
    return full.str().str();
  }
  bool failed;
  std::string path;
};
} // namespace

static bool writeFile(StringRef path, StringRef bytes) {
  std::error_code code;
  llvm::raw_fd_ostream stream(path, code);
  if (code)
    return false;
  stream << bytes;
  stream.close();
  bool good = !stream.has_error();
  stream.clear_error();
  return good;
}

static std::string getLinker() {
  if (const char *chosen = ::getenv("BINADE_LLD"); chosen && *chosen)
    return chosen;
  return BINADE_LLD;
}

FailureOr<std::string>
mlir::binade::linkObjects(ArrayRef<std::string> objects,
                          ArrayRef<std::pair<std::string, std::string>> names,
                          std::string &error) {
  Scratch scratch;
  if (scratch.failed) {
    error = "cannot create a directory for temporary files";
    return failure();
  }
  std::string output = scratch.file("kernels.so");
  std::string arguments;
  llvm::raw_string_ostream response(arguments);
  for (auto [index, object] : llvm::enumerate(objects)) {
    std::string path = scratch.file(Twine(index) + ".o");
    if (!writeFile(path, object)) {
      error = "cannot write temporary file " + path;
      return failure();
    }
    response << '"' << path << "\"\n";
  }
  for (auto &[name, symbol] : names)
    response << "--defsym=" << name << "=" << symbol << "\n";
  std::string responseFile = scratch.file("arguments");
  if (!writeFile(responseFile, response.str())) {
    error = "cannot write temporary file " + responseFile;
    return failure();
  }
  std::string linker = getLinker(), list = "@" + responseFile;
  SmallVector<StringRef> command = {
      linker,        "-shared",     "-o",
      output,        "--as-needed", "--hash-style=gnu",
      "-z",          "noexecstack", "--build-id=none",
      "--strip-all", list,          BINADE_LIBM};
  std::string log = scratch.file("log");
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log),
                                          StringRef(log)};
  std::string reason;
  int status = llvm::sys::ExecuteAndWait(linker, command, std::nullopt,
                                         redirects, 0, 0, &reason);
  if (status != 0) {
    error =
        "cannot run linker '" + linker + "' (set BINADE_LLD to another ld.lld)";
    if (!reason.empty())
      error += ": " + reason;
    else if (auto text = llvm::MemoryBuffer::getFile(log))
      error += ": " + (*text)->getBuffer().trim().str();
    return failure();
  }
  auto result = llvm::MemoryBuffer::getFile(output);
  if (!result) {
    error = "cannot read " + output + ": " + result.getError().message();
    return failure();
  }
  return (*result)->getBuffer().str();
}
