//===- Executor.cpp - Execution of plan records on the CPU ----------------===//

#include "Executor.h"
#include "../Contractions/Contraction.h"
#include "../Exchange/Group.h"
#include "FloatMode.h"
#include "Launch.h"
#include "binade/Container/Activity.h"
#include <algorithm>
#include <atomic>

using namespace binade;
using namespace binade::plan;

Result<Executor> Executor::create(const Setup &setup) {
  Executor executor;
  if (setup.contraction == Contraction::Library && oneDnnVersion().empty())
    return Error{setup.where,
                 "oneDNN was requested, but libdnnl.so.2 (2.6 or newer) was "
                 "not found",
                 ExitCode::Device};
  executor.context.team = &ThreadTeam::get();
  executor.context.threads = setup.threads;
  executor.exchange = setup.exchange;
  IeeeMode mode;
  OpenMPThreads openMP(setup.threads);
  Memory memory{setup.arena, setup.plan->buffers, setup.bound};
  for (std::size_t i = 0; i < executor.lists.size(); ++i) {
    Result<Steps> steps =
        executor.prepare(getRecords(*setup.plan, static_cast<RecordList>(i)),
                         memory, setup.threads, setup);
    if (!steps)
      return steps.takeError();
    executor.lists[i] = *std::move(steps);
  }
  if (Result<void> done = executor.provideScratch(setup); !done)
    return done.takeError();
  return executor;
}

Result<Executor::Steps> Executor::prepare(const std::vector<Record> &records,
                                          const Memory &memory,
                                          unsigned threads,
                                          const Setup &setup) {
  Steps prepared;
  for (const Record &record : records) {
    Step step;
    if (auto *loop = std::get_if<Loop>(&record.body)) {
      Result<Step> whole = prepare(*loop, memory, threads, setup);
      if (!whole)
        return whole.takeError();
      step = *std::move(whole);
    } else {
      Result<std::unique_ptr<Operation>> operation =
          prepare(record, memory, threads, setup);
      if (!operation)
        return std::move(operation).takeError().withPart("record '" +
                                                         record.label + "'");
      step.operation = *std::move(operation);
    }
    step.record = &record;
    prepared.push_back(std::move(step));
  }
  return prepared;
}

Result<Executor::Step> Executor::prepare(const Loop &loop, const Memory &memory,
                                         unsigned threads, const Setup &setup) {
  Step step;
  step.count = loop.count;
  step.isParallel = loop.slots > 0;
  // Operations store addresses, so each slot needs its own.
  auto slots =
      static_cast<std::uint64_t>(std::min<std::int64_t>(loop.slots, threads));
  if (step.isParallel)
    threads = 1;
  OpenMPThreads openMP(threads);
  Memory inside = memory;
  do {
    Result<Steps> body = prepare(loop.body, inside, threads, setup);
    if (!body)
      return body.takeError();
    step.bodies.push_back(*std::move(body));
  } while (++inside.slot < slots);
  return step;
}

static bool usesF16(const Record &record, const Memory &memory) {
  auto *matmul = std::get_if<Matmul>(&record.body);
  auto *convolution = std::get_if<Convolution>(&record.body);
  if (!matmul && !convolution)
    return false;
  const View &left = matmul ? matmul->lhs : convolution->x;
  const View &right = matmul ? matmul->rhs : convolution->weight;
  return memory.typeOf(left) == DType::F16 ||
         memory.typeOf(right) == DType::F16;
}

/// Calls the overload of `createOperation` for the record; returns null if
/// there is none for its kind.
static std::unique_ptr<Operation> createWithoutLibrary(const Record &record,
                                                       const Memory &memory) {
  return std::visit(
      [&](const auto &body) -> std::unique_ptr<Operation> {
        if constexpr (requires { createOperation(body, memory); })
          return createOperation(body, memory);
        else
          return nullptr;
      },
      record.body);
}

Result<std::unique_ptr<Operation>> Executor::prepare(const Record &record,
                                                     const Memory &memory,
                                                     unsigned threads,
                                                     const Setup &setup) {
  if (std::holds_alternative<Launch>(record.body))
    return createLaunch(record, memory, *setup.kernels, setup.where);
  if (auto *exchanged = std::get_if<Exchange>(&record.body))
    return exchange::createOperation(*exchanged, memory, setup.exchange);
  if (std::unique_ptr<Operation> operation =
          createWithoutLibrary(record, memory))
    return operation;

  auto operation =
      createContraction(record, memory, threads, setup.contraction);
  if (!emulatesF16 && setup.notify && usesF16(record, memory) &&
      !operation->multipliesF16()) {
    emulatesF16 = true;
    setup.notify("remark: some f16 matmuls or convolutions are computed in f32 "
                 "and rounded once; only matmuls on processors with AMX have "
                 "kernels for f16");
  }
  std::uint64_t needed = operation->getScratchBytes();
  if (needed == 0)
    return operation;
  const std::optional<View> &scratch = *findScratch(record);
  std::uint64_t reserved = 0;
  if (scratch) {
    const Buffer &buffer = memory.buffers[scratch->buffer];
    auto offset =
        static_cast<std::uint64_t>(scratch->offset) * byteSize(buffer.dtype);
    bool isOwn = memory.slot == 0 || buffer.slot > 0;
    reserved = isOwn ? buffer.bytes - std::min(buffer.bytes, offset) : 0;
  }
  if (scratch && scratch->steps.empty() && reserved >= needed)
    operation->setScratch(memory.addressOf(*scratch).at({}));
  else
    needs.push_back({operation.get(), memory.slot});
  return operation;
}

