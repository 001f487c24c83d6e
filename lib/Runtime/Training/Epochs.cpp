//===- Epochs.cpp - The length of a run in epochs -------------------------===//

#include "binade/Runtime/Epochs.h"
#include "HeldOut.h"

using namespace binade;

static std::string count(std::int64_t number, std::string_view noun,
                         std::string_view plural) {
  return std::to_string(number) + " " +
         std::string(number == 1 ? noun : plural);
}

static std::string countBatches(std::int64_t number) {
  return count(number, "batch", "batches");
}

Result<void> binade::countSteps(Program &program, const Data &data,
                                TrainOptions &options) {
  Result<HeldOut> heldOut = HeldOut::create(program, data, options);
  if (!heldOut)
    return heldOut.takeError();
  auto samples = static_cast<std::int64_t>(heldOut->getTrainingSamples());
  std::int64_t batches = samples / static_cast<std::int64_t>(data.getBatch());
  std::int64_t perStep = program.getPlan().batches;
  std::int64_t read;
  if (__builtin_mul_overflow(options.epochs, batches, &read))
    return Error{"--epochs",
                 "too many: " + std::to_string(options.epochs) + " epochs of " +
                     countBatches(batches),
                 ExitCode::Usage};
  options.steps = read / perStep;
  std::string length =
      count(options.epochs, "epoch", "epochs") + " of " + countBatches(batches);
  if (options.steps == 0)
    return Error{"--epochs",
                 length + " from " + data.getPath() +
                     " fill no step, which reads " + countBatches(perStep) +
                     " of " +
                     count(static_cast<std::int64_t>(data.getBatch()), "sample",
                           "samples"),
                 ExitCode::Usage}
        .withNote("there are " + count(samples, "sample", "samples") +
                  " to train on; --steps trains for a number of steps");
  if (options.notify)
    options.notify("length: " + length + ", " +
                   count(options.steps, "step", "steps"));
  return {};
}
