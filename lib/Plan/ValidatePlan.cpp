//===- ValidatePlan.cpp - Validation of buffers and ports -----------------===//
// A plan comes from an untrusted file, and its numbers become addresses. So all
// of them are checked here, with arithmetic that detects overflow.
//===----------------------------------------------------------------------===//

#include "Validate.h"
#include "ViewBounds.h"
#include "binade/Container/EvaluationMetrics.h"
#include "binade/Container/Printable.h"
#include "binade/Plan/Companion.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace binade;
using namespace binade::plan;

namespace {
class Validator {
public:
  Validator(const Plan &plan, std::string_view where)
      : plan(plan), where(where) {}

  Result<void> run();

private:
  Error fail(std::string message) const {
    return Error{where, std::move(message), ExitCode::Rejected, part};
  }
  Result<void> checkPolicy();
  Result<void> checkLedger();
  Result<void> checkDeviceKernels();
  Result<void> checkBuffer(const Buffer &buffer);
  /// Checks the shard of a tensor that a buffer of `elements` has.
  Result<void> checkShard(const Buffer &buffer, std::int64_t elements);
  Result<void> checkPort(const Port &port);
  Result<void> checkInit(const Port &port, const Buffer &buffer);
  Result<void> checkCompanion(const CompanionInit &companionInit,
                              const Buffer &buffer);
  Result<void> checkPortsAreDisjoint();

  const Plan &plan;
  std::string where;
  std::string part;
};
} // namespace

/// Checks that a CUDA driver accepts the launch sizes of device kernels.
Result<void> Validator::checkDeviceKernels() {
  constexpr std::int64_t kMaxThreads = 1024, kMaxBlocks = INT32_MAX;
  if (plan.chip.empty() && !plan.deviceKernels.empty())
    return fail("device kernels without a chip that they are compiled for");
  std::set<std::string_view> names;
  for (const DeviceKernel &kernel : plan.deviceKernels) {
    part = "device kernel " + quote(kernel.name);
    if (!names.insert(kernel.name).second)
      return fail("two kernels have this name");
    if (kernel.entries.empty() || kernel.entries.size() > kMaxDeviceEntries)
      return fail(std::to_string(kernel.entries.size()) +
                  " entries, expected 1 to " +
                  std::to_string(kMaxDeviceEntries));
    for (std::int64_t alignment : kernel.alignments)
      if (alignment < 1 || kDeviceAlignment % alignment != 0)
        return fail("an operand at a multiple of " + std::to_string(alignment) +
                    " bytes, expected a divisor of " +
                    std::to_string(kDeviceAlignment));
    for (const DeviceKernel::Entry &entry : kernel.entries) {
      bool isFirst = &entry == &kernel.entries.front();
      if (entry.grid.size() != 3 || entry.block.size() != 3)
        return fail("a grid or block without 3 axes");
      std::int64_t threads = 1;
      for (std::size_t axis = 0; axis < 3; ++axis) {
        bool mayBeNone = isFirst && axis == 0;
        if (entry.grid[axis] < (mayBeNone ? 0 : 1) ||
            entry.grid[axis] > kMaxBlocks)
          return fail("a grid of " + std::to_string(entry.grid[axis]) +
                      " blocks along an axis");
        if (entry.block[axis] < 1 || entry.block[axis] > kMaxThreads ||
            (threads *= entry.block[axis]) > kMaxThreads)
          return fail("blocks of no threads, or more than " +
                      std::to_string(kMaxThreads));
      }
    }
  }
  part.clear();
  return {};
}

