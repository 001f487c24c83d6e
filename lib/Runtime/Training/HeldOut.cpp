//===- HeldOut.cpp - Evaluation on held-out samples -----------------------===//

#include "HeldOut.h"
#include "binade/Container/Printable.h"
#include <algorithm>
#include <cmath>

using namespace binade;

Result<HeldOut> HeldOut::create(Program &program, const Data &data,
                                const TrainOptions &options) {
  HeldOut made(program, options);
  made.trainingSamples = data.getNumSamples();
  if (!options.evalData && options.evalFraction == 0)
    return made;
  if (!program.hasEvaluation())
    return Error{kPlanTensor.data(),
                 "the program was compiled without an evaluation"}
        .withNote("'binade compile' adds one to a model with a loss");
  if (options.evalData) {
    made.source = options.evalData;
    made.samples = options.evalData->getNumSamples();
    return made;
  }
  Result<Data::Split> split = data.split(options.evalFraction);
  if (!split)
    return split.takeError();
  made.source = &data;
  made.first = split->heldOut;
  made.samples = data.getNumSamples() - split->heldOut;
  made.trainingSamples = split->training;
  return made;
}

std::string HeldOut::describe() const {
  std::string text = "held out: " + std::to_string(getNumSamples()) +
                     " samples of " + source->getPath();
  if (std::uint64_t unused = samples - getNumSamples())
    text += " (" + std::to_string(unused) + " unused: no full batch of " +
            std::to_string(source->getBatch()) +
            ", and the loss of a batch is not the mean over its samples)";
  text += "; " + std::to_string(trainingSamples) + " to train on";
  if (std::uint64_t between = first > 0 ? first - trainingSamples : 0)
    text += " (" + std::to_string(between) + " more overlap held-out ones)";
  return text;
}

bool HeldOut::isDue(std::int64_t step) const {
  return source && (step == options->steps ||
                    (options->evalEvery > 0 && step % options->evalEvery == 0));
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

Result<void> HeldOut::evaluate(std::uint64_t sample, std::uint64_t count,
                               EvaluationSums &sums) const {
  std::vector<std::uint64_t> batch(source->getBatch());
  for (std::uint64_t i = 0; i < batch.size(); ++i)
    batch[i] = sample + i % count;
  if (Result<void> filled = source->fill(batch); !filled)
    return filled;
  Result<double> loss = program->evaluate();
  if (!loss)
    return loss.takeError();
  if (auto launch = program->findIndexFault())
    return Error{source->getPath(),
                 "the batch of samples from " + std::to_string(sample) +
                     " leads to an index or label that is out of range, in " +
                     quote(*launch)};
  sums.add(*loss, count,
           static_cast<double>(count) / static_cast<double>(batch.size()));
  return {};
}

/// Returns the largest divisor of `batch` that is at most `count`.
static std::uint64_t findDivisor(std::uint64_t batch, std::uint64_t count) {
  std::uint64_t divisor = std::min(batch, count);
  while (batch % divisor != 0)
    --divisor;
  return divisor;
}

Result<bool> HeldOut::evaluateRest(std::uint64_t sample, std::uint64_t count,
                                   EvaluationSums &sums) const {
  while (count > 0) {
    if (isInterrupted())
      return false;
    std::uint64_t part = findDivisor(source->getBatch(), count);
    if (Result<void> done = evaluate(sample, part, sums); !done)
      return done.takeError();
    sample += part;
    count -= part;
  }
  return true;
}

Result<bool> HeldOut::chooseSamples(std::optional<std::uint64_t> earlier) {
  if (!source || getRest() == 0)
    return true;
  std::uint64_t batch = source->getBatch(), rest = getRest();
  usesRest = earlier == samples;
  if (usesRest || earlier == samples - rest || samples < batch)
    return true;
  // The same parts as those of the rest, and what remains of a batch.
  EvaluationSums whole(*program), parts(*program);
  if (Result<void> done = evaluate(first, batch, whole); !done)
    return done.takeError();
  for (auto [begin, count] :
       {std::pair(first, rest), std::pair(first + rest, batch - rest)}) {
    Result<bool> done = evaluateRest(begin, count, parts);
    if (!done || !*done)
      return done;
  }
  // Sums in f32 in another order differ by far less, and losses that depend on
  // the batch in another way by more.
  constexpr double kTolerance = 1e-4;
  usesRest = std::abs(parts.getLoss() - whole.getLoss()) <=
             kTolerance * std::abs(whole.getLoss());
  return true;
}

Result<std::optional<Evaluation>> HeldOut::evaluate() const {
  std::uint64_t batch = source->getBatch();
  EvaluationSums sums(*program);
  std::uint64_t end = first + samples - getRest();
  for (std::uint64_t sample = first; sample < end; sample += batch) {
    if (isInterrupted())
      return std::optional<Evaluation>();
    if (Result<void> done = evaluate(sample, batch, sums); !done)
      return done.takeError();
  }
  if (usesRest) {
    Result<bool> done = evaluateRest(end, getRest(), sums);
    if (!done)
      return done.takeError();
    if (!*done)
      return std::optional<Evaluation>();
  }
  return std::optional(sums.getResults());
}

Result<std::optional<DataEvaluation>>
binade::evaluate(Program &program, const Data &data,
                 const std::function<int()> &interrupted) {
  TrainOptions options;
  options.evalData = &data;
  options.interrupted = interrupted;
  Result<HeldOut> heldOut = HeldOut::create(program, data, options);
  if (!heldOut)
    return heldOut.takeError();
  Result<bool> isDecided = heldOut->chooseSamples(std::nullopt);
  if (!isDecided)
    return isDecided.takeError();
  Result<std::optional<Evaluation>> results =
      *isDecided ? heldOut->evaluate() : std::optional<Evaluation>();
  if (!results)
    return results.takeError();
  if (!*results)
    return std::optional<DataEvaluation>();
  std::uint64_t count = heldOut->getNumSamples();
  return std::optional(DataEvaluation{**std::move(results), count,
                                      data.getNumSamples() - count});
}
