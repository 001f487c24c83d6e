//===- Export.cpp - binade export -----------------------------------------===//

#include "Commands.h"
#include "Diagnostics.h"
#include "Options.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/ResumeCommand.h"
#include "binade/Container/Magic.h"
#include "binade/Container/Sha256.h"
#include "binade/Export/ExportTrained.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Runtime/RunOrigin.h"
#include "binade/Runtime/TrainedState.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Path.h"
#include <filesystem>
#include <iostream>

using namespace mlir;
using namespace mlir::binade;
using ::binade::ExitCode;
using ::binade::joinPrintable;
using ::binade::oneOf;
using ::binade::printable;
using ::binade::Result;
using ::binade::Severity;
using ::binade::TrainedState;

namespace {
struct ExportCommand {
  std::string run, checkpoint, model, out, weights = "auto";
  bool usesBest = false;
  ExportOptions options;
  ::binade::DiagnosticFormat format = ::binade::DiagnosticFormat::Text;

  int execute();
  Result<void> complete(const Diagnostics &diagnostics);
  void print(const TrainedState &state, const ExportReport &report) const;
};
} // namespace

void ExportCommand::print(const TrainedState &state,
                          const ExportReport &report) const {
  std::cout << printable(out) << ": " << report.nodes << " nodes, "
            << report.tensors << " tensors of " << state.getPath();
  if (std::optional<std::int64_t> step = state.getStep())
    std::cout << " after step " << *step;
  std::cout << "; inputs " << joinPrintable(report.inputs) << "; outputs "
            << joinPrintable(report.outputs) << "\n";
  if (!report.leftOut.empty())
    std::cout << "left out: " << joinPrintable(report.leftOut) << "\n";
  if (!report.data.empty())
    std::cout << "weights in: " << printable(report.data) << "\n";
}

/// Takes from the run what the command line leaves open.
Result<void> ExportCommand::complete(const Diagnostics &diagnostics) {
  auto origin = ::binade::findRunOrigin(run);
  if (!origin)
    return origin.takeError();
  if (!*origin) {
    if (!model.empty())
      return {};
    if (!std::filesystem::exists(run))
      return ::binade::Error{run, "does not exist", ExitCode::Rejected};
    return usageError(
        "--model is required: " + ::binade::quote(run) +
        " is not in the directory of a run whose run.json names the model");
  }
  const ::binade::RunOrigin &trained = **origin;
  auto file = ::binade::openFile(trained.model);
  std::array<std::byte, ::binade::kMagicBytes> head = {};
  size_t size = file ? std::min<uint64_t>(head.size(), file->getSize()) : 0;
  bool isBundle = size &&
                  ::binade::readRange(*file, 0, std::span(head).first(size)) &&
                  ::binade::recognizeMagic(std::span(head).first(size)) ==
                      "a safetensors file";
  if (model.empty()) {
    if (isBundle)
      return usageError("--model is required: the run trained the bundle " +
                        ::binade::quote(trained.model) +
                        ", which is not an ONNX file");
    if (!file)
      return file.takeError().withNote(
          "the run trained this model; --model names its new path");
    model = trained.model;
    Result<std::string> hash = ::binade::sha256(*file, 0, file->getSize());
    if (hash && *hash != trained.sha256)
      diagnostics.print({printable(model), "was changed since the run read it"},
                        Severity::Warning);
  }
  auto take = [&](std::vector<std::string> &values, std::string_view option) {
    if (values.empty())
      values = trained.getValues(option);
  };
  take(options.fold, "--fold");
  take(options.train, "--train");
  take(options.alsoTrain, "--also-train");
  auto loss = trained.getValues("--loss-output");
  if (options.lossOutput.empty() && !loss.empty())
    options.lossOutput = loss.back();
  return {};
}

