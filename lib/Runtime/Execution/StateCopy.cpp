//===- StateCopy.cpp - Snapshots of training state ------------------------===//

#include "StateCopy.h"
#include <cstring>

using namespace binade;
using namespace binade::plan;

StateCopy::StateCopy(Program &program, std::vector<Role> roles)
    : program(program), roles(std::move(roles)) {
  for (Role role : this->roles)
    for (const Port &port : program.getPlan().ports)
      if (port.role == role && !port.frozen)
        copies.emplace_back(program.getPlan().buffers[port.buffer].bytes);
}

/// Calls `use` with each port of `roles` that is not frozen, in order.
template <typename Use>
static void forEach(const Program &program, const std::vector<Role> &roles,
                    bool isReadOnly, Use use) {
  for (Role role : roles) {
    std::vector<Tensor> tensors =
        isReadOnly ? program.read(role) : program.tensors(role);
    std::size_t next = 0;
    for (const Port &port : program.getPlan().ports)
      if (port.role == role)
        if (const Tensor &tensor = tensors[next++]; !port.frozen)
          use(tensor);
  }
}

void StateCopy::capture() {
  auto copy = copies.begin();
  forEach(program, roles, /*isReadOnly=*/true, [&](const Tensor &tensor) {
    std::memcpy((copy++)->data(), tensor.bytes.data(), tensor.bytes.size());
  });
}

void StateCopy::restore() const {
  auto copy = copies.begin();
  forEach(program, roles, /*isReadOnly=*/false, [&](const Tensor &tensor) {
    std::memcpy(tensor.bytes.data(), (copy++)->data(), tensor.bytes.size());
  });
}
