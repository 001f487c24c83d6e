//===- SetPort.cpp - Checked writes to ports ------------------------------===//

#include "Integers.h"
#include "ProgramImplementation.h"
#include "binade/Container/Printable.h"
#include <algorithm>
#include <cstring>

using namespace binade;
using namespace binade::plan;

Result<void> Program::set(Role role, std::string_view name,
                          std::span<const std::byte> values) {
  std::string place = std::string(plan::name(role)) + " " + quote(name);
  std::optional<Tensor> found = find(role, name);
  if (!found)
    return Error{"binade", "the program has no " + place, ExitCode::Usage};
  if (values.size() != found->bytes.size())
    return Error{"binade",
                 place + " has " + std::to_string(found->bytes.size()) +
                     " bytes, got " + std::to_string(values.size()),
                 ExitCode::Usage};
  const Port *port = getPlan().findPort(role, name);
  if (port->check)
    if (auto wrong = findOutOfRange(found->dtype, values, 0, *port->check))
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
  std::ranges::copy(values, found->bytes.begin());
  return {};
}

Result<void> Program::checkIndices() const {
  if (auto launch = findIndexFault())
    return Error{"batch",
                 "leads to an index or label that is out of range, in " +
                     quote(*launch)};
  return {};
}
