//===- Report.cpp - Reports about compiled steps --------------------------===//

#include "binade/CommandLine/Report.h"
#include "binade/Container/Numbers.h"
#include "binade/Runtime/ExchangeReport.h"
#include <algorithm>
#include <cstdarg>
#include <ostream>
#include <ranges>
#include <set>

using namespace binade;
using namespace binade::plan;

/// Formats text as printf does.
[[gnu::format(printf, 1, 2)]] static std::string format(const char *pattern,
                                                        ...) {
  va_list arguments;
  va_start(arguments, pattern);
  char text[512];
  std::vsnprintf(text, sizeof(text), pattern, arguments);
  va_end(arguments);
  return text;
}

void binade::printHeading(std::ostream &out, const Program &program) {
  const Plan &plan = program.getPlan();
  out << (plan.model.empty() ? "model" : printable(plan.model)) << ", policy "
      << printable(plan.policy) << ", ";
  if (plan.chip.empty()) {
    out << program.getThreads()
        << (program.getThreads() == 1 ? " thread" : " threads");
    if (!program.getIsa().empty())
      out << ", " << program.getIsa();
    std::string version = oneDnnVersion();
    out << (version.empty() ? ", own contractions" : ", oneDNN " + version);
  } else {
    out << "kernels for cuda:" << printable(plan.chip);
    if (std::string device = program.formatDevice(); !device.empty())
      out << " on " << device;
  }
  out << "\n";
  if (!getSettings(plan).empty())
    out << "settings " << describeSettings(plan) << "\n";
}

void binade::printDevices(std::ostream &out, const DeviceList &list) {
  out << "cpu     " << list.cores << (list.cores == 1 ? " core, " : " cores, ")
      << (list.isaLevel.empty() ? "older than x86-64-v3: not supported"
                                : list.isaLevel)
      << ", " << formatBytes(list.memory) << "\n";
  for (const CudaDevice &device : list.cuda)
    out << "cuda:" << device.index << "  " << device.name
        << ", compute capability " << device.capability.format() << ", "
        << formatBytes(device.bytes)
        << format(" at %.0f GB/s, ", device.bytesPerSecond / 1e9)
        << device.multiprocessors << " multiprocessors at "
        << device.clockHz / 1000000 << " MHz, CUDA " << list.cudaVersion / 1000
        << "." << list.cudaVersion % 1000 / 10 << "\n";
  if (!list.cudaError)
    return;
  out << (list.cuda.empty() ? "cuda    none: " : "cuda    no more: ")
      << list.cudaError->message << "\n";
  for (const std::string &note : list.cudaError->notes)
    out << "        " << note << "\n";
}

void binade::printLedger(std::ostream &out, const Program &program) {
  const Plan &plan = program.getPlan();
  out << "memory " << formatBytes(plan.arenaBytes) << ":";
  const char *separator = " ";
  for (const auto &[category, bytes] : plan.ledger) {
    if (bytes == 0)
      continue;
    out << separator << name(category) << " " << formatBytes(bytes);
    separator = ", ";
  }
  if (std::uint64_t extra = program.getExtraBytes())
    out << "; and " << formatBytes(extra) << " more for this machine's library";
  out << "\n";
}

//===----------------------------------------------------------------------===//
// Records
//===----------------------------------------------------------------------===//

std::string binade::getOpName(const std::string &label) {
  return label.substr(0, label.find(' '));
}

static std::string getNode(const std::string &label) {
  std::size_t space = label.find(' ');
  return space == label.npos ? "" : label.substr(space + 1);
}

namespace {
/// The calls of one kernel or kind of library call in a step.
struct CallRow {
  std::string kind;
  std::string node;            ///< Node of the first call.
  std::set<std::string> nodes; ///< Nodes of all calls.
  std::int64_t calls = 0, segments = 0;
  std::uint64_t bytes = 0;
};
using Rows = std::map<std::string, CallRow>;

class Counter {
public:
  explicit Counter(const Plan &plan) : plan(plan) {}

  void count(const std::vector<Record> &records, std::int64_t times) {
    for (const Record &record : records) {
      auto *loop = std::get_if<Loop>(&record.body);
      if (!loop) {
        add(record, times);
        continue;
      }
      loops.push_back(loop->count);
      count(loop->body, times * loop->count);
      loops.pop_back();
    }
  }

  Rows rows;

private:
  void add(const Record &record, std::int64_t times) {
    auto *launch = std::get_if<Launch>(&record.body);
    CallRow &row = rows[getOpName(record.label)];
    row.kind = getKind(record);
    if (row.nodes.empty())
      row.node = getNode(record.label);
    row.nodes.insert(getNode(record.label));
    row.calls += times;
    row.segments +=
        times * static_cast<std::int64_t>(launch ? launch->segments.size() : 1);
    row.bytes += static_cast<std::uint64_t>(times) *
                 costOf(record, plan.buffers, loops).bytes;
  }

