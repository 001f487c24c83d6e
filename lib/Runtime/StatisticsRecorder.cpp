//===- StatisticsRecorder.cpp - Statistics of values, by step -------------===//

#include "StatisticsRecorder.h"
#include <cmath>

using namespace binade;
using namespace binade::plan;

StatisticsRecorder::StatisticsRecorder(const Program &program) {
  for (const Port &port : program.getPlan().ports) {
    if (port.every == 0)
      continue;
    std::string_view tag = port.name;
    std::size_t first = tag.find('/'), last = tag.rfind('/');
    Entry entry{{tag,
                 tag.substr(0, first),
                 tag.substr(first + 1, last - first - 1),
                 tag.substr(last + 1),
                 NAN,
                 {}},
                port.every,
                *program.find(port.role, port.name)};
    if (entry.tensor.dtype == DType::I64)
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

static nlohmann::ordered_json writeValue(const Observed &observed) {
  if (observed.exponents.empty())
    return std::isfinite(observed.number)
               ? nlohmann::ordered_json(observed.number)
               : nlohmann::ordered_json();
  nlohmann::ordered_json counts = nlohmann::ordered_json::object();
  for (std::size_t bin = 0; bin < observed.exponents.size(); ++bin)
    if (observed.exponents[bin] != 0)
      counts[std::to_string(static_cast<int>(bin) + kFirstExponent)] =
          observed.exponents[bin];
  return counts;
}

Result<void> StatisticsFile::write(std::int64_t step,
                                   std::span<const Observed> observed) {
  if (observed.empty())
    return {};
  std::string lines;
  for (std::size_t next = 0; next < observed.size();) {
    const Observed &first = observed[next];
    nlohmann::ordered_json object = {
        {"step", step}, {"kind", first.kind}, {"layer", first.layer}};
    for (; next < observed.size() && observed[next].kind == first.kind &&
           observed[next].layer == first.layer;
         ++next)
      object[std::string(observed[next].statistic)] =
          writeValue(observed[next]);
    using Handler = nlohmann::ordered_json::error_handler_t;
    lines += object.dump(-1, ' ', false, Handler::replace) + "\n";
  }
  return file.write(lines);
}
