//===- KernelObject.h - Compiled kernels, opened from memory ----*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_KERNELOBJECT_H
#define BINADE_LIB_RUNTIME_EXECUTION_KERNELOBJECT_H

#include "binade/Container/Descriptor.h"
#include "binade/Container/Error.h"
#include <span>

namespace binade {

/// An ELF shared object for this machine.
class KernelObject {
public:
  /// Checks the object's headers and loads it. `where` names it in messages.
  static Result<KernelObject> load(std::span<const std::byte> object,
                                   std::string_view where);

  KernelObject() = default;
  KernelObject(KernelObject &&other) noexcept;
  KernelObject &operator=(KernelObject &&other) noexcept;
  ~KernelObject();

  /// Null when there is no such symbol.
  void *find(const std::string &symbol) const;

private:
  // The loader tells objects apart by path, and the path names the descriptor:
  // it has to stay open for as long as the object is loaded.
  Descriptor file;
  void *handle = nullptr;
};

/// Accepts an ELF shared object of this machine whose program headers lie
/// inside it.
Result<void> checkElf(std::span<const std::byte> object,
                      std::string_view where);

/// `x86-64-v4`, `x86-64-v3` (what this CPU executes, best first). The
/// environment variable BINADE_ISA removes those above the one it names.
std::span<const std::string_view> supportedIsaLevels();

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_KERNELOBJECT_H
