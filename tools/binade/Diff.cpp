//===- Diff.cpp - binade diff ---------------------------------------------===//

#include "Commands.h"
#include "Model.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/Container/Printable.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Names.h"
#include "binade/Precision/Describe.h"
#include "binade/Precision/MatchRules.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::ExitCode;
using ::binade::Result;

//===----------------------------------------------------------------------===//
// What differs
//===----------------------------------------------------------------------===//

static std::vector<unsigned> findDifferences(const Explanation &first,
                                             const Explanation &second) {
  std::vector<unsigned> nodes;
  for (unsigned i = 0, e = first.getGraph().getNodes().size(); i < e; ++i)
    if (getFormats(first.getDecision(i)) != getFormats(second.getDecision(i)))
      nodes.push_back(i);
  return nodes;
}

/// Returns the indices of the updates whose storage decisions differ.
static std::vector<unsigned> findUpdates(const Explanation &first,
                                         const Explanation &second) {
  std::vector<unsigned> updates;
  for (unsigned i = 0, e = first.getGraph().getStorages().size(); i < e; ++i)
    if (!areEquivalent(first.getGraph().getStorages()[i].decision,
                       second.getGraph().getStorages()[i].decision))
      updates.push_back(i);
  return updates;
}

static void printSide(StorageAttr decision, char mark) {
  llvm::outs() << llvm::formatv("  {0} {1,-24} <- {2}\n", mark,
                                describe(decision),
                                ::binade::printable(describeCause(decision)));
}

static void printSide(const Explanation &explanation, unsigned node,
                      char mark) {
  llvm::outs() << llvm::formatv(
      "  {0} {1,-24} <- {2}\n", mark, describe(explanation.getDecision(node)),
      ::binade::printable(describeCause(explanation, node)));
}

static void print(const Explanation &first, const Explanation &second,
                  ArrayRef<unsigned> nodes, ArrayRef<unsigned> updates) {
  for (unsigned node : nodes) {
    PrecisionOpInterface op = first.getGraph().getNodes()[node].op;
    llvm::outs() << ::binade::printable(describe(op.getOperation())) << "\n";
    printSide(first, node, '-');
    printSide(second, node, '+');
  }
  for (unsigned update : updates) {
    const StorageNode &node = first.getGraph().getStorages()[update];
    llvm::outs() << ::binade::printable(describe(node.op)) << "\n";
    printSide(node.decision, '-');
    printSide(second.getGraph().getStorages()[update].decision, '+');
  }
  StepCost a = first.getCost(), b = second.getCost();
  auto line = [](StringRef what, int64_t before, int64_t after) {
    llvm::outs() << llvm::formatv("{0,-26} {1,12} -> {2,12}\n", what, before,
                                  after);
  };
  llvm::outs() << (nodes.empty() && updates.empty() ? "" : "\n");
  if (!updates.empty())
    line("updates that differ", 0, updates.size());
  line("ops that differ", 0, nodes.size());
  line("narrow ops", a.narrowOps, b.narrowOps);
  line("casts", a.total.casts, b.total.casts);
  line("bytes of casts", a.total.castBytes, b.total.castBytes);
  line("bytes of results", a.total.bytes, b.total.bytes);
}

static llvm::json::Object writeSide(const Explanation &explanation,
                                    unsigned node) {
  return llvm::json::Object{
      {"format", describe(explanation.getDecision(node))},
      {"cause", llvm::json::fixUTF8(describeCause(explanation, node))}};
}

static llvm::json::Object writeSide(StorageAttr decision) {
  return llvm::json::Object{
      {"format", describe(decision)},
      {"cause", llvm::json::fixUTF8(describeCause(decision))}};
}

