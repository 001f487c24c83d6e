//===- SetPort.cpp - Checked writes to ports ------------------------------===//

#include "Integers.h"
#include "ProgramImplementation.h"
#include "binade/Container/Printable.h"
#include <algorithm>
#include <cstring>

using namespace binade;
using namespace binade::plan;

Result<void> Program::check(Role role, std::string_view name,
                            std::span<const std::byte> values) const {
  std::string place = std::string(plan::name(role)) + " " + quote(name);
  const Port *port = getPlan().findPort(role, name);
  if (!port)
    return Error{"binade", "the program has no " + place, ExitCode::Usage};
  const Buffer &buffer = getPlan().buffers[port->buffer];
  if (values.size() != buffer.bytes)
    return Error{"binade",
                 place + " has " + std::to_string(buffer.bytes) +
                     " bytes, got " + std::to_string(values.size()),
                 ExitCode::Usage};
  if (port->check)
    if (auto wrong = findOutOfRange(buffer.dtype, values, 0, *port->check))
      return Error{place, "element " + std::to_string(wrong->index) + " is " +
                              std::to_string(wrong->value) + ", not in [" +
                              std::to_string(port->check->low) + ", " +
                              std::to_string(port->check->high) + ")"};
  if (role == Role::Hyper) {
    double value;
    std::memcpy(&value, values.data(), sizeof(value));
    if (auto wrong = explainViolation(*port, value); !wrong.empty())
      return Error{place, wrong};
  }
  return {};
}

Result<void> Program::set(Role role, std::string_view name,
                          std::span<const std::byte> values) {
  if (Result<void> done = check(role, name, values); !done)
    return done;
  const Port &port = *getPlan().findPort(role, name);
  if (implementation->isOnDevice(port))
    return implementation->upload(port, values);
  std::ranges::copy(values, implementation->tensorOf(port).bytes.begin());
  return {};
}

Result<void> Program::checkIndices() const {
  if (auto launch = findIndexFault())
    return Error{"batch",
                 "leads to an index or label that is out of range, in " +
                     quote(*launch)};
  return {};
}
