//===- KernelObject.cpp - Loader of compiled kernels ----------------------===//

#include "KernelObject.h"
#include "binade/Container/IsaLimit.h"
#include "binade/Container/Printable.h"
#include <array>
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>

using namespace binade;

Result<void> binade::checkElf(std::span<const std::byte> object,
                              std::string_view where) {
  auto fail = [&](std::string message) {
    return Error{std::string(where), std::move(message)};
  };
  Elf64_Ehdr header;
  if (object.size() < sizeof(header))
    return fail("not an ELF object: " + std::to_string(object.size()) +
                " bytes");
  std::memcpy(&header, object.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return fail("not an ELF object");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != EM_X86_64)
    return fail("an ELF object of another machine (" +
                std::to_string(header.e_machine) + "), expected x86-64");
  if (header.e_type != ET_DYN || header.e_version != EV_CURRENT)
    return fail("an ELF object that is not a shared object");
  std::uint64_t size = object.size();
  std::uint64_t table = std::uint64_t(header.e_phnum) * sizeof(Elf64_Phdr);
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 ||
      header.e_phoff > size || size - header.e_phoff < table)
    return fail("program headers lie outside of the ELF object");
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, object.data() + header.e_phoff + i * sizeof(segment),
                sizeof(segment));
    if (segment.p_type != PT_NULL && segment.p_type != PT_GNU_STACK &&
        (segment.p_offset > size ||
         size - segment.p_offset < segment.p_filesz ||
         (segment.p_type == PT_LOAD && segment.p_memsz < segment.p_filesz)))
      return fail("segment " + std::to_string(i) +
                  " lies outside of the ELF object: it has been cut off");
  }
  return {};
}

Result<KernelObject> KernelObject::load(std::span<const std::byte> object,
                                        std::string_view where) {
  if (Result<void> valid = checkElf(object, where); !valid)
    return valid.takeError();
  KernelObject loaded;
  loaded.file = Descriptor(::memfd_create("binade-kernels", MFD_CLOEXEC));
  if (!loaded.file)
    return systemError(std::string(where), "cannot create a memory file",
                       errno);
  for (std::size_t done = 0; done < object.size();) {
    ssize_t written =
        ::write(loaded.file.get(), object.data() + done, object.size() - done);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return systemError(std::string(where), "cannot write a memory file",
                         errno);
    done += static_cast<std::size_t>(written);
  }
  std::string path = "/proc/self/fd/" + std::to_string(loaded.file.get());
  loaded.handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!loaded.handle) {
    const char *reason = ::dlerror();
    return Error{std::string(where), "cannot load the kernels: " +
                                         printable(reason ? reason : "?")};
  }
  return loaded;
}

KernelObject::KernelObject(KernelObject &&other) noexcept {
  *this = std::move(other);
}

KernelObject &KernelObject::operator=(KernelObject &&other) noexcept {
  std::swap(file, other.file);
  std::swap(handle, other.handle);
  return *this;
}

KernelObject::~KernelObject() {
  if (handle)
    ::dlclose(handle);
}

void *KernelObject::find(const std::string &symbol) const {
  return handle ? ::dlsym(handle, symbol.c_str()) : nullptr;
}

std::span<const std::string_view> binade::supportedIsaLevels() {
  static const std::span<const std::string_view> supported = [] {
    static constexpr std::array<std::string_view, 2> levels = {kIsaV4, kIsaV3};
    std::span<const std::string_view> all = levels;
    if (leavesOutAvx512() || !__builtin_cpu_supports("x86-64-v4"))
      all = all.subspan(1);
    if (!__builtin_cpu_supports("x86-64-v3"))
      all = {};
    return all;
  }();
  return supported;
}