Result<void> Validator::run() {
  if (plan.threads > kMaxThreads)
    return fail(std::to_string(plan.threads) + " threads, more than " +
                std::to_string(kMaxThreads));
  if (plan.arenaBytes > maxBytes)
    return fail("an arena of " + std::to_string(plan.arenaBytes) + " bytes");
  for (const auto &[dim, size] : plan.dims)
    if (size < 1)
      return fail("dimension " + quote(dim) + " is " + std::to_string(size));
  if (plan.shard && plan.shard->rank >= plan.shard->size)
    return fail("rank " + std::to_string(plan.shard->rank) + " of " +
                std::to_string(plan.shard->size));
  BINADE_CHECK(checkPolicy());
  BINADE_CHECK(checkLedger());
  BINADE_CHECK(checkDeviceKernels());
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    part = "buffer " + std::to_string(i) + " " + quote(plan.buffers[i].name);
    BINADE_CHECK(checkBuffer(plan.buffers[i]));
  }
  std::set<std::pair<Role, std::string_view>> names;
  std::set<std::string> savedNames;
  for (const Port &port : plan.ports) {
    part = std::string(name(port.role)) + " " + quote(port.name);
    if (!names.insert({port.role, port.name}).second)
      return fail("two ports of this role and name");
    if (isTrainingState(port.role) &&
        !savedNames.insert(stateName(port.role, port.name)).second)
      return fail(
          "two tensors of training state would be saved under the name " +
          quote(stateName(port.role, port.name)));
    BINADE_CHECK(checkPort(port));
  }
  part.clear();
  for (const QuantizedStates &quantized : plan.quantizedStates)
    for (const QuantizedStates::State &state : quantized.states)
      for (const std::string &tensor : state.parts)
        // Erased, so that each state belongs to at most one quantized state.
        if (!names.erase({Role::State, tensor}))
          return fail("part " + quote(tensor) +
                      " of a quantized state is not a state, or belongs to "
                      "two");
  if (plan.batches < 1 || (plan.batches > 1) == plan.accumulation.empty())
    return fail(std::to_string(plan.batches) + " batches per step and " +
                std::to_string(plan.accumulation.size()) +
                " records to accumulate them");
  if (!plan.accumulation.empty() && !plan.findPort(Role::Metric, kBatchLoss))
    return fail("an accumulation without a metric " + quote(kBatchLoss));
  if (!plan.evaluation.empty() && !plan.findPort(Role::Metric, kEvalLoss))
    return fail("an evaluation without a metric " + quote(kEvalLoss));
  BINADE_CHECK(checkPortsAreDisjoint());
  return validateRecords(plan, where);
}

Result<void> Validator::checkPolicy() {
  const std::vector<PolicyText> &texts = plan.policyTexts;
  if (!texts.empty() && (texts.front().name != plan.policy ||
                         texts.front().hash != plan.policyHash))
    return fail("policy " + quote(plan.policy) +
                " is not the one whose text follows, " +
                quote(texts.front().name));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    bool extends = i + 1 < texts.size();
    if (hashPolicy(texts[i], extends ? texts[i + 1].hash : "") != texts[i].hash)
      return fail("the text of policy " + quote(texts[i].name) +
                  " does not have the SHA-256 that the plan specifies");
  }
  return {};
}

Result<void> Validator::checkLedger() {
  std::uint64_t sum = 0;
  for (const auto &[category, bytes] : plan.ledger)
    if (__builtin_add_overflow(sum, bytes, &sum))
      return fail("the ledger overflows");
  if (sum != plan.arenaBytes)
    return fail("the ledger sums to " + std::to_string(sum) +
                " bytes, the arena has " + std::to_string(plan.arenaBytes));
  return {};
}

