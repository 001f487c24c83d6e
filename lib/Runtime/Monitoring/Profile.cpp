//===- Profile.cpp - Profiling of a program -------------------------------===//

#include "../Contractions/MeasureCeilings.h"
#include "../Execution/ProgramImplementation.h"
#include "Trace.h"
#include "binade/Container/AtomicFile.h"
#include <algorithm>

using namespace binade;
using namespace binade::plan;

void Program::setProfiling(bool on) {
  auto &made = *implementation;
  made.profiler = on ? std::make_unique<Profiler>(made.threads) : nullptr;
  made.executor.setProfiler(made.profiler.get());
  if (made.engine)
    made.engine->setProfiler(made.profiler.get());
}

Profile Program::getProfile() const {
  const auto &made = *implementation;
  Profiler::Implementations implementations =
      made.engine ? made.engine->getImplementations()
                  : made.executor.getImplementations();
  const Profiler nothing(made.threads);
  return (made.profiler ? *made.profiler : nothing)
      .summarize(made.plan, implementations);
}

Ceilings Program::measureCeilings() {
  auto &made = *implementation;
  if (made.engine) {
    Result<Ceilings> ceilings = made.engine->measureCeilings();
    if (ceilings)
      return *std::move(ceilings);
    Ceilings none;
    none.sources = {"not measured: " + ceilings.error().message};
    return none;
  }
  std::set<DType> narrow;
  for (const RecordProfile &row : getProfile().records)
    if (row.cost.flops > 0 &&
        (row.cost.dtype == DType::BF16 || row.cost.dtype == DType::F16))
      narrow.insert(row.cost.dtype);
  return binade::measureCeilings(made.threads, narrow,
                                 made.options.contraction);
}

Result<void> Program::writeTrace(const std::string &path,
                                 const Profile &profile) const {
  const auto &made = *implementation;
  const Profiler nothing(made.threads);
  return writeTextFile(path,
                       formatTrace(made.profiler ? *made.profiler : nothing,
                                   profile, made.plan, formatDevice()));
}
