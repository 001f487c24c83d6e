//===- List.cpp - binade list ---------------------------------------------===//

#include "Commands.h"
#include "Policy.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/Container/Error.h"
#include "binade/Container/Numbers.h"
#include "binade/IR/Rules.h"
#include "binade/Optimizer/RuleLibrary.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Precision/StateFormats.h"
#include "binade/Runtime/Devices.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <iostream>

using namespace mlir;
using namespace mlir::binade;
using ::binade::oneOf;

/// How much a rule keeps of a matrix: bytes per element, and what is kept of
/// its rows or columns.
static std::string describeStates(OptimizerOp optimizer) {
  SmallVector<func::FuncOp> prepares = getPrepares(optimizer);
  func::FuncOp prepare = prepares.empty() ? func::FuncOp() : prepares.front();
  size_t states = optimizer.getStates().size();
  size_t elementwise =
      llvm::count_if(llvm::seq<size_t>(states), [&](size_t state) {
        return isElementwise(prepare, state);
      });
  std::string text =
      llvm::formatv("{0,2} bytes of state per parameter", 4 * elementwise);
  if (elementwise < states)
    text += llvm::formatv(", {0} per row and column", 4);
  return text;
}

static void listOptimizers() {
  MLIRContext context;
  size_t width = 0;
  for (StringRef name : getRuleNames())
    width = std::max(width, name.size());
  for (StringRef name : getRuleNames()) {
    FailureOr<Rule> rule = loadRule(name, &context);
    OptimizerOp optimizer = rule->optimizer;
    llvm::outs() << llvm::left_justify(name, width) << "  "
                 << describeStates(optimizer) << ";";
    for (auto setting : optimizer.getHypers().getAsRange<SettingAttr>())
      llvm::outs() << " " << setting.getName().getValue() << "="
                   << llvm::format("%g", setting.getDefault());
    if (auto others = optimizer.getOthers())
      llvm::outs() << "; other parameters by " << *others;
    if (DictionaryAttr variants = optimizer.getVariantsAttr()) {
      llvm::outs() << "; variants";
      for (NamedAttribute variant : variants)
        llvm::outs() << " " << variant.getName().getValue();
    }
    llvm::outs() << "\n";
  }
}

static void listFormats() {
  MLIRContext context;
  context.getOrLoadDialect<BinadeDialect>();
  std::vector<FormatInfo> formats = listFormats(&context);
  size_t width = 0;
  for (const FormatInfo &format : formats)
    width = std::max(width, format.name.size());
  for (const FormatInfo &format : formats)
    llvm::outs() << llvm::left_justify(format.name, width)
                 << llvm::formatv("  {0,5:F2} bytes per element; {1}\n",
                                  format.bytes, format.summary);
}

static void listPhases() {
  for (const PhaseDescription &phase : getPhases())
    llvm::outs() << llvm::formatv("{0,-12} {1}\n", phase.name, phase.summary);
}

/// What a step can run on, or why it cannot.
static void listDevices() {
  ::binade::DeviceList list = ::binade::listDevices();
  llvm::outs() << llvm::formatv(
      "cpu     {0} core{1}, {2}, {3}\n", list.cores, list.cores == 1 ? "" : "s",
      list.isaLevel.empty() ? "older than x86-64-v3: runs nothing"
                            : list.isaLevel,
      ::binade::formatBytes(list.memory));
  for (const ::binade::CudaDevice &device : list.cuda)
    llvm::outs() << llvm::formatv(
        "cuda:{0}  {1}, compute capability {2}, {3} at {4:F0} GB/s, "
        "{5} multiprocessors at {6} MHz, CUDA {7}.{8}\n",
        device.index, device.name, device.capability.format(),
        ::binade::formatBytes(device.bytes), device.bytesPerSecond / 1e9,
        device.multiprocessors, device.clockHz / 1000000,
        list.cudaVersion / 1000, list.cudaVersion % 1000 / 10);
  if (!list.whyNoCuda)
    return;
  llvm::outs() << (list.cuda.empty() ? "cuda    none: " : "cuda    no more: ")
               << list.whyNoCuda->message << "\n";
  for (const std::string &note : list.whyNoCuda->notes)
    llvm::outs() << "        " << note << "\n";
}

void addList(CLI::App &app, Run &run) {
  CLI::App *command = ::binade::addCommand(
      app, "list", "List policies, optimizers, formats, phases or devices");
  command->footer("Examples:\n"
                  "  binade list policies\n"
                  "  binade list optimizers\n"
                  "  binade list formats\n"
                  "  binade list phases\n"
                  "  binade list devices");
  auto what = std::make_shared<std::string>();
  command->add_option("what", *what, "What to list")
      ->required()
      ->check(
          oneOf({"policies", "optimizers", "formats", "phases", "devices"}));
  command->callback([&run, what] {
    run = [what] {
      if (*what == "policies")
        listPolicies();
      else if (*what == "optimizers")
        listOptimizers();
      else if (*what == "formats")
        listFormats();
      else if (*what == "phases")
        listPhases();
      else
        listDevices();
      return int(::binade::ExitCode::Ok);
    };
  });
}
