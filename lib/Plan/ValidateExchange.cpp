//===- ValidateExchange.cpp - Validation of exchanges ---------------------===//

#include "Validate.h"
#include "binade/Container/ExchangeLayout.h"
#include "binade/Container/Printable.h"

using namespace binade;
using namespace binade::plan;

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
    std::uint32_t started = 0;
    bool hasJoined = false;
    for (const Record &record : records) {
      auto *exchange = std::get_if<Exchange>(&record.body);
      if (!exchange)
        continue;
      bool isAdd = exchange->action == Exchange::Add;
      bool isInOrder = isAdd || (!hasJoined && exchange->bucket == started);
      if (isAdd == isStep || !isInOrder)
        return Error{std::string(where),
                     "exchanges of the " + std::string(list) +
                         " are out of order",
                     ExitCode::Rejected, quote(record.label)};
      hasJoined |= exchange->action == Exchange::Join;
      started += exchange->action == Exchange::Start;
    }
    if (started > 0 && !hasJoined)
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
