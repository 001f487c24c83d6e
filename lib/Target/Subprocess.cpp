//===- Subprocess.cpp - External programs and their files -----------------===//

#include "Subprocess.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

using namespace mlir;
using namespace mlir::binade;

Scratch::Scratch() {
  SmallString<128> name;
  failed = bool(llvm::sys::fs::createUniqueDirectory("binade-target", name));
  path = name.str().str();
}

Scratch::~Scratch() {
  if (!failed)
    llvm::sys::fs::remove_directories(path);
}

LogicalResult Scratch::check(std::string &error) const {
  if (failed)
    error = "cannot create a directory for temporary files";
  return success(!failed);
}

std::string Scratch::file(const Twine &name) const {
  SmallString<128> full(path);
  llvm::sys::path::append(full, name);
  return full.str().str();
}

LogicalResult Scratch::write(StringRef path, StringRef bytes,
                             std::string &error) const {
  std::error_code code;
  llvm::raw_fd_ostream stream(path, code);
  bool good = !code;
  if (good) {
    stream << bytes;
    stream.close();
    good = !stream.has_error();
  }
  stream.clear_error();
  if (!good)
    error = ("cannot write temporary file " + path).str();
  return success(good);
}

FailureOr<std::string> mlir::binade::readFile(StringRef path,
                                              std::string &error) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file) {
    error = ("cannot read " + path + ": " + file.getError().message()).str();
    return failure();
  }
  return (*file)->getBuffer().str();
}

LogicalResult mlir::binade::runProgram(ArrayRef<StringRef> command,
                                       const Scratch &scratch,
                                       std::string &log) {
  std::string output = scratch.file("log");
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(output),
                                          StringRef(output)};
  int status = llvm::sys::ExecuteAndWait(command.front(), command, std::nullopt,
                                         redirects, 0, 0, &log);
  if (log.empty())
    if (auto text = llvm::MemoryBuffer::getFile(output))
      log = (*text)->getBuffer().trim().str();
  return success(status == 0);
}
