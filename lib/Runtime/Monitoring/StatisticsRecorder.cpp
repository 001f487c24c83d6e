//===- StatisticsRecorder.cpp - Reader and writer of statistics -----------===//

#include "StatisticsRecorder.h"
#include <array>
#include <charconv>
#include <cmath>

using namespace binade;
using namespace binade::plan;

StatisticsRecorder::StatisticsRecorder(const Program &program) {
  for (const Port &port : program.getPlan().ports) {
    if (port.every == 0) // Not a statistic.
      continue;
    std::string_view name = port.name; // `kind/layer/statistic`.
    std::size_t first = name.find('/'), last = name.rfind('/');
    Entry entry{{name.substr(0, first),
                 name.substr(first + 1, last - first - 1),
                 name.substr(last + 1),
                 NAN,
                 {}},
                port.every,
                *program.find(port.role, port.name)};
    if (entry.tensor.dtype == DType::I64)
      // Not copied: `read` returns the program's own counts.
      entry.known.exponents = entry.tensor.as<std::int64_t>();
    entries.push_back(std::move(entry));
  }
}

bool StatisticsRecorder::isDue(std::int64_t step) const {
  return std::any_of(entries.begin(), entries.end(), [&](const Entry &entry) {
    return entry.every > 1 && step % entry.every == 0;
  });
}

std::vector<Observed> StatisticsRecorder::read(std::int64_t step) const {
  std::vector<Observed> observed;
  observed.reserve(entries.size());
  for (const Entry &entry : entries) {
    if (step % entry.every != 0)
      continue;
    Observed &one = observed.emplace_back(entry.known);
    if (entry.tensor.dtype == DType::F64)
      one.number = entry.tensor.as<double>()[0];
    else if (entry.tensor.dtype == DType::F32)
      one.number = entry.tensor.as<float>()[0];
  }
  return observed;
}

//===----------------------------------------------------------------------===//
// StatisticsFile
//===----------------------------------------------------------------------===//

Result<StatisticsFile> StatisticsFile::open(const std::string &path,
                                            std::int64_t step) {
  Result<StepLines> lines = StepLines::open(path, step);
  if (!lines)
    return lines.takeError();
  return StatisticsFile(*std::move(lines));
}

namespace {
/// Formats JSON lines as text, without building JSON objects, which would be
/// too slow for thousands of values per step.
class Lines {
public:
  void add(std::string_view raw) { text += raw; }
  void addInteger(std::int64_t value) { addChars(value); }

  /// Adds the shortest decimal that reads back as `value`, or null if `value`
  /// is not finite.
  void addNumber(double value) {
    if (!std::isfinite(value))
      return add("null");
    std::size_t start = text.size();
    addChars(value);
    // Without a point or an exponent, readers would parse an integer.
    if (text.find_first_of(".e", start) == std::string::npos)
      add(".0");
  }

  void addString(std::string_view value) {
    bool isPlain = std::all_of(value.begin(), value.end(), [](char c) {
      return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
    });
    using Handler = nlohmann::json::error_handler_t;
    if (!isPlain)
      return add(nlohmann::json(value).dump(-1, ' ', false, Handler::replace));
    text += '"';
    text += value;
    text += '"';
  }

  /// Adds the nonzero counts of a histogram by exponent.
  void addCounts(std::span<const std::int64_t> counts) {
    char before = '{';
    for (std::size_t bin = 0; bin < counts.size(); ++bin) {
      if (counts[bin] == 0)
        continue;
      text += std::exchange(before, ',');
      text += '"';
      addInteger(static_cast<int>(bin) + kFirstExponent);
      text += "\":";
      addInteger(counts[bin]);
    }
    add(before == '{' ? "{}" : "}");
  }

  const std::string &get() const { return text; }

private:
  template <typename T> void addChars(T value) {
    std::array<char, 32> digits;
    char *end =
        std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    text.append(digits.data(), end);
  }

  std::string text;
};
} // namespace

Result<void> StatisticsFile::write(std::int64_t step,
                                   std::span<const Observed> observed) {
  if (observed.empty())
    return {};
  Lines lines;
  for (std::size_t next = 0; next < observed.size();) {
    const Observed &first = observed[next];
    lines.add("{\"step\":");
    lines.addInteger(step);
    lines.add(",\"kind\":");
    lines.addString(first.kind);
    lines.add(",\"layer\":");
    lines.addString(first.layer);
    for (; next < observed.size() && observed[next].kind == first.kind &&
           observed[next].layer == first.layer;
         ++next) {
      lines.add(",");
      lines.addString(observed[next].statistic);
      lines.add(":");
      if (observed[next].exponents.empty())
        lines.addNumber(observed[next].number);
      else
        lines.addCounts(observed[next].exponents);
    }
    lines.add("}\n");
  }
  return file.write(lines.get());
}
