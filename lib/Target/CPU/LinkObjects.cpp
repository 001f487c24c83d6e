//===- LinkObjects.cpp - Link objects to a shared object ------------------===//

#include "../Subprocess.h"
#include "EmitObject.h"
#include <dlfcn.h>
#include <link.h>

using namespace mlir;

static std::string getLinker() {
  if (const char *chosen = ::getenv("BINADE_LLD"); chosen && *chosen)
    return chosen;
  return BINADE_LLD;
}

/// Returns the path of the libm that this process has loaded; it differs
/// between systems. Kernels that call pow or exp of f64 need it.
static std::string findMath() {
  link_map *found = nullptr;
  void *math = ::dlopen("libm.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (!math)
    return "";
  ::dlinfo(math, RTLD_DI_LINKMAP, &found);
  std::string path = found ? found->l_name : "";
  ::dlclose(math);
  return path;
}

FailureOr<std::string>
mlir::binade::linkObjects(ArrayRef<std::string> objects,
                          ArrayRef<std::pair<std::string, std::string>> names,
                          std::string &error) {
  Scratch scratch;
  if (failed(scratch.check(error)))
    return failure();
  std::string output = scratch.file("kernels.so");
  std::string arguments;
  llvm::raw_string_ostream response(arguments);
  for (auto [index, object] : llvm::enumerate(objects)) {
    std::string path = scratch.file(Twine(index) + ".o");
    if (failed(scratch.write(path, object, error)))
      return failure();
    response << '"' << path << "\"\n";
  }
  for (auto &[name, symbol] : names)
    response << "--defsym=" << name << "=" << symbol << "\n";
  std::string responseFile = scratch.file("arguments");
  if (failed(scratch.write(responseFile, response.str(), error)))
    return failure();
  std::string linker = getLinker(), list = "@" + responseFile;
  std::string math = findMath();
  SmallVector<StringRef> command = {
      linker,        "-shared",     "-o",
      output,        "--as-needed", "--hash-style=gnu",
      "-z",          "noexecstack", "--build-id=none",
      "--strip-all", list,          math};
  std::string log;
  if (failed(runProgram(command, scratch, log))) {
    error =
        "cannot run linker '" + linker + "' (set BINADE_LLD to another ld.lld)";
    if (!log.empty())
      error += ": " + log;
    return failure();
  }
  return readFile(output, error);
}