Result<void> Validator::checkBuffer(const Buffer &buffer) {
  std::optional<std::int64_t> elements = countElements(buffer.shape);
  std::uint64_t size = byteSize(buffer.dtype), bytes;
  if (!elements || __builtin_mul_overflow(*elements, size, &bytes))
    return fail("negative or overflowing shape");
  if (bytes != buffer.bytes)
    return fail(std::to_string(buffer.bytes) + " bytes for a shape of " +
                std::to_string(bytes));
  std::uint64_t end;
  if (__builtin_add_overflow(buffer.offset, buffer.bytes, &end) ||
      end > plan.arenaBytes)
    return fail("offset " + std::to_string(buffer.offset) + " and " +
                std::to_string(buffer.bytes) + " bytes leave the arena of " +
                std::to_string(plan.arenaBytes));
  if (buffer.offset % size != 0)
    return fail("offset " + std::to_string(buffer.offset) +
                " is not a multiple of the element size");
  if (buffer.slot != 0 && (buffer.slot < buffer.bytes || buffer.slot % size))
    return fail("a slot of " + std::to_string(buffer.slot) + " bytes for " +
                std::to_string(buffer.bytes));
  return buffer.shard ? checkShard(buffer, *elements) : Result<void>();
}

Result<void> Validator::checkShard(const Buffer &buffer,
                                   std::int64_t elements) {
  std::optional<std::int64_t> whole = countElements(buffer.shard->shape);
  std::int64_t first = buffer.shard->first;
  if (!whole || first < 0 || first > *whole || elements > *whole - first)
    return fail("a shard has " + std::to_string(elements) +
                " elements from element " + std::to_string(first) +
                " on, which its tensor does not have");
  if (buffer.shape.size() != 1 || !plan.shard)
    return fail("a shard of a tensor needs a shape of one axis, and a plan for "
                "one rank of a group");
  return {};
}

/// Returns the expected type and shape of a port that the runtime itself reads
/// or writes; empty if it has them or there is no expectation.
static std::string_view expectedForm(const Port &port, const Buffer &buffer) {
  std::uint64_t elements = buffer.bytes / byteSize(buffer.dtype);
  switch (port.role) {
  case Role::Scaler:
    if (port.name == "scale" && (buffer.dtype != DType::F32 || elements != 1))
      return "one F32";
    return elements == 1 ? "" : "one element";
  case Role::Rng:
    return buffer.dtype == DType::I64 && elements == 2 ? "" : "two I64";
  case Role::Statistic:
    if (port.every == 0)
      return "";
    if (buffer.dtype == DType::I64)
      return elements == kExponentBins ? "" : "256 I64 by exponent";
    return (buffer.dtype == DType::F32 || buffer.dtype == DType::F64) &&
                   elements == 1
               ? ""
               : "one F32 or F64, or I64 by exponent";
  case Role::Step:
    return buffer.dtype == DType::I64 && elements == 1 ? "" : "one I64";
  case Role::Hyper:
    return buffer.dtype == DType::F64 && elements == 1 ? "" : "one F64";
  case Role::Metric:
    if ((port.name == kEvalLoss || port.name == kBatchLoss ||
         isEvaluationResult(port.name)) &&
        (buffer.dtype != DType::F32 || elements != 1))
      return "one F32";
    return elements == 1 ? "" : "one element";
  default:
    return "";
  }
}

Result<void> Validator::checkPort(const Port &port) {
  if (port.buffer >= plan.buffers.size())
    return fail("buffer " + std::to_string(port.buffer) + " of " +
                std::to_string(plan.buffers.size()));
  const Buffer &buffer = plan.buffers[port.buffer];
  if (std::string_view form = expectedForm(port, buffer); !form.empty())
    return fail("expected " + std::string(form) + ", found " +
                std::to_string(buffer.bytes / byteSize(buffer.dtype)) + " " +
                std::string(name(buffer.dtype)));
  if (port.check) {
    if (port.role != Role::Batch ||
        (buffer.dtype != DType::I64 && buffer.dtype != DType::I32))
      return fail("only a batch input of I64 or I32 has a range");
    if (port.check->low >= port.check->high)
      return fail("empty range [" + std::to_string(port.check->low) + ", " +
                  std::to_string(port.check->high) + ")");
  }
  if (port.range) {
    if (port.role != Role::Hyper)
      return fail("only a hyper-parameter has a range of numbers");
    if (auto *fill = std::get_if<FillInit>(&port.init))
      if (std::string wrong =
              port.range->explainViolation("its initial value", fill->value);
          !wrong.empty())
        return fail(wrong);
  }
  if (port.every < 0 || (port.every > 0 && port.role != Role::Statistic))
    return fail("computed every " + std::to_string(port.every) +
                " steps, expected a statistic and a number of at least 0");
  return checkInit(port, buffer);
}