  std::vector<std::int64_t> loops; ///< Iterations of the surrounding loops.
  const Plan &plan;
};
} // namespace

/// Prints a text from a file line by line, escaped.
static void printText(std::ostream &out, std::string_view text) {
  while (!text.empty()) {
    std::size_t end = std::min(text.find('\n'), text.size());
    out << printable(text.substr(0, end), text.size()) << '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void binade::printExchange(std::ostream &out, const Plan &plan) {
  std::optional<ExchangeReport> report = describeExchange(plan);
  if (!report)
    return;
  out << "exchange " << name(report->format) << ", " << report->batches
      << (report->batches == 1 ? " batch" : " batches")
      << " of all ranks; rounding error " << describeError(report->format)
      << '\n';
  out << "bucket  operation  tensors    elements   ready at\n";
  for (std::size_t i = 0; i < report->buckets.size(); ++i) {
    const BucketReport &bucket = report->buckets[i];
    out << format("%6zu  %-9s  %7zu  %10lld  %6.0f %%\n", i,
                  name(bucket.operation).data(), bucket.tensors,
                  static_cast<long long>(bucket.elements), 100 * bucket.ready);
  }
}

void binade::printPolicy(std::ostream &out, const Plan &plan) {
  for (const plan::PolicyText &policy : plan.policyTexts) {
    out << "# policy " << quote(policy.name) << ", SHA-256 "
        << printable(policy.hash) << '\n';
    printText(out, policy.text);
    if (policy.costs.empty())
      continue;
    out << "# its costs\n";
    printText(out, policy.costs);
  }
}

using Fallbacks = std::map<Fallback, std::set<std::string>>;

static void collect(const std::vector<Record> &records, Fallbacks &fallbacks) {
  for (const Record &record : records) {
    if (record.fallback)
      fallbacks[*record.fallback].insert(record.label);
    if (auto *loop = std::get_if<Loop>(&record.body))
      collect(loop->body, fallbacks);
  }
}

/// Prints the records that use a fallback, grouped by fallback.
static void printFallbacks(std::ostream &out, const Plan &plan) {
  constexpr std::size_t kShown = 4;
  Fallbacks fallbacks;
  for (const std::vector<Record> *list : plan.getLists())
    collect(*list, fallbacks);
  if (fallbacks.empty())
    return;
  out << "\nfallbacks: computed otherwise than the policy decided\n";
  for (const auto &[fallback, labels] : fallbacks) {
    out << "  " << printable(fallback.describe(), 300) << "\n";
    for (const std::string &label : labels | std::views::take(kShown))
      out << "    " << printable(label, 80) << "\n";
    if (labels.size() > kShown)
      out << "    and " << labels.size() - kShown << " more\n";
  }
}

void binade::printRecords(std::ostream &out, const Plan &plan) {
  Counter counter(plan);
  counter.count(plan.records, 1);
  std::vector<std::pair<std::string, CallRow>> rows(counter.rows.begin(),
                                                    counter.rows.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto &a, const auto &b) {
    return a.second.bytes > b.second.bytes;
  });
  CallRow all;
  std::int64_t kernels = 0, launches = 0;
  for (const auto &[name, row] : rows) {
    all.calls += row.calls;
    all.bytes += row.bytes;
    if (row.kind == "launch") {
      ++kernels;
      launches += row.calls;
    }
  }
  out << kernels << " kernels, " << launches << " launches, "
      << all.calls - launches << " library calls, " << formatBytes(all.bytes)
      << " of operands per step\n\n";
  auto line = [&](const std::string &name, const std::string &kind,
                  const std::string &calls, const std::string &tensors,
                  const std::string &bytes, const std::string &node) {
    out << format("%-32s %-12s %6s %8s %11s  ", name.c_str(), kind.c_str(),
                  calls.c_str(), tensors.c_str(), bytes.c_str())
        << node << "\n";
  };
  line("name", "kind", "calls", "tensors", "bytes", "node");
  for (const auto &[name, row] : rows) {
    std::string node = printable(row.node, 60);
    if (row.nodes.size() > 1)
      node += ", " + std::to_string(row.nodes.size() - 1) + " more";
    line(printable(name, 44), row.kind, std::to_string(row.calls),
         std::to_string(row.segments), formatBytes(row.bytes), node);
  }
  printFallbacks(out, plan);
}
