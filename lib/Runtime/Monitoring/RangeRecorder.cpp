//===- RangeRecorder.cpp - Recorder of value ranges -----------------------===//

#include "RangeRecorder.h"
#include "binade/Container/AtomicFile.h"
#include "nlohmann/json.hpp"
#include <cmath>

using namespace binade;
using namespace binade::plan;

/// Number of entries of the histogram of f32 exponents, and the exponent bias.
static constexpr std::size_t kExponents = 256;
static constexpr int kBias = 127;
static constexpr std::string_view kBackward = "backward ";

Result<RangeRecorder> RangeRecorder::create(const Program &program,
                                            std::string path) {
  RangeRecorder recorder(program, std::move(path));
  std::map<std::string_view, std::size_t> known;
  for (const Tensor &tensor : program.tensors(Role::Statistic)) {
    std::size_t space = tensor.name.find(' ');
    if (space == tensor.name.npos)
      continue;
    std::string_view statistic = tensor.name.substr(0, space),
                     name = tensor.name.substr(space + 1);
    auto [entry, isNew] = known.try_emplace(name, recorder.ranges.size());
    if (isNew) {
      Range &range = recorder.ranges.emplace_back();
      range.name = name;
      range.isScaled = name.starts_with(kBackward);
    }
    Range &range = recorder.ranges[entry->second];
    if (statistic == "amax")
      range.amax = tensor.as<float>();
    else if (statistic == "smallest")
      range.smallest = tensor.as<float>();
    else if (statistic == "zeros")
      range.zeros = tensor.as<std::int64_t>();
    else if (statistic == "exponents")
      range.exponents = tensor.as<std::int64_t>();
  }
  // For some values, a step computes only the statistics that it needs itself.
  std::erase_if(recorder.ranges, [](const Range &range) {
    return range.amax.size() != 1 || range.smallest.size() != 1 ||
           range.zeros.size() != 1 || range.exponents.size() != kExponents;
  });
  if (recorder.ranges.empty())
    return Error{"--record",
                 "the program does not count the ranges of its values; compile "
                 "it with --record ranges, or train the model instead of the "
                 "bundle",
                 ExitCode::Usage};
  return recorder;
}

void RangeRecorder::Range::add(double scale) {
  numZeros += zeros[0];
  notFinite += exponents[kExponents - 1];
  for (std::size_t i = 0; i < kExponents; ++i)
    count += exponents[i];
  if (std::isfinite(amax[0]))
    largest = std::max(largest, amax[0] / scale);
  if (std::isfinite(smallest[0]))
    least =
        least == 0 ? smallest[0] / scale : std::min(least, smallest[0] / scale);
  // Exact if the scale is a power of two; otherwise magnitudes are
  // overestimated by up to a factor of two.
  int shift = kBias + std::ilogb(scale);
  for (std::size_t i = 1; i < kExponents - 1; ++i)
    if (exponents[i] > 0)
      histogram[static_cast<int>(i) - shift] += exponents[i];
  // Subnormals are counted in the same entry as zeros.
  if (std::int64_t subnormal = exponents[0] - zeros[0]; subnormal > 0)
    histogram[-shift] += subnormal;
}

void RangeRecorder::add(const StepMetrics &metrics) {
  if (metrics.skipped)
    return;
  ++steps;
  for (Range &range : ranges)
    range.add(range.isScaled ? metrics.lossScale.value_or(1.0) : 1.0);
}

Result<void> RangeRecorder::write() const {
  nlohmann::ordered_json values = nlohmann::ordered_json::array();
  for (const Range &range : ranges) {
    nlohmann::ordered_json exponents = nlohmann::ordered_json::object();
    for (auto [exponent, count] : range.histogram)
      exponents[std::to_string(exponent)] = count;
    values.push_back({{"value", range.name},
                      {"count", range.count},
                      {"zeros", range.numZeros},
                      {"nonfinite", range.notFinite},
                      {"amax", range.largest},
                      {"smallest", range.least},
                      {"exponents", std::move(exponents)}});
  }
  const Plan &plan = program->getPlan();
  nlohmann::ordered_json object = {{"binade_ranges", 1},
                                   {"model", plan.model},
                                   {"policy", plan.policy},
                                   {"steps", steps},
                                   {"values", std::move(values)}};
  using Handler = nlohmann::ordered_json::error_handler_t;
  return writeTextFile(path,
                       object.dump(1, ' ', false, Handler::replace) + "\n");
}
