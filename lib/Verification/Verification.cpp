//===- Verification.cpp - Comparison of two executions --------------------===//

#include "UnexpectedWrites.h"
#include "VerificationImplementation.h"
#include "binade/Runtime/Profile.h"

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;
using ::binade::Error;
using ::binade::Plan;
using ::binade::Program;
using ::binade::RecordList;
using ::binade::RecordPlace;
using ::binade::RecordRunner;
using ::binade::Result;

/// The byte that results are filled with before a record, so that missing
/// writes are detected; it gives NaN in most formats.
static constexpr auto kPoison = std::byte(0xff);

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static Result<std::vector<Bytes>> readAll(RecordRunner &runner,
                                          ArrayRef<RecordAccess> accesses) {
  std::vector<Bytes> all;
  for (const RecordAccess &access : accesses) {
    Bytes &bytes = all.emplace_back(access.bytes);
    if (Result<void> done = runner.read(access.offset, bytes); !done)
      return done.takeError();
  }
  return all;
}

static bool overlaps(const RecordAccess &a, const RecordAccess &b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

bool mlir::binade::isOnlyWritten(const Execution &execution, size_t index) {
  const RecordAccess &access = execution.accesses[index];
  return std::holds_alternative<plan::Launch>(execution.record.body) &&
         access.isWritten &&
         llvm::none_of(execution.accesses, [&](const RecordAccess &other) {
           return !other.isWritten && overlaps(access, other);
         });
}

static void poison(Execution &execution) {
  for (auto [index, bytes] : llvm::enumerate(execution.before))
    if (isOnlyWritten(execution, index))
      llvm::fill(bytes, kPoison);
}

Result<void> Verification::Implementation::clearStatuses(RecordRunner &runner) {
  const Plan &own = &runner == cpuRunner.get() ? cpu->getPlan() : plan;
  for (uint32_t buffer : statuses) {
    Bytes zeros(own.buffers[buffer].bytes);
    if (auto done = runner.write(own.buffers[buffer].offset, zeros); !done)
      return done;
  }
  return {};
}

/// Writes the inputs of an execution to the memory of a runner.
Result<void> Verification::Implementation::restore(RecordRunner &runner,
                                                   const Execution &execution) {
  if (auto done = clearStatuses(runner); !done)
    return done;
  for (auto [access, bytes] : llvm::zip(execution.accesses, execution.before))
    if (auto done = runner.write(access.offset, bytes); !done)
      return done;
  return {};
}

/// Executes the record with a runner from the same inputs, and returns its
/// results.
Result<std::vector<Bytes>>
Verification::Implementation::runFrom(RecordRunner &runner,
                                      const Execution &execution,
                                      const RecordPlace &place) {
  if (auto done = restore(runner, execution); !done)
    return done.takeError();
  if (auto done = runner.run(place); !done)
    return done.takeError();
  return readAll(runner, execution.accesses);
}

/// Executes the record on the device and checks the rest of the arena for
/// unexpected writes.
Result<std::vector<Bytes>>
Verification::Implementation::runWatched(const Execution &execution,
                                         const RecordPlace &place) {
  // Reading a larger arena would take longer than the record.
  constexpr uint64_t kMaxWatched = uint64_t(256) << 20;
  if (plan.arenaBytes > kMaxWatched)
    return runFrom(*deviceRunner, execution, place);
  Bytes before(plan.arenaBytes), after(plan.arenaBytes);
  if (auto done = restore(*deviceRunner, execution); !done)
    return done.takeError();
  if (auto done = deviceRunner->read(0, before); !done)
    return done.takeError();
  if (auto done = deviceRunner->run(place); !done)
    return done.takeError();
  if (auto done = deviceRunner->read(0, after); !done)
    return done.takeError();
  if (auto unexpected = findUnexpectedWrite(plan, execution, before, after))
    note(getReport(execution.record), place, unexpected->first,
         std::move(unexpected->second));
  return readAll(*deviceRunner, execution.accesses);
}

//===----------------------------------------------------------------------===//
// Comparisons
//===----------------------------------------------------------------------===//

using Found = std::pair<size_t, Difference>;

/// Returns the first difference between `execution` and `others`.
static std::optional<Found> findDifference(const Execution &execution,
                                           ArrayRef<Bytes> others,
                                           const char *what) {
  for (auto [index, access] : llvm::enumerate(execution.accesses)) {
    if (!access.isWritten)
      continue;
    auto difference =
        compareBits(access.dtype, execution.after[index], others[index]);
    if (!difference)
      continue;
    difference->what = what;
    return Found(index, std::move(*difference));
  }
  return std::nullopt;
}

/// Executes the record `repeat` times on the device (on the CPU without one),
/// and compares the results with each other.
Result<std::optional<Found>>
Verification::Implementation::runRepeatedly(Execution &execution,
                                            const RecordPlace &place) {
  RecordRunner &runner = deviceRunner ? *deviceRunner : *cpuRunner;
  std::optional<Found> found;
  for (int64_t i = 0; i < options.repeat; ++i) {
    bool isWatched = deviceRunner && i == 0;
    auto after = isWatched ? runWatched(execution, place)
                           : runFrom(runner, execution, place);
    if (!after)
      return after.takeError();
    if (i == 0)
      execution.after = *std::move(after);
    else if (!found)
      found =
          findDifference(execution, *after, "other bits when it runs again");
  }
  return found;
}

/// Compares whether the device and the CPU found an index out of range.
Result<std::optional<Difference>>
Verification::Implementation::compareStatuses() {
  for (uint32_t buffer : statuses) {
    Bytes value(plan.buffers[buffer].bytes), expected(value.size());
    for (const Result<void> &done :
         {deviceRunner->read(plan.buffers[buffer].offset, value),
          cpuRunner->read(cpu->getPlan().buffers[buffer].offset, expected)})
      if (!done)
        return done.error();
    auto found = compareBits(::binade::DType::I32, value, expected);
    if (!found)
      continue;
    found->what = "the CPU disagrees about an index out of range";
    return found;
  }
  return std::optional<Difference>();
}

/// Executes the record on the CPU, whose memory then has its results, and
/// compares these.
Result<std::optional<Found>>
Verification::Implementation::compareWithCpu(const Execution &execution,
                                             const RecordPlace &place) {
  auto expected = runFrom(*cpuRunner, execution, place);
  if (!expected)
    return expected.takeError();
  return findDifference(execution, *expected, "other bits than the CPU's");
}

Result<std::optional<Found>>
Verification::Implementation::compareWithReference(const Execution &execution,
                                                   RecordReport &report) {
  auto judged = judge(*source, execution);
  if (!judged) {
    Error error = judged.takeError();
    error.where = where;
    return error;
  }
  report.ratio = std::max(report.ratio, judged->ratio);
  report.equal += judged->ratio == 0;
  if (!judged->difference)
    return std::optional<Found>();
  return std::optional(Found(judged->access, std::move(*judged->difference)));
}

/// Executes the record on the CPU, checks its results against the reference,
/// and adds them to the expectations.
Result<void> Verification::Implementation::expect(Execution &execution,
                                                  const RecordPlace &place,
                                                  RecordReport &report) {
  auto after = runFrom(*cpuRunner, execution, place);
  if (!after)
    return after.takeError();
  execution.after = *std::move(after);
  if (mayDiffer(*source, execution.record)) {
    execution.onBound = [&](size_t access, int64_t element, double exact,
                            double bound) {
      expectations->allow(execution.accesses[access], access, element, exact,
                          bound);
    };
    auto found = compareWithReference(execution, report);
    if (!found)
      return found.takeError();
    if (*found)
      note(report, place, execution.accesses[(*found)->first],
           std::move((*found)->second));
  }
  report.equal += !mayDiffer(*source, execution.record);
  expectations->add(execution, place);
  return {};
}

Result<void> Verification::Implementation::compare(const plan::Record &record,
                                                   const RecordPlace &place) {
  Execution execution{
      record, listAccesses(plan, *source, record, place.iteration), {}, {}};
  auto before = readAll(*cpuRunner, execution.accesses);
  if (!before)
    return before.takeError();
  execution.before = *std::move(before);
  poison(execution);
  RecordReport &report = getReport(record);
  ++report.executions;
  if (expectations)
    return expect(execution, place, report);

  auto found = runRepeatedly(execution, place);
  if (!found)
    return found.takeError();
  bool isRepeatable = !*found;
  bool isJudged = !deviceRunner;
  if (deviceRunner) {
    auto other = compareWithCpu(execution, place);
    if (!other)
      return other.takeError();
    auto status = compareStatuses();
    if (!status)
      return status.takeError();
    if (*status)
      other = std::optional(Found(0, std::move(**status)));
    if (isRepeatable)
      found = std::move(other);
    isJudged = *found && !*status && mayDiffer(*source, record);
    report.equal += !*found;
  }
  if (isRepeatable && isJudged) {
    found = compareWithReference(execution, report);
    if (!found)
      return found.takeError();
  }
  if (*found)
    note(report, place, execution.accesses[(*found)->first],
         std::move((*found)->second));
  return {};
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

RecordReport &
Verification::Implementation::getReport(const plan::Record &record) {
  auto [entry, isNew] = places.try_emplace(&record, reports.size());
  if (isNew) {
    RecordReport &report = reports.emplace_back();
    report.label = record.label;
    report.kind = plan::getKind(record);
    if (auto *launch = std::get_if<plan::Launch>(&record.body))
      report.kernel = launch->kernel;
  }
  return reports[entry->second];
}

void Verification::Implementation::note(RecordReport &report,
                                        const RecordPlace &place,
                                        const RecordAccess &access,
                                        Difference difference) {
  if (report.difference)
    return;
  const plan::Buffer &buffer = plan.buffers[access.buffer];
  difference.buffer = buffer.name.empty()
                          ? "buffer " + std::to_string(access.buffer)
                          : ::binade::printable(buffer.name);
  difference.element += access.first;
  report.difference = std::move(difference);
  report.step = step;
  report.iteration = place.iteration;
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

Result<void> Verification::Implementation::execute(const plan::Record &record,
                                                   const RecordPlace &place) {
  if (options.progress)
    options.progress(++executed, executions);
  if (!StringRef(record.label).contains(options.only))
    return cpuRunner->run(place);
  return compare(record, place);
}

Result<void>
Verification::Implementation::run(const std::vector<plan::Record> &records,
                                  RecordPlace &place) {
  place.path.push_back(0);
  for (auto [number, record] : llvm::enumerate(records)) {
    place.path.back() = number;
    auto *loop = std::get_if<plan::Loop>(&record.body);
    if (!loop) {
      if (Result<void> done = execute(record, place); !done)
        return done;
      continue;
    }
    place.iteration.push_back(0);
    for (int64_t n = 0; n < loop->count; ++n) {
      place.iteration.back() = n;
      if (Result<void> done = run(loop->body, place); !done)
        return done;
    }
    place.iteration.pop_back();
  }
  place.path.pop_back();
  return {};
}

static int64_t countExecutions(const std::vector<plan::Record> &records) {
  int64_t count = 0;
  for (const plan::Record &record : records) {
    auto *loop = std::get_if<plan::Loop>(&record.body);
    count += loop ? loop->count * countExecutions(loop->body) : 1;
  }
  return count;
}

Result<void> Verification::run(RecordList list) {
  Implementation &own = *implementation;
  bool isStep = list == RecordList::Step;
  // Includes all statistics.
  if (isStep && !own.plan.observation.empty())
    list = RecordList::Observation;
  const std::vector<plan::Record> &records =
      ::binade::getRecords(own.plan, list);
  own.executed = 0;
  own.executions = countExecutions(records);
  if (isStep)
    ++own.step;
  if (own.expectations) {
    Bytes arena(own.plan.arenaBytes);
    if (Result<void> done = own.cpuRunner->read(0, arena); !done)
      return done;
    own.expectations->begin(std::move(arena));
  }
  RecordPlace place;
  place.list = list;
  if (Result<void> done = own.run(records, place); !done)
    return done;
  if (isStep)
    for (::binade::Tensor &sum : own.cpu->tensors(plan::Role::Accumulator))
      llvm::fill(sum.bytes, std::byte(0));
  return {};
}

Verification::Verification(std::unique_ptr<Implementation> implementation)
    : implementation(std::move(implementation)) {}
Verification::Verification(Verification &&) noexcept = default;
Verification::~Verification() = default;

Result<void> Verification::save(const std::string &path) const {
  assert(implementation->expectations && "nothing was to be saved");
  return implementation->expectations->write(path, implementation->plan,
                                             implementation->statuses);
}

Program &Verification::getProgram() { return *implementation->cpu; }

const std::optional<ModuleReport> &Verification::getModules() const {
  return implementation->modules;
}

std::vector<RecordReport> Verification::getRecords() const {
  return implementation->reports;
}

std::string Verification::describe() const {
  if (!implementation->deviceRunner)
    return "the CPU with the reference";
  return (implementation->device ? implementation->device->formatDevice()
                                 : "the simulator") +
         " with the CPU";
}
