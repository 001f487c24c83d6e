//===- PrintProfile.cpp - Table of execution times ------------------------===//

#include "binade/CommandLine/Report.h"
#include "binade/Container/Printable.h"
#include <algorithm>
#include <array>
#include <iomanip>
#include <ostream>

using namespace binade;

namespace {
/// The totals of one kernel or one kind of library call.
struct Row {
  std::string name, kind, implementation;
  std::int64_t calls = 0;
  double seconds = 0, bytes = 0, rooflineSeconds = 0;

  void add(const RecordProfile &record, const Ceilings &ceilings) {
    kind = record.kind;
    implementation = record.implementation;
    calls += record.calls;
    seconds += record.seconds;
    bytes += static_cast<double>(record.cost.bytes) *
             static_cast<double>(record.calls);
    rooflineSeconds += record.rooflineSeconds(ceilings);
  }
};
} // namespace

static std::string formatFixed(double number, int digits,
                               const char *unit = "") {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f%s", digits, number, unit);
  return text;
}

static std::string formatShare(double part, double whole) {
  return whole > 0 ? formatFixed(100 * part / whole, 1, "%") : "-";
}

static std::vector<Row> makeRows(const Profile &profile) {
  std::map<std::string, Row> rows;
  for (const RecordProfile &record : profile.records)
    if (record.calls > 0)
      rows[getOpName(record.label)].add(record, profile.ceilings);
  std::vector<Row> sorted;
  for (auto &[name, row] : rows) {
    row.name = name;
    sorted.push_back(std::move(row));
  }
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [](const Row &a, const Row &b) { return a.seconds > b.seconds; });
  return sorted;
}

static void printLine(std::ostream &out,
                      const std::array<std::string, 6> &numbers,
                      const std::string &kind, const std::string &name,
                      const std::string &implementation) {
  constexpr int widths[] = {7, 9, 9, 7, 8, 8};
  for (std::size_t i = 0; i < numbers.size(); ++i)
    out << std::right << std::setw(widths[i]) << numbers[i] << " ";
  out << " " << std::left << std::setw(12) << kind << " " << name;
  if (!implementation.empty())
    out << "  (" << implementation << ")";
  out << "\n";
}

void binade::printProfile(std::ostream &out, const Profile &profile) {
  std::vector<Row> rows = makeRows(profile);
  double inRecords = 0;
  std::map<std::string, double> kinds;
  for (const Row &row : rows) {
    inRecords += row.seconds;
    kinds[row.kind] += row.seconds;
  }
  out << "profile: " << formatFixed(profile.seconds, 3, " s in ")
      << profile.steps << (profile.steps == 1 ? " step" : " steps") << ", "
      << formatShare(inRecords, profile.seconds) << " of it in records";
  for (const auto &[kind, seconds] : kinds)
    out << ", " << kind << " " << formatShare(seconds, profile.seconds);
  out << "\n";
  for (const std::string &source : profile.ceilings.sources)
    out << "ceiling: " << source << "\n";

  constexpr std::size_t most = 25;
  constexpr double micro = 1e6, giga = 1e-9;
  printLine(out, {"share", "ms", "us/call", "calls", "GB/s", "roofline"},
            "kind", "name", "");
  for (const Row &row : std::span(rows).first(std::min(most, rows.size())))
    printLine(
        out,
        {formatShare(row.seconds, profile.seconds),
         formatFixed(row.seconds * 1e3, 2),
         formatFixed(row.seconds * micro / static_cast<double>(row.calls), 1),
         std::to_string(row.calls),
         row.seconds > 0 ? formatFixed(row.bytes * giga / row.seconds, 1) : "-",
         row.rooflineSeconds > 0 ? formatShare(row.rooflineSeconds, row.seconds)
                                 : "-"},
        row.kind, printable(row.name, 40), printable(row.implementation));
  if (rows.size() > most)
    out << "and " << rows.size() - most << " more, in the trace\n";
}
