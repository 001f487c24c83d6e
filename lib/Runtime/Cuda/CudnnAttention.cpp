//===- CudnnAttention.cpp - Attention with cuDNN --------------------------===//

#include "AttentionGraph.h"
#include <algorithm>
#include <limits>

using namespace binade;
using namespace binade::cuda;

bool AttentionProblem::isGrouped(std::size_t operand) {
  return operand == AttentionOperand::Key ||
         operand == AttentionOperand::Value ||
         operand == AttentionOperand::Dkey ||
         operand == AttentionOperand::Dvalue;
}

/// Returns the bytes of an element of an operand.
static std::int64_t getElementBytes(std::size_t operand) {
  return operand == AttentionOperand::Lse ? 4 : 2;
}

/// Returns the bytes from one group to the next.
static std::int64_t getGroupBytes(const AttentionProblem &p,
                                  std::size_t operand) {
  std::int64_t heads =
      AttentionProblem::isGrouped(operand) ? 1 : p.heads / p.groups;
  return heads * p.strides[operand].head * getElementBytes(operand);
}

static std::int64_t getBatchBytes(const AttentionProblem &p,
                                  std::size_t operand) {
  return p.strides[operand].batch * getElementBytes(operand);
}

/// Whether each part of a divided problem begins at an address that cuDNN
/// supports. `getBytes` returns the distance between parts.
static bool areAligned(const AttentionProblem &p,
                       std::int64_t (*getBytes)(const AttentionProblem &,
                                                std::size_t)) {
  for (std::size_t i = 0; i < p.countOperands(); ++i)
    if (getBytes(p, i) % GraphTensor::kAlignment)
      return false;
  return true;
}

/// Returns the largest divisor of `count` that is at most `most`.
static std::int64_t findDivisor(std::int64_t count, std::int64_t most) {
  std::int64_t divisor = std::max<std::int64_t>(1, std::min(count, most));
  while (count % divisor)
    --divisor;
  return divisor;
}

Result<void> CudnnAttention::prepare(std::int64_t batch, std::int64_t groups) {
  part = problem;
  part.batch = batch;
  part.groups = groups;
  part.heads = problem.heads / problem.groups * groups;
  CudnnGraph graph(library);
  addAttention(graph, part);
  Result<CudnnPlan> found = graph.choosePlan();
  if (!found)
    return found.takeError();
  plan.emplace(*std::move(found));
  constexpr std::uint64_t kAlignment = 256;
  sumsOffset =
      (plan->getWorkspaceBytes() + kAlignment - 1) / kAlignment * kAlignment;
  std::int64_t sums = part.batch * part.heads * part.queries;
  workspaceBytes = problem.areGradients
                       ? sumsOffset + static_cast<std::uint64_t>(sums) * 4
                       : plan->getWorkspaceBytes();
  return {};
}

Result<CudnnAttention> CudnnAttention::create(std::shared_ptr<Cudnn> library,
                                              const AttentionProblem &problem,
                                              std::uint64_t workspaceLimit) {
  CudnnAttention attention(std::move(library), problem);
  std::int64_t batch = problem.batch, groups = problem.groups;
  while (true) {
    if (auto done = attention.prepare(batch, groups); !done)
      return done.takeError();
    std::uint64_t needed = attention.workspaceBytes;
    if (needed <= workspaceLimit)
      return attention;
    bool dividesBatch = batch > 1;
    if ((!dividesBatch && groups == 1) ||
        !areAligned(problem, dividesBatch ? getBatchBytes : getGroupBytes))
      return Error{
          "cuda",
          "cuDNN " + attention.library->formatVersion() + " needs " +
              std::to_string(needed) +
              " bytes of workspace for attention, and the plan reserves " +
              std::to_string(workspaceLimit),
          ExitCode::Device};
    // The workspace grows with the number of heads.
    double share =
        static_cast<double>(workspaceLimit) / static_cast<double>(needed);
    auto reduce = [&](std::int64_t all, std::int64_t now) {
      auto most = static_cast<std::int64_t>(share * static_cast<double>(now));
      return findDivisor(all, std::min(most, now - 1));
    };
    if (dividesBatch)
      batch = reduce(problem.batch, batch);
    else
      groups = reduce(problem.groups, groups);
  }
}

std::string CudnnAttention::describe() const {
  std::int64_t parts =
      problem.batch / part.batch * (problem.groups / part.groups);
  return "cudnn " + library->formatVersion() + " attention engine " +
         std::to_string(plan->getEngine()) +
         (parts == 1 ? "" : " in " + std::to_string(parts) + " parts");
}

Result<void> CudnnAttention::runPart(const AttentionAddresses &addresses,
                                     const Label &label) const {
  float scale = problem.scale, one = 1,
        hidden = -std::numeric_limits<float>::infinity();
  std::vector<GraphOperand> operands;
  auto add = [&](std::int64_t id, void *address) {
    operands.push_back({id, address});
  };
  for (std::size_t i = 0; i < problem.countOperands(); ++i)
    add(AttentionIds::of(i), reinterpret_cast<void *>(addresses.operands[i]));
  add(AttentionIds::kScale, &scale);
  if (problem.causal)
    add(AttentionIds::kMask, &hidden);
  if (problem.areGradients) {
    add(AttentionIds::kOne, &one);
    add(AttentionIds::kSums,
        reinterpret_cast<void *>(addresses.workspace + sumsOffset));
  }
  if (auto done = plan->run(operands, addresses.workspace); !done)
    return library->device.hasFailed()
               ? done.takeError()
               : done.takeError().withPart(printable(label.op));
  return library->device.note(label);
}

Result<void> CudnnAttention::run(const AttentionAddresses &addresses,
                                 const Label &label) const {
  AttentionAddresses now = addresses;
  for (std::int64_t batch = 0; batch < problem.batch; batch += part.batch)
    for (std::int64_t group = 0; group < problem.groups; group += part.groups) {
      for (std::size_t i = 0; i < problem.countOperands(); ++i)
        now.operands[i] =
            addresses.operands[i] +
            static_cast<Address>(batch * getBatchBytes(problem, i) +
                                 group * getGroupBytes(problem, i));
      if (auto done = runPart(now, label); !done)
        return done;
    }
  return {};
}
