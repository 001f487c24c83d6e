//===- Convert.cpp - binade convert ---------------------------------------===//

#include "Commands.h"
#include "Diagnostics.h"
#include "Options.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/Pipelines/ConvertOnnx.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>
#include <iostream>

using namespace mlir;
using namespace mlir::binade;
using ::binade::ExitCode;
using ::binade::printable;
using ::binade::quote;
using ::binade::Result;
using ::binade::Severity;

namespace {
struct ConvertCommand {
  std::string model, out;
  std::vector<std::string> dims, ports;
  OnnxConversion conversion;
  ::binade::DiagnosticFormat format = ::binade::DiagnosticFormat::Text;

  int execute();
  Result<void> complete(MLIRContext &context);
  void print(const OnnxConversionReport &report) const;
};
} // namespace

/// Parses the values of options.
Result<void> ConvertCommand::complete(MLIRContext &context) {
  if (auto known = checkPolicyName(conversion.policy); !known)
    return known;
  if (Result<void> legal = refuseModule(model, "convert"); !legal)
    return legal;
  Builder b(&context);
  for (llvm::StringRef text : ports) {
    auto [glob, type] = text.rsplit('=');
    auto format = llvm::StringSwitch<FloatType>(type)
                      .Case("f32", b.getF32Type())
                      .Case("f16", b.getF16Type())
                      .Case("bf16", b.getBF16Type())
                      .Default({});
    if (glob.empty() || !format)
      return usageError("--io-types expects GLOB=f32, f16 or bf16, got " +
                        quote(text.str()));
    conversion.ports.push_back({glob.str(), format});
  }
  if (conversion.scale) {
    int exponent;
    if (std::frexp(*conversion.scale, &exponent) != 0.5)
      return usageError("--loss-scale expects a power of two, got " +
                        std::to_string(*conversion.scale));
  }
  return parseDims(dims, conversion.import);
}

/// Prints what was converted and what was left in f32.
void ConvertCommand::print(const OnnxConversionReport &report) const {
  const ConvertReport &written = report.written;
  std::cout << printable(out) << ": " << written.nodes << " nodes, "
            << written.narrow << " of them narrow, " << written.casts
            << " casts added";
  if (written.tensors)
    std::cout << ", " << written.tensors << " tensors stored narrow";
  std::cout << "\n";
  if (written.scaled && written.hasDynamicScale)
    std::cout << written.scaled
              << " nodes compute scaled gradients: inputs loss_scale and "
                 "growth_counter, outputs found_inf and new values of both\n";
  else if (written.scaled)
    std::cout << written.scaled << " nodes compute gradients times "
              << written.scale << "\n";
  if (written.scaled && !conversion.hasDynamicScale)
    std::cout << (written.hasDynamicScale ? "first loss scale " : "loss scale ")
              << written.scale << ": " << printable(written.scaleReason)
              << "\n";
  if (!written.data.empty())
    std::cout << "weights in: " << printable(written.data) << "\n";
  for (const std::string &limit : written.limits)
    std::cout << "not as decided: " << printable(limit) << "\n";
  for (const std::string &note : written.notes)
    std::cout << "note: " << printable(note) << "\n";
  for (const std::string &held : report.held)
    std::cout << "kept in f32: " << printable(held) << "\n";
  if (!report.partial.everything.empty()) {
    std::cout << "left as it is: " << printable(report.partial.everything)
              << "\n";
    return;
  }
  for (const PartialImport::Node &node : report.partial.nodes)
    if (!node.reason.empty())
      std::cout << "left in f32: node " << quote(node.name) << ": "
                << printable(node.reason) << "\n";
}

int ConvertCommand::execute() {
  MLIRContext context;
  Diagnostics diagnostics(context, printable(model), format);
  if (Result<void> done = complete(context); !done)
    return diagnostics.fail(done.error());
  OnnxConversionReport report;
  if (failed(convertOnnx(model, conversion, out, &context, report)))
    return report.written.exitCode;
  print(report);
  return ExitCode::Ok;
}

void addConvert(CLI::App &app, Run &run) {
  CLI::App *command = ::binade::addCommand(
      app, "convert", "Give an ONNX file the formats of a policy");
  command->footer(
      "Keeps the graph's nodes, names, order, inputs and outputs. Inserts "
      "casts where\nformats change, and stores weights in a narrow format if "
      "only nodes in that format\nread them. Nodes that Binade cannot convert "
      "stay in f32 and are listed.\n"
      "Examples:\n"
      "  binade convert model.onnx --policy bf16-amp -o narrow.onnx\n"
      "  binade convert grads.onnx --policy fp16-amp --loss-scale 1024 \\\n"
      "      -o narrow.onnx\n"
      "  binade convert model.onnx --policy fp16-amp --io-types '*=f16' \\\n"
      "      -o narrow.onnx");
  auto self = std::make_shared<ConvertCommand>();
  OnnxConversion &conversion = self->conversion;
  command->add_option("model", self->model, "ONNX file")
      ->required()
      ->type_name("MODEL.onnx");
  command->add_option("-o,--output", self->out, "ONNX file to write")
      ->required()
      ->type_name("FILE.onnx");
  command
      ->add_option("--policy", conversion.policy,
                   "Precision policy, which chooses the format of every value: "
                   "a name that 'binade list policies' prints, or a .yaml file")
      ->type_name("POLICY")
      ->required();
  command
      ->add_option(
          "--ranges", conversion.ranges,
          "Ranges of values that 'binade train --record' measured; values that "
          "would overflow or underflow in a narrow format keep a wide one")
      ->type_name("FILE.json");
  command
      ->add_option(
          "--io-types", self->ports,
          "New type of the f32 inputs and outputs whose names match: f32, f16 "
          "or bf16, as in '*=f16'; by default types do not change")
      ->type_name("GLOB=FORMAT")
      ->allow_extra_args(false);
  auto *scale =
      command
          ->add_option(
              "--loss-scale", conversion.scale,
              "Factor, a power of two such as 1024, by which f16 gradients are "
              "multiplied inside the graph; by default the policy's, which "
              "--ranges lowers until no recorded gradient overflows")
          ->type_name("SCALE")
          ->check(::binade::number({0x1p-100, 0x1p100}));
  command
      ->add_flag("--dynamic-scale", conversion.hasDynamicScale,
                 "Add the loss scale as an input of the graph, and its next "
                 "value as an output")
      ->excludes(scale);
  command
      ->add_option("--loss-output", conversion.import.lossOutput,
                   "Name of the output that is the loss; by default 'loss'")
      ->type_name("NAME");
  command
      ->add_option(
          "--dim", self->dims,
          "Size of a symbolic dimension, such as batch=8, for choosing "
          "formats; the dimension stays symbolic in the new file")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
  command->add_flag("--allow-links", conversion.import.allowHardLinks,
                    "Accept weight files that are hard links, which have more "
                    "than one name in the file system");
  addFailOnNonfinite(*command, conversion.import);
  ::binade::addDiagnosticFormat(*command, self->format);
  command->callback([&run, self] { run = [self] { return self->execute(); }; });
}