static llvm::json::Value toJson(const Explanation &first,
                                const Explanation &second,
                                ArrayRef<unsigned> nodes,
                                ArrayRef<unsigned> updates) {
  llvm::json::Array ops, changed;
  for (unsigned node : nodes) {
    PrecisionOpInterface op = first.getGraph().getNodes()[node].op;
    ops.push_back(
        llvm::json::Object{{"id", node},
                           {"op", op->getName().stripDialect()},
                           {"name", llvm::json::fixUTF8(getNodeName(op))},
                           {"phase", stringifyPhase(getPhase(op))},
                           {"first", writeSide(first, node)},
                           {"second", writeSide(second, node)}});
  }
  for (unsigned update : updates) {
    const StorageNode &node = first.getGraph().getStorages()[update];
    changed.push_back(llvm::json::Object{
        {"name", llvm::json::fixUTF8(getNodeName(node.op))},
        {"first", writeSide(node.decision)},
        {"second",
         writeSide(second.getGraph().getStorages()[update].decision)}});
  }
  return llvm::json::Object{{"ops", std::move(ops)},
                            {"updates", std::move(changed)}};
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

namespace {
struct DiffCommand {
  ImportArguments import;
  OutputArguments output;
  std::vector<std::string> policies;
  std::string ranges;
  ReportFormat format = ReportFormat::Text;

  int run() {
    Model model(import.model, output);
    for (const std::string &name : policies)
      if (Result<void> known = checkPolicyName(name); !known)
        return model.getDiagnostics().fail(known.error());
    if (policies.size() != 2)
      return model.getDiagnostics().fail(
          usageError("diff compares two policies, --policy A --policy B, got " +
                     std::to_string(policies.size())));
    if (int code = model.readStep(import, CompileOptions()))
      return code;
    MLIRContext *context = model.getModule().getContext();
    FailureOr<Policy> a = loadPolicy(policies[0], context);
    FailureOr<Policy> b = loadPolicy(policies[1], context);
    if (failed(a) || failed(b) || failed(addEvidence(*a, ranges, context)) ||
        failed(addEvidence(*b, ranges, context)))
      return ExitCode::Rejected;
    FailureOr<Explanation> first = Explanation::create(model.getStep(), *a);
    FailureOr<Explanation> second = Explanation::create(model.getStep(), *b);
    if (failed(first) || failed(second) ||
        failed(checkRules(first->getGraph())) ||
        failed(checkRules(second->getGraph())))
      return ExitCode::Rejected;
    std::vector<unsigned> nodes = findDifferences(*first, *second);
    std::vector<unsigned> updates = findUpdates(*first, *second);
    if (format == ReportFormat::Json)
      llvm::outs() << llvm::formatv("{0:2}\n",
                                    toJson(*first, *second, nodes, updates));
    else
      print(*first, *second, nodes, updates);
    return nodes.empty() && updates.empty() ? ExitCode::Ok
                                            : ExitCode::Difference;
  }
};
} // namespace

void addDiff(CLI::App &app, Run &run) {
  CLI::App *command = ::binade::addCommand(
      app, "diff",
      "Compare formats of two policies, and the rules that chose "
      "them");
  command->footer(
      "Examples:\n"
      "  binade diff model.onnx --policy bf16-amp --policy grappler-bf16\n"
      "  binade diff model.onnx --policy bf16-amp --policy mine.yaml --format "
      "json\n"
      "The exit code is 1 if the policies differ on the model.");
  auto self = std::make_shared<DiffCommand>();
  self->import.add(*command, "ONNX file, or a module (.mlir) of a phase up to "
                             "'optimizer'");
  self->output.add(*command);
  command
      ->add_option("--policy", self->policies,
                   "Policy to compare, given twice: a name that 'binade list "
                   "policies' prints, or a .yaml file")
      ->type_name("POLICY")
      ->allow_extra_args(false)
      ->required();
  command
      ->add_option("--ranges", self->ranges,
                   "Ranges of values that 'binade train --record' measured, "
                   "used with both policies")
      ->type_name("FILE.json");
  addReportFormat(*command, self->format);
  command->callback([&run, self] { run = [self] { return self->run(); }; });
}
