//===- StreamProgram.cpp - Plan records on a stream -----------------------===//

#include "StreamProgram.h"

using namespace binade;
using namespace binade::cuda;

Result<StreamProgram::Steps>
StreamProgram::prepare(const std::vector<plan::Record> &records,
                       const StreamSetup &setup) {
  Steps prepared;
  for (const plan::Record &record : records) {
    Step &step = prepared.emplace_back();
    step.record = &record;
    if (auto *loop = std::get_if<plan::Loop>(&record.body)) {
      // Iterations run sequentially, because each occupies the whole device.
      step.count = loop->count;
      Result<Steps> body = prepare(loop->body, setup);
      if (!body)
        return body.takeError();
      step.body = *std::move(body);
      continue;
    }
    MadeOperation operation =
        std::holds_alternative<plan::Exchange>(record.body)
            ? createExchange(record, setup)
        : std::holds_alternative<plan::Matmul>(record.body)
            ? createMatmul(record, setup)
        : std::holds_alternative<plan::Convolution>(record.body)
            ? createConvolution(record, setup)
        : std::holds_alternative<plan::Attention>(record.body)
            ? createAttention(record, setup)
            : createKernels(record, setup);
    if (!operation)
      return std::move(operation).takeError().withPart("record '" +
                                                       record.label + "'");
    step.operation = *std::move(operation);
  }
  return prepared;
}

Result<StreamProgram>
StreamProgram::create(const std::vector<plan::Record> &records,
                      const StreamSetup &setup) {
  Result<Steps> steps = prepare(records, setup);
  if (!steps)
    return steps.takeError();
  StreamProgram program;
  program.steps = *std::move(steps);
  return program;
}

template <typename Visit>
void StreamProgram::visit(const Steps &steps, Visit visitOne) {
  for (const Step &step : steps)
    if (step.operation)
      visitOne(step);
    else
      visit(step.body, visitOne);
}

Profiler::Implementations StreamProgram::getImplementations() const {
  Profiler::Implementations implementations;
  visit(steps, [&](const Step &step) {
    implementations[step.record] = step.operation->getImplementation();
  });
  return implementations;
}

Result<void> StreamProgram::tune() {
  Result<void> done;
  visit(steps, [&](const Step &step) {
    if (done)
      done = step.operation->tune();
  });
  return done;
}

std::map<const plan::Record *, std::string>
StreamProgram::getAlgorithms() const {
  std::map<const plan::Record *, std::string> algorithms;
  visit(steps, [&](const Step &step) {
    std::string algorithm = step.operation->getAlgorithm();
    if (!algorithm.empty())
      algorithms[step.record] = std::move(algorithm);
  });
  return algorithms;
}

Result<void> StreamProgram::run(StreamTimer *timer) {
  return run(steps, timer);
}

Result<void> StreamProgram::run(std::size_t begin, std::size_t end) {
  for (std::size_t number = begin; number < end; ++number)
    if (Result<void> done = run(steps[number], nullptr); !done)
      return done;
  return {};
}

std::vector<std::size_t> StreamProgram::listExchanges() const {
  std::vector<std::size_t> found;
  for (std::size_t number = 0; number < steps.size(); ++number)
    if (std::holds_alternative<plan::Exchange>(steps[number].record->body))
      found.push_back(number);
  return found;
}

Result<void> StreamProgram::run(std::span<const std::size_t> path,
                                std::span<const std::int64_t> iteration) {
  Steps *list = &steps;
  for (std::size_t number : path.first(path.size() - 1))
    list = &(*list)[number].body;
  return (*list)[path.back()].operation->run(iteration);
}

Result<void> StreamProgram::run(const std::function<bool(std::size_t)> &after) {
  for (std::size_t number = 0; number < steps.size(); ++number) {
    if (Result<void> done = run(steps[number], nullptr); !done)
      return done;
    if (!after(number))
      break;
  }
  return {};
}

Result<void> StreamProgram::run(Steps &steps, StreamTimer *timer) {
  for (Step &step : steps)
    if (Result<void> done = run(step, timer); !done)
      return done;
  return {};
}

Result<void> StreamProgram::run(Step &step, StreamTimer *timer) {
  std::size_t begin = timer ? timer->getLast() : 0;
  Result<void> done =
      step.operation ? step.operation->run(iteration) : runLoop(step, timer);
  return done && timer ? timer->end(*step.record, begin) : done;
}

Result<void> StreamProgram::runLoop(Step &loop, StreamTimer *timer) {
  iteration.push_back(0);
  for (std::int64_t n = 0; n < loop.count; ++n) {
    iteration.back() = n;
    if (Result<void> done = run(loop.body, timer); !done)
      return done;
  }
  iteration.pop_back();
  return {};
}
