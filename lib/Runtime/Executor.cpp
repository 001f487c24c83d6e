//===- Executor.cpp - The records of a plan, ready to run -----------------===//

#include "Executor.h"
#include "Contraction.h"
#include "FloatMode.h"
#include "Launch.h"
#include <algorithm>
#include <chrono>

using namespace binade;
using namespace binade::plan;

Result<Executor> Executor::create(const Setup &setup) {
  Executor executor;
  if (setup.contraction == Contraction::OneDnn && oneDnnVersion().empty())
    return Error{setup.where,
                 "oneDNN was asked for, but libdnnl.so.2 (2.6 or newer) was "
                 "not found",
                 ExitCode::Device};
  executor.memory = {setup.arena, setup.plan->buffers};
  executor.context.team = &ThreadTeam::get();
  executor.context.threads = setup.threads;
  IeeeMode mode;
  OpenMPThreads openMP(setup.threads);
  if (Result<void> done = executor.append(setup.plan->records, setup); !done)
    return done.takeError();
  if (Result<void> done = executor.provideScratch(setup); !done)
    return done.takeError();
  return executor;
}

static std::string_view kindOf(const Record &record) {
  static constexpr std::string_view kinds[] = {"launch", "matmul",
                                               "convolution", "copy", "loop"};
  return kinds[record.body.index()];
}

Result<void> Executor::append(const std::vector<Record> &records,
                              const Setup &setup) {
  for (const Record &record : records) {
    Step step;
    step.label = record.label;
    step.kind = kindOf(record);
    if (auto *loop = std::get_if<Loop>(&record.body)) {
      step.count = loop->count;
      std::size_t index = steps.size();
      steps.push_back(std::move(step));
      if (Result<void> done = append(loop->body, setup); !done)
        return done;
      steps[index].end = steps.size();
      continue;
    }
    Result<std::unique_ptr<Operation>> operation = prepare(record, setup);
    if (!operation)
      return std::move(operation).takeError().withPart("record '" +
                                                       record.label + "'");
    step.operation = *std::move(operation);
    steps.push_back(std::move(step));
  }
  return {};
}

static bool usesF16(const Record &record, const Memory &memory) {
  auto *matmul = std::get_if<Matmul>(&record.body);
  auto *convolution = std::get_if<Convolution>(&record.body);
  const View &left = matmul ? matmul->lhs : convolution->x;
  const View &right = matmul ? matmul->rhs : convolution->weight;
  return memory.typeOf(left) == DType::F16 ||
         memory.typeOf(right) == DType::F16;
}

Result<std::unique_ptr<Operation>> Executor::prepare(const Record &record,
                                                     const Setup &setup) {
  if (auto *launch = std::get_if<Launch>(&record.body))
    return createLaunch(*launch, memory, *setup.kernels, setup.where);
  if (auto *copy = std::get_if<Copy>(&record.body))
    return createCopy(*copy, memory);

  if (!emulatesF16 && setup.notify && usesF16(record, memory)) {
    emulatesF16 = true;
    setup.notify("remark: products of f16 are computed in f32 and rounded "
                 "once; the library has none on CPUs");
  }
  auto operation =
      createContraction(record, memory, setup.threads, setup.contraction);
  std::uint64_t needed = operation->getScratchBytes();
  if (needed == 0)
    return operation;
  const auto &scratch = scratchOf(record);
  std::uint64_t reserved = 0;
  if (scratch) {
    const Buffer &buffer = memory.buffers[scratch->buffer];
    auto offset =
        static_cast<std::uint64_t>(scratch->offset) * byteSize(buffer.dtype);
    reserved = buffer.bytes - std::min(buffer.bytes, offset);
  }
  if (scratch && scratch->steps.empty() && reserved >= needed)
    operation->setScratch(memory.addressOf(*scratch).at({}));
  else
    withoutScratch.push_back(operation.get());
  return operation;
}

Result<void> Executor::provideScratch(const Setup &setup) {
  std::uint64_t bytes = 0;
  for (const Operation *operation : withoutScratch)
    bytes = std::max(bytes, operation->getScratchBytes());
  if (bytes == 0)
    return {};
  Result<Arena> arena = Arena::allocate(bytes, setup.where);
  if (!arena)
    return arena.takeError();
  extra = *std::move(arena);
  for (Operation *operation : withoutScratch)
    operation->setScratch(extra.data());
  return {};
}

void Executor::run() {
  IeeeMode mode;
  OpenMPThreads openMP(context.threads);
  // oneDNN forks the same team without asking for a mode: its threads get it
  // here and keep it. (They are created with that of the process's first fork.)
  context.team->setModeOfTeam(context.threads);
  run(0, steps.size());
}

void Executor::run(std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end;) {
    Step &step = steps[i];
    if (!step.operation) {
      context.iteration.push_back(0);
      for (std::int64_t n = 0; n < step.count; ++n) {
        context.iteration.back() = n;
        run(i + 1, step.end);
      }
      context.iteration.pop_back();
      i = step.end;
      continue;
    }
    if (!profiling) {
      step.operation->run(context);
    } else {
      auto start = std::chrono::steady_clock::now();
      step.operation->run(context);
      std::chrono::duration<double> time =
          std::chrono::steady_clock::now() - start;
      step.seconds += time.count();
      ++step.calls;
    }
    ++i;
  }
}

std::vector<RecordProfile> Executor::getProfile() const {
  std::vector<RecordProfile> profile;
  for (const Step &step : steps)
    if (step.operation)
      profile.push_back({step.label, std::string(step.kind),
                         step.operation->getImplementation(), step.calls,
                         step.seconds});
  return profile;
}
