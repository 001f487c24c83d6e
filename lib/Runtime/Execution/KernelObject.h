//===- KernelObject.h - Loader of compiled kernels --------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_KERNELOBJECT_H
#define BINADE_LIB_RUNTIME_EXECUTION_KERNELOBJECT_H

#include "binade/Container/Descriptor.h"
#include "binade/Container/Error.h"
#include <span>

namespace binade {

/// A loaded ELF shared object with compiled kernels.
class KernelObject {
public:
  /// Checks the object's headers and loads it. `where` names it in messages.
  static Result<KernelObject> load(std::span<const std::byte> object,
                                   std::string_view where);

  KernelObject() = default;
  KernelObject(KernelObject &&other) noexcept;
  KernelObject &operator=(KernelObject &&other) noexcept;
  ~KernelObject();

  /// Returns the address of a symbol; null if there is no such symbol.
  void *find(const std::string &symbol) const;

private:
  // The dynamic loader identifies objects by path, and the path contains the
  // descriptor. So it stays open for as long as the object is loaded.
  Descriptor file;
  void *handle = nullptr;
};

/// Checks that `object` is an x86-64 ELF shared object whose segments lie
/// within it.
Result<void> checkElf(std::span<const std::byte> object,
                      std::string_view where);

/// Returns the instruction set levels that this CPU supports, best first:
/// `x86-64-v4`, `x86-64-v3`. The environment variable BINADE_ISA removes levels
/// above the one it names.
std::span<const std::string_view> supportedIsaLevels();

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_KERNELOBJECT_H
