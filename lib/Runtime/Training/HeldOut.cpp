//===- HeldOut.cpp - Evaluation on held-out samples -----------------------===//

#include "HeldOut.h"
#include "binade/Container/Printable.h"
#include <numeric>

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
  if (std::uint64_t rest = samples - getNumSamples())
    text += " (" + std::to_string(rest) + " more do not fill a batch)";
  text += "; " + std::to_string(trainingSamples) + " to train on";
  if (std::uint64_t between = first > 0 ? first - trainingSamples : 0)
    text += " (" + std::to_string(between) + " more overlap held-out ones)";
  return text;
}

bool HeldOut::isDue(std::int64_t step) const {
  return source && (step == options->steps ||
                    (options->evalEvery > 0 && step % options->evalEvery == 0));
}

Result<std::optional<double>> HeldOut::evaluate() const {
  std::vector<std::uint64_t> batch(source->getBatch());
  double sum = 0;
  std::uint64_t end = first + getNumSamples();
  for (std::uint64_t sample = first; sample < end; sample += batch.size()) {
    if (options->interrupted && options->interrupted() != ExitCode::Ok)
      return std::optional<double>();
    std::iota(batch.begin(), batch.end(), sample);
    if (Result<void> filled = source->fill(batch); !filled)
      return filled.takeError();
    Result<double> loss = program->evaluate();
    if (!loss)
      return loss.takeError();
    sum += *loss;
    if (auto launch = program->findIndexFault())
      return Error{source->getPath(),
                   "the batch of samples from " + std::to_string(sample) +
                       " leads to an index or label that is out of range, in " +
                       quote(*launch)};
  }
  return std::optional(sum * static_cast<double>(batch.size()) /
                       static_cast<double>(getNumSamples()));
}
