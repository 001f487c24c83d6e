//===- ValidateExchange.cpp - Validation of exchanges ---------------------===//

#include "Validate.h"
#include "binade/Container/ExchangeLayout.h"
#include "binade/Container/Printable.h"
#include <algorithm>

using namespace binade;
using namespace binade::plan;

static bool isGather(const Exchange &exchange) {
  return exchange.operation == Exchange::Gather;
}

static bool isFixedPoint(const Exchange &exchange) {
  return exchange.format == Exchange::Exact &&
         exchange.operation == Exchange::Sum &&
         exchange.action != Exchange::Join;
}

std::string plan::findShapeFault(const Exchange &exchange) {
  if (exchange.tensors.size() != exchange.elements.size())
    return "an exchange of " + std::to_string(exchange.tensors.size()) +
           " tensors with sizes of " + std::to_string(exchange.elements.size());
  auto most = static_cast<std::int64_t>(maxBytes);
  std::int64_t total = 0;
  for (std::int64_t count : exchange.elements)
    if (count < 1 || count > most || (total += count) > most)
      return "an exchange of a tensor of " + std::to_string(count) +
             " elements";
  bool isJoin = exchange.action == Exchange::Join;
  if (exchange.tensors.empty() != isJoin ||
      bool(exchange.sums) != isFixedPoint(exchange) ||
      (exchange.counter && !isJoin) ||
      (exchange.action == Exchange::Add && !exchange.sums))
    return "an exchange whose operands do not fit the action " +
           quote(name(exchange.action));
  const std::vector<std::int64_t> &offsets = exchange.rankOffsets;
  if (isGather(exchange) != !offsets.empty() ||
      (isGather(exchange) && exchange.action != Exchange::Start))
    return "an exchange with " + std::to_string(offsets.size()) +
           " rank offsets, expected them at the start of a gather only";
  if (!offsets.empty() && (offsets.front() != 0 || offsets.back() != total ||
                           !std::ranges::is_sorted(offsets)))
    return "a gather of " + std::to_string(total) +
           " elements whose rank offsets do not ascend from 0 to that";
  return "";
}

/// Checks that the tensors of a bucket follow each other in the arena.
static std::string findLayoutFault(const Plan &plan, const Exchange &exchange) {
  ExchangeLayout layout(exchange.elements);
  auto addressOf = [&](const View &view) {
    return plan.buffers[view.buffer].offset +
           static_cast<std::uint64_t>(view.offset) * byteSize(DType::F32);
  };
  for (std::size_t i = 0; i < exchange.tensors.size(); ++i) {
    std::uint64_t expected =
        addressOf(exchange.tensors.front()) +
        static_cast<std::uint64_t>(layout.positions[i]) * byteSize(DType::F32);
    if (addressOf(exchange.tensors[i]) != expected)
      return "tensor " + std::to_string(i) + " of a bucket is at " +
             std::to_string(addressOf(exchange.tensors[i])) + ", expected " +
             std::to_string(expected);
  }
  return "";
}

std::string plan::findMemoryFault(const Plan &plan, const Exchange &exchange) {
  auto check = [&](const View &view, DType expected) -> std::string {
    DType type = plan.buffers[view.buffer].dtype;
    return type == expected ? ""
                            : "an exchange of type " + std::string(name(type)) +
                                  ", expected " + std::string(name(expected));
  };
  if (isGather(exchange)) {
    std::size_t ranks = plan.shard ? plan.shard->size : 1;
    return exchange.rankOffsets.size() == ranks + 1
               ? ""
               : "a gather has " + std::to_string(exchange.rankOffsets.size()) +
                     " rank offsets, expected " + std::to_string(ranks + 1) +
                     " in a plan for a group of " + std::to_string(ranks);
  }
  for (const View &tensor : exchange.tensors)
    if (std::string fault = check(tensor, DType::F32); !fault.empty())
      return fault;
  if (exchange.sums)
    if (std::string fault = check(*exchange.sums, DType::I32); !fault.empty())
      return fault;
  if (exchange.counter)
    if (std::string fault = check(*exchange.counter, DType::I64);
        !fault.empty())
      return fault;
  bool isAdjacent =
      exchange.action == Exchange::Start && exchange.operation == Exchange::Sum;
  return isAdjacent ? findLayoutFault(plan, exchange) : "";
}

Result<void> plan::validateExchanges(const Plan &plan, std::string_view where) {
  auto check = [&](const std::vector<Record> &records, bool isStep,
                   std::string_view list) -> Result<void> {
    // Sums are joined before the update, and gathers after it.
    std::uint32_t started = 0, joined = 0;
    int joins = 0;
    for (const Record &record : records) {
      auto *exchange = std::get_if<Exchange>(&record.body);
      if (!exchange)
        continue;
      bool isAdd = exchange->action == Exchange::Add;
      bool isJoin = exchange->action == Exchange::Join;
      bool mayFollow = isJoin ? joins == 0 || (joins == 1 && joined < started)
                              : isGather(*exchange) == (joins == 1);
      bool isInOrder = isAdd || (mayFollow && exchange->bucket == started);
      if (isAdd == isStep || !isInOrder)
        return Error{std::string(where),
                     "exchanges of the " + std::string(list) +
                         " are out of order",
                     ExitCode::Rejected, quote(record.label)};
      started += exchange->action == Exchange::Start;
      if (isJoin) {
        ++joins;
        joined = started;
      }
    }
    if (joined < started)
      return Error{std::string(where),
                   "the step starts exchanges, but does not join them",
                   ExitCode::Rejected};
    return {};
  };
  BINADE_CHECK(check(plan.records, true, "step"));
  BINADE_CHECK(check(plan.observation, true, "observation"));
  BINADE_CHECK(check(plan.accumulation, false, "accumulation"));
  return check(plan.evaluation, false, "evaluation");
}
