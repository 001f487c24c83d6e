//===- Assemble.cpp - Machine code by ptxas -------------------------------===//

#include "../Subprocess.h"
#include "EmitPtx.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

using namespace mlir;
using namespace mlir::binade;

static std::string findInRoot(StringRef root) {
  SmallString<128> path(root);
  llvm::sys::path::append(path, "bin", "ptxas");
  bool isThere = !root.empty() && llvm::sys::fs::can_execute(path);
  return isThere ? path.str().str() : "";
}

std::string mlir::binade::findPtxas() {
  // If the variable is set, no other place is searched.
  if (const char *root = ::getenv("BINADE_CUDA_ROOT"); root && *root)
    return findInRoot(root);
  std::string path = findInRoot(BINADE_CUDA_ROOT);
  if (!path.empty())
    return path;
  llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName("ptxas");
  return found ? *found : "";
}

/// Copies `path` out of the temporary directory. Returns the end of an error
/// message that names the copy.
static std::string keep(StringRef path) {
  SmallString<128> kept;
  if (llvm::sys::fs::createTemporaryFile("binade", "ptx", kept) ||
      llvm::sys::fs::copy_file(path, kept))
    return "";
  return ("\nits input is kept in '" + kept + "'").str();
}

FailureOr<std::string> mlir::binade::assemble(StringRef ptx,
                                              const CudaChip &chip,
                                              StringRef assembler,
                                              std::string &error) {
  Scratch scratch;
  if (failed(scratch.check(error)))
    return failure();
  std::string input = scratch.file("kernel.ptx"),
              output = scratch.file("kernel.cubin"),
              arch = ("-arch=" + chip.name).str(), log;
  if (failed(scratch.write(input, ptx, error)))
    return failure();
  if (failed(
          runProgram({assembler, arch, input, "-o", output}, scratch, log))) {
    error = ("assembler '" + assembler + "' fails for " + chip.name +
             " (set BINADE_CUDA_ROOT to another CUDA Toolkit): " + log +
             keep(input))
                .str();
    return failure();
  }
  return readFile(output, error);
}

std::string mlir::binade::getPtxasVersion(StringRef path) {
  Scratch scratch;
  std::string log;
  bool runs = succeeded(scratch.check(log)) &&
              succeeded(runProgram({path, "--version"}, scratch, log));
  return runs ? log : "";
}
