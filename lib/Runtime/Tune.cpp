//===- Tune.cpp - The algorithms of a device's library --------------------===//

#include "ProgramImplementation.h"
#include "binade/Runtime/RecordList.h"

using namespace binade;
using namespace binade::plan;

Result<void> Program::tune() {
  if (implementation->engine)
    return implementation->engine->tune();
  return Error{implementation->where,
               "it runs on the CPU, whose products have one algorithm",
               ExitCode::Usage}
      .withNote("--device cuda needs a bundle for CUDA");
}

/// Visits the records of both plans, which are equal, side by side.
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
  std::vector<Record> *lists[] = {&plan.records, &plan.accumulation,
                                  &plan.evaluation};
  for (std::size_t i = 0; i < kNumRecordLists; ++i)
    visitBoth(
        getRecords(implementation->plan, static_cast<RecordList>(i)), *lists[i],
        [&](const Record &own, Record &record) {
          if (auto found = algorithms.find(&own); found != algorithms.end())
            std::get<Matmul>(record.body).algorithms[library] = found->second;
        });
  return algorithms.size();
}
