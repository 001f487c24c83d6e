//===- ScaleHistories.cpp - Alarm statistics of amax histories ------------===//

#include "ScaleHistories.h"
#include <algorithm>
#include <cmath>

using namespace binade;
using namespace binade::plan;

static constexpr std::string_view kPrefix = "amax_history/";

/// Returns the range of a history's format in binades, from its smallest normal
/// value to its largest value; 0 if the format is unknown. The name of a
/// history ends with its format.
static double getRoom(std::string_view name) {
  std::size_t at = name.rfind(" in ");
  std::string_view format = at == name.npos ? "" : name.substr(at + 4);
  format = format.substr(0, format.find(' '));
  if (format == "f8E4M3FN")
    return std::log2(448.0) + 6;
  if (format == "f8E5M2")
    return std::log2(57344.0) + 14;
  return 0;
}

ScaleHistories::ScaleHistories(const Program &program) : program(program) {
  for (const Port &port : program.getPlan().ports)
    if (port.role == Role::Buffer && port.name.starts_with(kPrefix))
      if (double room = getRoom(port.name); room > 0)
        entries.push_back({port.name, port.name.substr(kPrefix.size()), room});
}

void ScaleHistories::addTo(AlarmStep &step) const {
  constexpr std::int64_t kEvery = 10;
  if (entries.empty() || step.step % kEvery != 0)
    return;
  std::int64_t batches = program.getPlan().batches;
  std::vector<Tensor> buffers = program.read(Role::Buffer);
  for (const Entry &entry : entries) {
    auto found = std::ranges::find(buffers, entry.port, &Tensor::name);
    std::span<const float> history = found->as<float>();
    auto largest = std::ranges::max_element(history);
    float newest = history.back();
    if (newest <= 0 || !std::isfinite(*largest))
      continue;
    auto age = (history.end() - 1 - largest) / batches;
    step.places.push_back({"history",
                           entry.layer,
                           {{"excess", std::log2(double(*largest) / newest)},
                            {"room", entry.room},
                            {"source", static_cast<double>(step.step - age)}}});
  }
}
