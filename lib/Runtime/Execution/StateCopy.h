//===- StateCopy.h - A copy of what steps change ----------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_STATECOPY_H
#define BINADE_LIB_RUNTIME_EXECUTION_STATECOPY_H

#include "binade/Runtime/Program.h"

namespace binade {

/// A copy, in the host's memory, of the ports of some roles that steps change.
/// On a device it is of what the device holds.
class StateCopy {
public:
  StateCopy(Program &program, std::vector<plan::Role> roles);

  /// Copies what the ports hold.
  void capture();
  /// Gives the ports what was copied last.
  void restore() const;

private:
  Program &program;
  std::vector<plan::Role> roles;
  std::vector<std::vector<std::byte>> copies; ///< By role, then port.
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_STATECOPY_H