int ExportCommand::execute() {
  MLIRContext context;
  run = ::binade::findRunDirectory(run);
  Diagnostics diagnostics(context, printable(run), format);
  if (Result<void> done = complete(diagnostics); !done)
    return diagnostics.fail(done.error());
  if (Result<void> legal = refuseModule(model, "export"); !legal)
    return diagnostics.fail(legal.error());
  if (usesBest)
    checkpoint = run + "/best.safetensors";
  Result<TrainedState> state = TrainedState::open(run, checkpoint);
  if (!state)
    return diagnostics.fail(state.error());
  options.weights = llvm::StringSwitch<ExportOptions::Weights>(weights)
                        .Case("inside", ExportOptions::Weights::Inline)
                        .Case("beside", ExportOptions::Weights::External)
                        .Default(ExportOptions::Weights::Auto);
  TrainedValues values;
  values.where = state->getPath();
  values.names = state->getNames();
  values.find = [&](StringRef name) { return state->find(name.str()); };
  values.read = [&](StringRef name, ::binade::DType dtype) {
    return state->readForEvaluation(name.str(), dtype);
  };
  ExportReport report;
  if (failed(exportModel(model, values, options, out, &context, report)))
    return report.exitCode;
  if (!report.unknown.empty())
    diagnostics.print(
        {state->getPath(), "the model has no tensors of these names, which are "
                           "left out: " +
                               joinPrintable(report.unknown)},
        Severity::Warning);
  print(*state, report);
  return ExitCode::Ok;
}

void addExport(CLI::App &app, Run &run) {
  CLI::App *command = ::binade::addCommand(
      app, "export", "Write the trained weights of a run into its ONNX model");
  command->footer(
      "The new file is the imported model with the trained weights and running "
      "statistics.\n"
      "By default it is for inference: without dropout, loss and labels.\n"
      "The other direction, from a PyTorch model to an ONNX file to train, is "
      "'binade from-torch'.\n"
      "Examples:\n"
      "  binade export run -o trained.onnx\n"
      "  binade export stopped --best -o best.onnx\n"
      "  binade export run --keep-loss -o judged.onnx\n"
      "  binade export run/final.safetensors --model model.onnx --training \\\n"
      "      --weights inside -o again.onnx");
  auto self = std::make_shared<ExportCommand>();
  command
      ->add_option(
          "run", self->run,
          "Directory of a run, or a file such as RUN/final.safetensors")
      ->required()
      ->type_name("RUN");
  auto *best = command->add_flag(
      "--best", self->usesBest,
      "Export the state with the lowest eval_loss, RUN/best.safetensors, "
      "instead of the final one");
  command
      ->add_option("--checkpoint", self->checkpoint,
                   "Checkpoint of the run to export instead of the final "
                   "state, by step, such as 100, or by path")
      ->type_name("STEP|PATH")
      ->excludes(best);
  command
      ->add_option("--model", self->model,
                   "ONNX file that was trained; required only if run.json does "
                   "not name it or the file has moved")
      ->type_name("MODEL.onnx");
  command->add_option("-o,--output", self->out, "ONNX file to write")
      ->required()
      ->type_name("FILE.onnx");
  auto *only =
      command
          ->add_option("--only", self->options.only,
                       "Output to keep; by default all outputs of the model "
                       "except the loss, or the loss if it is the only one")
          ->type_name("NAME")
          ->allow_extra_args(false);
  auto *keepLoss = command->add_flag(
      "--keep-loss", self->options.keepLoss,
      "Keep the loss as an output, and the labels as an input");
  keepLoss->excludes(only);
  command
      ->add_flag("--training", self->options.training,
                 "Write a graph for training: with the loss, dropout, and "
                 "batch norm that uses the statistics of the batch")
      ->excludes(only)
      ->excludes(keepLoss);
  command
      ->add_option(
          "--loss-output", self->options.lossOutput,
          "Name of the output that is the loss; the same value as in training")
      ->type_name("NAME");
  command
      ->add_option("--fold", self->options.fold,
                   "Initializers that were compiled into the step as constants "
                   "by --fold; the same value as in training")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  command
      ->add_option("--train", self->options.train,
                   "Initializers that were trained by --train; the same value "
                   "as in training")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  command
      ->add_option("--also-train", self->options.alsoTrain,
                   "Initializers that were trained by --also-train; the same "
                   "value as in training")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--weights", self->weights,
          "Where to store weights: 'inside' the ONNX file, or 'beside' it in "
          "FILE.onnx.data; 'auto' does what the imported model does, but uses "
          "FILE.onnx.data if they exceed 1 GiB")
      ->check(oneOf({"auto", "inside", "beside"}))
      ->capture_default_str();
  command->add_flag("--allow-links", self->options.allowHardLinks,
                    "Accept weight files that are hard links, which have more "
                    "than one name in the file system");
  ::binade::addDiagnosticFormat(*command, self->format);
  command->callback([&run, self] { run = [self] { return self->execute(); }; });
}
