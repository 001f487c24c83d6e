//===- Tune.cpp - Tuning and listing of contractions ----------------------===//

#include "../Execution/ProgramImplementation.h"
#include "binade/Runtime/RecordList.h"

using namespace binade;
using namespace binade::plan;

Result<void> Program::tune() {
  if (implementation->engine)
    return implementation->engine->tune();
  return Error{implementation->where,
               "runs on the CPU, whose matmuls have only one algorithm",
               ExitCode::Usage}
      .withNote("--device cuda needs a bundle for CUDA");
}

/// Visits corresponding records of two equal plans.
template <typename Visit>
static void visitBoth(const std::vector<Record> &left,
                      std::vector<Record> &right, Visit visit) {
  for (std::size_t i = 0; i < left.size(); ++i)
    if (auto *loop = std::get_if<Loop>(&left[i].body))
      visitBoth(loop->body, std::get<Loop>(right[i].body).body, visit);
    else
      visit(left[i], right[i]);
}

std::size_t Program::recordAlgorithms(Plan &plan) const {
  if (!implementation->engine)
    return 0;
  std::string library = implementation->engine->getLibrary();
  auto algorithms = implementation->engine->getAlgorithms();
  auto lists = plan.getLists();
  for (std::size_t i = 0; i < kNumRecordLists; ++i)
    visitBoth(
        getRecords(implementation->plan, static_cast<RecordList>(i)), *lists[i],
        [&](const Record &own, Record &record) {
          if (auto found = algorithms.find(&own); found != algorithms.end())
            std::get<Matmul>(record.body).algorithms[library] = found->second;
        });
  return algorithms.size();
}

std::vector<ContractionChoice> Program::listContractions() const {
  const Implementation &own = *implementation;
  std::map<const Record *, std::string> refusals;
  if (own.engine)
    for (const auto &[record, why] : own.engine->getRefusals())
      refusals[record] = why;
  Profiler::Implementations implementations =
      own.engine ? own.engine->getImplementations()
                 : own.executor.getImplementations();
  std::vector<ContractionChoice> choices;
  std::function<void(RecordList, const std::vector<Record> &)> add =
      [&](RecordList list, const std::vector<Record> &records) {
        for (const Record &record : records) {
          if (auto *loop = std::get_if<Loop>(&record.body))
            add(list, loop->body);
          else if (std::holds_alternative<Matmul>(record.body) ||
                   std::holds_alternative<Convolution>(record.body) ||
                   std::holds_alternative<Attention>(record.body))
            choices.push_back({name(list), record.label,
                               implementations[&record], refusals[&record]});
        }
      };
  for (std::size_t i = 0; i < kNumRecordLists; ++i) {
    auto list = static_cast<RecordList>(i);
    add(list, getRecords(own.plan, list));
  }
  return choices;
}
