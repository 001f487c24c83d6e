//===- StepRollback.cpp - The state before an unfinished step -------------===//

#include "StepRollback.h"
#include <algorithm>
#include <cstring>

using namespace binade;
using namespace binade::plan;

/// Whether optimizer states take in the gradients of each batch: then batches
/// are counted, by the one accumulator of F64.
static bool accumulatesInStates(const Plan &plan) {
  const Port *batches = plan.findPort(Role::Accumulator, "batches");
  return batches && plan.buffers[batches->buffer].dtype == DType::F64;
}

StepRollback::StepRollback(Program &program) : program(program) {
  if (program.getPlan().batches == 1)
    return;
  roles = {Role::Buffer, Role::Rng};
  if (accumulatesInStates(program.getPlan()))
    roles.insert(roles.end(), {Role::Parameter, Role::State});
  for (Role role : roles)
    for (const Port &port : program.getPlan().ports)
      if (port.role == role && !port.frozen)
        copies.emplace_back(program.getPlan().buffers[port.buffer].bytes);
}

std::uint64_t StepRollback::getBytesOfStates() const {
  std::uint64_t bytes = 0;
  for (const Port &port : program.getPlan().ports)
    if ((port.role == Role::Parameter || port.role == Role::State) &&
        std::ranges::find(roles, port.role) != roles.end())
      bytes += program.getPlan().buffers[port.buffer].bytes;
  return bytes;
}

/// Calls `use` with the ports of `roles` that steps change, in order.
template <typename Use>
static void forEach(const Program &program, const std::vector<Role> &roles,
                    bool isToBeRead, Use use) {
  for (Role role : roles) {
    std::vector<Tensor> tensors =
        isToBeRead ? program.read(role) : program.tensors(role);
    std::size_t next = 0;
    for (const Port &port : program.getPlan().ports)
      if (port.role == role)
        if (const Tensor &tensor = tensors[next++]; !port.frozen)
          use(tensor);
  }
}

void StepRollback::capture() {
  auto copy = copies.begin();
  forEach(program, roles, /*isToBeRead=*/true, [&](const Tensor &tensor) {
    std::memcpy((copy++)->data(), tensor.bytes.data(), tensor.bytes.size());
  });
}

Result<void> StepRollback::rollBack() {
  auto copy = copies.begin();
  forEach(program, roles, /*isToBeRead=*/false, [&](const Tensor &tensor) {
    std::memcpy(tensor.bytes.data(), (copy++)->data(), tensor.bytes.size());
  });
  return program.forgetBatches();
}