Result<void> Validator::checkInit(const Port &port, const Buffer &buffer) {
  if (auto *external = std::get_if<ExternalInit>(&port.init)) {
    bool isNarrow = buffer.dtype == DType::BF16 || buffer.dtype == DType::F16;
    if (external->file.empty() ||
        (external->bytes != buffer.bytes &&
         !(isNarrow && external->bytes == 2 * buffer.bytes)))
      return fail("external data of " + std::to_string(external->bytes) +
                  " bytes in file " + quote(external->file) + " for " +
                  std::to_string(buffer.bytes));
  } else if (auto *random = std::get_if<RandomInit>(&port.init)) {
    if (!isContractionType(buffer.dtype) || !std::isfinite(random->origin) ||
        !std::isfinite(random->scale) || random->scale < 0)
      return fail("random values need F32, BF16 or F16 and finite numbers");
  } else if (auto *fill = std::get_if<FillInit>(&port.init)) {
    bool integer = !isFloat(buffer.dtype);
    if (!std::isfinite(fill->value) ||
        (integer && (fill->value != std::nearbyint(fill->value) ||
                     std::abs(fill->value) > 0x1p53)))
      return fail("cannot be filled with its initial value");
  } else if (auto *companionInit = std::get_if<CompanionInit>(&port.init)) {
    return checkCompanion(*companionInit, buffer);
  }
  return {};
}

/// Checks that a master weight, remainder or compensation has the shape of its
/// parameter and the type of its kind.
Result<void> Validator::checkCompanion(const CompanionInit &companionInit,
                                       const Buffer &buffer) {
  const Port *port = plan.findPort(Role::Parameter, companionInit.parameter);
  if (!port || port->buffer >= plan.buffers.size())
    return fail("belongs to parameter " + quote(companionInit.parameter) +
                ", which does not exist");
  const Buffer &parameter = plan.buffers[port->buffer];
  DType expected = getCompanionType(companionInit.master, parameter.dtype);
  bool isSplit = expected == DType::I16 || expected == DType::I8;
  if ((parameter.dtype != DType::BF16 &&
       (isSplit || parameter.dtype != DType::F16)) ||
      buffer.dtype != expected ||
      (buffer.shard ? buffer.shard->shape : buffer.shape) != parameter.shape)
    return fail("does not have the shape or type for parameter " +
                quote(companionInit.parameter));
  return {};
}

Result<void> Validator::checkPortsAreDisjoint() {
  std::vector<const Port *> kept;
  for (const Port &port : plan.ports)
    if ((isTrainingState(port.role) || port.role == Role::Accumulator ||
         port.role == Role::Hyper || port.role == Role::Constant) &&
        plan.buffers[port.buffer].bytes > 0)
      kept.push_back(&port);
  auto start = [&](const Port *port) {
    return plan.buffers[port->buffer].offset;
  };
  std::sort(kept.begin(), kept.end(),
            [&](const Port *a, const Port *b) { return start(a) < start(b); });
  for (std::size_t i = 1; i < kept.size(); ++i)
    if (start(kept[i - 1]) + plan.buffers[kept[i - 1]->buffer].bytes >
        start(kept[i])) {
      part = std::string(name(kept[i]->role)) + " " + quote(kept[i]->name);
      return fail("overlaps " + std::string(name(kept[i - 1]->role)) + " " +
                  quote(kept[i - 1]->name));
    }
  return {};
}

Result<void> binade::validate(const Plan &plan, std::string_view where) {
  return Validator(plan, where).run();
}
