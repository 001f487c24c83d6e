//===- PolicySchedule.cpp - The policies of a run -------------------------===//

#include "PolicySchedule.h"
#include "Alarms.h"
#include "binade/Container/Printable.h"
#include "binade/IR/Diagnostics.h"
#include "binade/Precision/Policy.h"
#include "binade/Runtime/QuantizedState.h"

using namespace mlir::binade;
using ::binade::Result;
namespace plan = ::binade::plan;

PolicySchedule PolicySchedule::load(const std::string &policy) {
  mlir::MLIRContext context;
  mlir::ScopedDiagnosticHandler silent(&context, [](mlir::Diagnostic &) {});
  PolicySchedule schedule;
  mlir::FailureOr<Policy> first = loadPolicy(policy, &context);
  if (failed(first) || !first->schedule || first->schedule->empty())
    return schedule;
  schedule.parts.push_back({policy, first->source.getHash().str(), {}, {}, {}});
  for (const PolicySwitch &later : *first->schedule) {
    mlir::FailureOr<Policy> next = loadPolicy(later.policy, &context);
    if (failed(next))
      return {};
    auto [file, place] = describeLocation(mlir::Location(later.location));
    schedule.parts.push_back(
        {later.policy, next->source.getHash().str(), later.after, file, place});
  }
  return schedule;
}

int64_t PolicySchedule::findEnd(size_t part, int64_t steps) const {
  return part + 1 < parts.size() ? parts[part + 1].after.resolve(steps) : 0;
}

size_t PolicySchedule::findPart(int64_t done, int64_t steps) const {
  size_t part = 0;
  while (part + 1 < parts.size() && findEnd(part, steps) <= done)
    ++part;
  return part;
}

PolicySchedule::Position
PolicySchedule::findPosition(const std::string &directory,
                             int64_t steps) const {
  std::optional<::binade::Manifest> newest = findNewestManifest(directory);
  if (!newest)
    return {};
  Position position{findPart(newest->step, steps), false};
  const std::string &hash = newest->run["policy hash"];
  position.converts =
      hash != parts[position.part].hash &&
      llvm::any_of(parts, [&](const Part &one) { return one.hash == hash; });
  return position;
}

/// Returns the formats in which a plan stores parameters, buffers and optimizer
/// states, by their names in checkpoints.
static std::map<std::string, std::string>
describeStates(const ::binade::Plan &plan) {
  std::map<std::string, std::string> found;
  for (const plan::Port &port : plan.ports)
    if (port.role == plan::Role::Parameter || port.role == plan::Role::Buffer ||
        port.role == plan::Role::State)
      found[plan::stateName(port.role, port.name)] =
          name(plan.buffers[port.buffer].dtype);
  for (const auto &[name, state] : ::binade::getQuantizedStates(plan))
    found[name] = state.format;
  return found;
}

Result<void> PolicySchedule::checkStates(const ::binade::Plan &first,
                                         const ::binade::Plan &other,
                                         const Part &part) {
  auto before = describeStates(first), after = describeStates(other);
  auto find = [](const std::map<std::string, std::string> &states,
                 const std::string &name) {
    auto found = states.find(name);
    return found == states.end() ? std::string("missing") : found->second;
  };
  std::map<std::string, std::string> all = before;
  all.insert(after.begin(), after.end());
  for (const auto &[name, _] : all) {
    std::string own = find(before, name), later = find(after, name);
    if (own == later)
      continue;
    ::binade::Error error{part.file, ::binade::quote(name) + " is " + own +
                                         " under the first policy, " + later +
                                         " under " +
                                         ::binade::quote(part.policy)};
    error.part = part.place;
    return std::move(error).withNote(
        "a schedule keeps every bit of parameters and optimizer states, so "
        "that its policies have to store them in the same formats");
  }
  return {};
}
