//===- StateCopy.h - Snapshots of training state ----------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_STATECOPY_H
#define BINADE_LIB_RUNTIME_EXECUTION_STATECOPY_H

#include "binade/Runtime/Program.h"

namespace binade {

/// A snapshot, in host memory, of the ports of some roles, except frozen ones.
/// For a program on a device, it copies the values on the device.
class StateCopy {
public:
  StateCopy(Program &program, std::vector<plan::Role> roles);

  /// Copies the ports.
  void capture();
  /// Restores the ports from the last copy.
  void restore() const;

private:
  Program &program;
  std::vector<plan::Role> roles;
  std::vector<std::vector<std::byte>> copies; ///< By role, then port.
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_STATECOPY_H
