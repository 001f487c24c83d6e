//===- StepRollback.cpp - Rollback of an interrupted step -----------------===//

#include "StepRollback.h"

using namespace binade;
using namespace binade::plan;

/// Whether the gradients of each batch are accumulated in the optimizer states.
/// Such a plan counts batches in an accumulator of type F64.
static bool accumulatesInStates(const Plan &plan) {
  const Port *batches = plan.findPort(Role::Accumulator, "batches");
  return batches && plan.buffers[batches->buffer].dtype == DType::F64;
}

static std::vector<Role> findChanged(const Plan &plan) {
  if (plan.batches == 1)
    return {};
  if (accumulatesInStates(plan))
    return {Role::Buffer, Role::Rng, Role::Parameter, Role::State};
  return {Role::Buffer, Role::Rng};
}

StepRollback::StepRollback(Program &program)
    : program(program), copy(program, findChanged(program.getPlan())) {}

std::uint64_t StepRollback::getBytesOfStates() const {
  if (!accumulatesInStates(program.getPlan()))
    return 0;
  std::uint64_t bytes = 0;
  for (const Port &port : program.getPlan().ports)
    if (port.role == Role::Parameter || port.role == Role::State)
      bytes += program.getPlan().buffers[port.buffer].bytes;
  return bytes;
}

Result<void> StepRollback::rollBack() {
  copy.restore();
  return program.resetAccumulators();
}
