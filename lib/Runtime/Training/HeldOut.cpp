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

Result<double> HeldOut::evaluate(std::uint64_t sample,
                                 std::uint64_t count) const {
  std::vector<std::uint64_t> batch(source->getBatch());
  for (std::uint64_t i = 0; i < batch.size(); ++i)
    batch[i] = sample + i % count;
  if (Result<void> filled = source->fill(batch); !filled)
    return filled.takeError();
  Result<double> loss = program->evaluate();
  if (!loss)
    return loss;
  if (auto launch = program->findIndexFault())
    return Error{source->getPath(),
                 "the batch of samples from " + std::to_string(sample) +
                     " leads to an index or label that is out of range, in " +
                     quote(*launch)};
  return loss;
}

/// Returns the largest divisor of `batch` that is at most `count`.
static std::uint64_t findDivisor(std::uint64_t batch, std::uint64_t count) {
  std::uint64_t divisor = std::min(batch, count);
  while (batch % divisor != 0)
    --divisor;
  return divisor;
}

Result<std::optional<double>> HeldOut::sumLosses(std::uint64_t sample,
                                                 std::uint64_t count) const {
  double sum = 0;
  while (count > 0) {
    if (options->interrupted && options->interrupted() != ExitCode::Ok)
      return std::optional<double>();
    std::uint64_t part = findDivisor(source->getBatch(), count);
    Result<double> loss = evaluate(sample, part);
    if (!loss)
      return loss.takeError();
    sum += *loss * static_cast<double>(part);
    sample += part;
    count -= part;
  }
  return std::optional(sum);
}

Result<bool> HeldOut::chooseSamples(std::optional<std::uint64_t> earlier) {
  if (!source || getRest() == 0)
    return true;
  std::uint64_t batch = source->getBatch(), rest = getRest();
  usesRest = earlier == samples;
  if (usesRest || earlier == samples - rest || samples < batch)
    return true;
  // The same parts as those of the rest, and what remains of a batch.
  Result<double> whole = evaluate(first, batch);
  if (!whole)
    return whole.takeError();
  double sum = 0;
  for (auto [begin, count] :
       {std::pair(first, rest), std::pair(first + rest, batch - rest)}) {
    Result<std::optional<double>> part = sumLosses(begin, count);
    if (!part)
      return part.takeError();
    if (!*part)
      return false;
    sum += **part;
  }
  // Sums in f32 in another order differ by far less, and losses that depend on
  // the batch in another way by more.
  constexpr double kTolerance = 1e-4;
  double mean = sum / static_cast<double>(batch);
  usesRest = std::abs(mean - *whole) <= kTolerance * std::abs(*whole);
  return true;
}

Result<std::optional<double>> HeldOut::evaluate() const {
  std::uint64_t batch = source->getBatch();
  double sum = 0;
  std::uint64_t end = first + samples - getRest();
  for (std::uint64_t sample = first; sample < end; sample += batch) {
    if (options->interrupted && options->interrupted() != ExitCode::Ok)
      return std::optional<double>();
    Result<double> loss = evaluate(sample, batch);
    if (!loss)
      return loss.takeError();
    sum += *loss;
  }
  sum *= static_cast<double>(batch);
  if (usesRest) {
    Result<std::optional<double>> rest = sumLosses(end, getRest());
    if (!rest || !*rest)
      return rest;
    sum += **rest;
  }
  return std::optional(sum / static_cast<double>(getNumSamples()));
}
