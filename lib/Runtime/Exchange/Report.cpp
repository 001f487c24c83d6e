//===- Report.cpp - Schedule of a plan's exchanges ------------------------===//

#include "binade/Container/ExchangeLayout.h"
#include "binade/Runtime/ExchangeReport.h"
#include "binade/Runtime/Profile.h"

using namespace binade;
using namespace binade::plan;

/// Returns the bytes of all operands of a record, in all iterations.
static double countBytes(const Record &record, const Plan &plan,
                         std::vector<std::int64_t> &loops) {
  auto *loop = std::get_if<Loop>(&record.body);
  if (!loop)
    return static_cast<double>(costOf(record, plan.buffers, loops).bytes);
  double bytes = 0;
  loops.push_back(loop->count);
  for (const Record &inner : loop->body)
    bytes += countBytes(inner, plan, loops);
  loops.pop_back();
  return bytes * static_cast<double>(loop->count);
}

std::optional<ExchangeReport> binade::describeExchange(const Plan &plan) {
  ExchangeReport report;
  report.batches = plan.batches;
  std::vector<std::int64_t> loops;
  double bytes = 0;
  for (const Record &record : plan.records) {
    auto *exchange = std::get_if<Exchange>(&record.body);
    if (!exchange) {
      bytes += countBytes(record, plan, loops);
      continue;
    }
    if (exchange->action == Exchange::Join)
      break;
    if (exchange->operation == Exchange::Sum)
      report.format = exchange->format;
    report.buckets.push_back({exchange->operation, exchange->tensors.size(),
                              ExchangeLayout(exchange->elements).size, bytes});
  }
  if (report.buckets.empty())
    return std::nullopt;
  for (BucketReport &bucket : report.buckets)
    bucket.ready = bytes > 0 ? bucket.ready / bytes : 1;
  return report;
}

std::string_view binade::describeError(Exchange::Format format) {
  switch (format) {
  case Exchange::F32:
    return "6e-8 of a sum over 8 ranks; bits depend on the number of ranks and "
           "the transport";
  case Exchange::BF16:
    return "1.7e-3 of a sum over 8 ranks; bits depend on the number of ranks";
  case Exchange::E4M3:
    return "2.6e-2 of a sum over 8 ranks; bits depend on the number of ranks";
  case Exchange::Exact:
    return "6e-8 of a sum, rounded once; the same bits for any number of ranks";
  }
  return "";
}