Result<void> Executor::provideScratch(const Setup &setup) {
  std::uint64_t bytes = 0, slots = 0;
  for (const Need &need : needs) {
    bytes = std::max(bytes, need.operation->getScratchBytes());
    slots = std::max(slots, need.slot + 1);
  }
  if (bytes == 0)
    return {};
  bytes = (bytes + 63) / 64 * 64;
  Result<Arena> arena = Arena::allocate(bytes * slots, setup.where);
  if (!arena)
    return arena.takeError();
  extra = *std::move(arena);
  for (const Need &need : needs)
    need.operation->setScratch(extra.data() + need.slot * bytes);
  return {};
}

void Executor::run(RecordList list) {
  IeeeMode mode;
  OpenMPThreads openMP(context.threads);
  // oneDNN forks the same team without setting a floating-point mode, and its
  // threads have inherited that of the process's first fork. So their mode is
  // set here, for good.
  context.team->setModeOfTeam(context.threads);
  run(lists[static_cast<std::size_t>(list)], context);
}

void Executor::run(const std::function<bool(std::size_t)> &after) {
  IeeeMode mode;
  OpenMPThreads openMP(context.threads);
  context.team->setModeOfTeam(context.threads);
  Steps &steps = lists[static_cast<std::size_t>(RecordList::Step)];
  for (std::size_t number = 0; number < steps.size(); ++number) {
    run(steps[number], context);
    if (!after(number))
      return;
  }
}

void Executor::run(const RecordPlace &place) {
  Steps *list = &lists[static_cast<std::size_t>(place.list)];
  Step *step = nullptr;
  bool isAlone = false;
  for (std::size_t number : place.path) {
    if (step) {
      isAlone |= step->isParallel;
      list = &step->bodies.front();
    }
    step = &(*list)[number];
  }
  ExecutionContext inside = context;
  inside.iteration = place.iteration;
  inside.threads = isAlone ? 1 : context.threads;
  IeeeMode mode;
  OpenMPThreads openMP(inside.threads);
  inside.team->setModeOfTeam(inside.threads);
  run(*step, inside);
}

void Executor::run(Steps &steps, ExecutionContext &context) const {
  for (Step &step : steps) {
    run(step, context);
    // The rest of a step depends on what other ranks send.
    if (exchange && exchange->hasFailed())
      return;
  }
}

void Executor::run(Step &step, ExecutionContext &context) const {
  Activity activity("record", step.record->label);
  double begin = profiler ? profiler->now() : 0;
  if (step.operation)
    step.operation->run(context);
  else
    runLoop(step, context);
  if (profiler)
    profiler->add(context.lane, {step.record, begin, profiler->now()});
}

void Executor::runLoop(Step &loop, ExecutionContext &context) const {
  if (loop.isParallel)
    return runParallel(loop, context);
  context.iteration.push_back(0);
  for (std::int64_t n = 0; n < loop.count; ++n) {
    context.iteration.back() = n;
    run(loop.bodies.front(), context);
  }
  context.iteration.pop_back();
}

/// Each slot takes the next iteration until none is left.
void Executor::runParallel(Step &loop, const ExecutionContext &outer) const {
  std::atomic<std::int64_t> next{0};
  auto work = [&](std::int64_t slot, unsigned) {
    OpenMPThreads openMP(1); // The count with which operations were created.
    ExecutionContext context = outer;
    context.threads = 1;
    context.lane = static_cast<std::size_t>(slot) + 1;
    context.iteration.push_back(0);
    for (std::int64_t n; (n = next.fetch_add(1)) < loop.count;) {
      context.iteration.back() = n;
      run(loop.bodies[static_cast<std::size_t>(slot)], context);
    }
  };
  auto slots = static_cast<std::int64_t>(loop.bodies.size());
  outer.team->parallelFor(outer.threads, slots, work);
}

void Executor::addTo(Profiler::Implementations &implementations,
                     const Steps &steps) {
  for (const Step &step : steps) {
    if (step.operation)
      implementations[step.record] = step.operation->getImplementation();
    else
      addTo(implementations, step.bodies.front());
  }
}

Profiler::Implementations Executor::getImplementations() const {
  Profiler::Implementations implementations;
  for (const Steps &steps : lists)
    addTo(implementations, steps);
  return implementations;
}
