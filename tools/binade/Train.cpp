//===- Train.cpp - binade train -------------------------------------------===//

#include "Alarms.h"
#include "Commands.h"
#include "Model.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/TrainArguments.h"
#include <iostream>

using ::binade::OnNonFinite;
using ::binade::Program;
using ::binade::Result;

namespace {
struct TrainCommand {
  ImportArguments import;
  StepArguments step;
  OutputArguments output;
  ::binade::TrainArguments train;
  AlarmArguments alarms;
  ::binade::DeviceChoice device;

  int run() {
    Model model(import.model, output);
    auto fail = [&](const ::binade::Error &error) {
      return model.getDiagnostics().fail(error);
    };
    if (Result<void> complete = train.complete(); !complete)
      return fail(complete.error());
    if (int code = alarms.complete(output, train.train, step.options))
      return code;
    const ::binade::TrainOptions &options = train.train;
    if (options.onNonFinite == OnNonFinite::Continue)
      step.options.onNonfinite = "continue";
    if (options.onNonFinite == OnNonFinite::Shrink)
      step.options.onNonfinite = "shrink";
    step.options.keepGradients = options.saveGradients > 0;
    if (!options.recordRanges.empty())
      step.options.statistics = mlir::binade::kRangeStatistics.str();
    ::binade::LoadOptions load;
    load.threads = step.options.threads;
    load.device = device;
    load.notify = [](std::string_view text) {
      std::cerr << "binade: " << text << "\n";
    };
    auto loaded = model.load(import, step, load);
    if (auto *code = std::get_if<int>(&loaded))
      return *code;
    Result<int> code = train.run(std::get<Program>(loaded), import.model,
                                 model.getDirectory());
    return code ? *code : fail(code.error());
  }
};
} // namespace

void addTrain(CLI::App &app, Run &run) {
  CLI::App *command =
      ::binade::addCommand(app, "train", "Train a model, or a compiled step");
  command->footer(
      "Examples:\n"
      "  binade train model.onnx --data train.safetensors --policy bf16-amp "
      "\\\n"
      "      --optimizer adamw --lr 1e-3 --set weight_decay=0.01 --steps 1000 "
      "--out run\n"
      "  binade train step.bnd --data train.safetensors --steps 100 --out run "
      "\\\n"
      "      --init run/final.safetensors --lr 3e-4\n"
      "  binade train step.bnd --data train.safetensors --steps 100 "
      "--save-every 20 \\\n"
      "      --resume survivor");
  auto self = std::make_shared<TrainCommand>();
  self->import.add(*command, "ONNX file, or a bundle of 'binade compile'");
  self->step.add(*command);
  self->output.add(*command);
  ::binade::addDevice(*command, self->device);
  self->train.add(*command);
  self->alarms.add(*command);
  command->callback([&run, self, command] {
    ::binade::requireRun(*command);
    run = [self] { return self->run(); };
  });
}
