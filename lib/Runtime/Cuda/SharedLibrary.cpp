//===- SharedLibrary.cpp - Libraries loaded at run time -------------------===//

#include "SharedLibrary.h"
#include <dlfcn.h>

using namespace binade;
using namespace binade::cuda;

Result<SharedLibrary> SharedLibrary::open(std::string title,
                                          std::span<const char *const> names,
                                          std::string_view package) {
  SharedLibrary library;
  Error error = {"cuda", title + " cannot be opened", ExitCode::Device};
  for (const char *name : names) {
    library.handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library.handle)
      break;
    const char *reason = ::dlerror();
    error =
        std::move(error).withNote("tried " + printable(reason ? reason : name));
  }
  if (!library.handle)
    return std::move(error).withNote("it comes with " + std::string(package) +
                                     "; LD_LIBRARY_PATH names its folder");
  library.title = std::move(title);
  return library;
}

void *SharedLibrary::look(const char *symbol) {
  void *address = ::dlsym(handle, symbol);
  if (!address && !missing)
    missing = symbol;
  return address;
}

Result<void> SharedLibrary::check(std::string_view needed) const {
  if (!missing)
    return {};
  return Error{"cuda", title + " has no function " + missing, ExitCode::Device}
      .withNote("version " + std::string(needed) + " is needed");
}
