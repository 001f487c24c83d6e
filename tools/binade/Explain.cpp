//===- Explain.cpp - binade explain ---------------------------------------===//

#include "Commands.h"
#include "Model.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/Report.h"
#include "binade/Container/Numbers.h"
#include "binade/Container/Printable.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Names.h"
#include "binade/IR/QuantizedOperands.h"
#include "binade/Kernels/EmitPlan.h"
#include "binade/Pipelines/Fallbacks.h"
#include "binade/Precision/Describe.h"
#include "binade/Precision/MatchRules.h"
#include "binade/Precision/Products.h"
#include "binade/Precision/StateFormats.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/ScopedPrinter.h"
#include <iostream>

using namespace mlir;
using namespace mlir::binade;
using ::binade::ExitCode;
using ::binade::formatBytes;
using ::binade::Result;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static void printLine(const Explanation &explanation, unsigned node) {
  PrecisionOpInterface op = explanation.getGraph().getNodes()[node].op;
  llvm::outs() << llvm::formatv(
      "{0,-24} {1}  <- {2}\n", describe(explanation.getDecision(node)),
      ::binade::printable(describe(op.getOperation())),
      ::binade::printable(describeCause(explanation, node)));
}

static void printCasts(const Explanation &explanation, Operation *op) {
  for (const CastReport *report : explanation.getCasts(op)) {
    bool isMaker = report->value.getDefiningOp() == op;
    size_t others = report->readers.size() - (isMaker ? 0 : 1);
    llvm::outs() << "    cast   " << (isMaker ? "its result" : "of ")
                 << (isMaker ? std::string()
                             : ::binade::printable(describe(report->value)))
                 << ", " << report->from << " to " << report->to << ", "
                 << formatBytes(report->getBytes());
    if (isMaker)
      llvm::outs() << ", for " << others
                   << (others == 1 ? " reader" : " readers");
    else if (others > 0)
      llvm::outs() << ", shared with " << others
                   << (others == 1 ? " other" : " others");
    llvm::outs() << "\n";
  }
}

/// Prints the fallback of an op, if it has one.
static void printFallback(const Explanation &explanation, Operation *op,
                          const std::string &target) {
  if (const Fallback *fallback = explanation.getFallback(op))
    llvm::outs() << "    plan   on " << target << ": " << fallback->describe()
                 << "\n";
}

/// Prints each fallback of the step and the number of its ops.
static void printFallbacks(const Explanation &explanation,
                           const std::string &target) {
  std::map<::binade::Fallback, int64_t> counts;
  for (const PrecisionNode &node : explanation.getGraph().getNodes())
    if (const Fallback *fallback = explanation.getFallback(node.op))
      ++counts[*fallback];
  if (counts.empty())
    return;
  llvm::outs() << "\nwhat the plan computes otherwise, on " << target << "\n";
  for (const auto &[fallback, count] : counts)
    llvm::outs() << llvm::formatv("{0,6} {1}  {2}\n", count,
                                  count == 1 ? "op " : "ops",
                                  fallback.describe());
}

/// Prints the recorded ranges of the results, if there are any.
static void printEvidence(const PrecisionGraph &graph, Operation *op) {
  for (Value result : op->getResults())
    for (const FormatEvidence &seen : graph.getEvidence(result))
      llvm::outs() << llvm::formatv(
          "    seen   {0} to {1}{2}; in {3} {4}% underflow, {5}% overflow\n",
          llvm::format("%.3g", seen.range->smallest),
          llvm::format("%.3g", seen.range->amax),
          seen.scale == 1.0
              ? std::string()
              : llvm::formatv(", times {0}", llvm::format("%g", seen.scale))
                    .str(),
          seen.format, llvm::format("%.3g", 100 * seen.underflow),
          llvm::format("%.3g", 100 * seen.overflow));
}

/// Prints the share of multiply-adds in each format, if there are any.
static void printMacs(const Explanation &explanation) {
  std::map<std::string, int64_t> counts = countMacsByFormat(explanation);
  int64_t total = 0;
  for (const auto &[format, count] : counts)
    total += count;
  if (total == 0)
    return;
  llvm::outs() << "multiply-adds";
  StringRef separator = ": ";
  for (const auto &[format, count] : counts) {
    llvm::outs() << separator
                 << llvm::format("%.1f", 100.0 * double(count) / double(total))
                 << "% in " << format;
    separator = ", ";
  }
  llvm::outs() << "\n";
}

/// Prints the formats of one product of a layer.
static void printProduct(const Explanation &explanation, StringRef name,
                         unsigned node) {
  PrecisionAttr decision = explanation.getDecision(node);
  std::string missing = explainMissingTransform(
      explanation.getGraph().getNodes()[node], decision);
  llvm::outs() << "  " << name << "  " << describe(decision)
               << (missing.empty() ? "" : ", not transformed: " + missing)
               << "\n";
}

/// Prints the formats of the three products of each layer with a weight.
static void printProducts(const Explanation &explanation,
                          const OpRoles &roles) {
  if (!explanation.getGraph().quantizesOperands())
    return;
  llvm::outs() << "\nproducts of layers\n";
  for (const LayerNodes &layer : listLayers(explanation, roles)) {
    llvm::outs() << ::binade::printable(layer.name) << "\n";
    for (auto [name, nodes] : llvm::zip(kLayerProducts, layer.products))
      for (unsigned node : nodes)
        printProduct(explanation, name, node);
  }
  printMacs(explanation);
}

static void printFlip(Explanation &explanation, unsigned node) {
  constexpr size_t kShown = 8;
  std::optional<Flip> flip = explanation.findFlip(node);
  if (!flip) {
    llvm::outs() << "    flip   no class gives it another format\n";
    return;
  }
  llvm::outs() << "    flip   "
               << (flip->line.empty() ? "take the pin from the module"
                                      : "- " + flip->line)
               << "\n           changes " << flip->flipped.size()
               << (flip->flipped.size() == 1 ? " op" : " ops");
  const char *separator = ": ";
  for (unsigned changed : ArrayRef(flip->flipped).take_front(kShown)) {
    PrecisionOpInterface op = explanation.getGraph().getNodes()[changed].op;
    llvm::outs() << separator
                 << ::binade::printable(describe(op.getOperation()));
    separator = "; ";
  }
  if (flip->flipped.size() > kShown)
    llvm::outs() << "; and " << flip->flipped.size() - kShown << " more";
  llvm::outs() << "\n";
}

static void printSummary(const Explanation &explanation,
                         ArrayRef<RuleCost> rules) {
  StepCost cost = explanation.getCost();
  llvm::outs() << "phase      format      ops      results  casts    cast "
                  "traffic\n";
  auto line = [](StringRef phase, StringRef format,
                 const StepCost::Count &count) {
    llvm::outs() << llvm::formatv(
        "{0,-10} {1,-8} {2,6} {3,12} {4,6} {5,15}\n", phase, format, count.ops,
        formatBytes(count.bytes), count.casts, formatBytes(count.castBytes));
  };
  for (const auto &[key, count] : cost.counts)
    line(stringifyPhase(key.first), key.second, count);
  line("all", "", cost.total);
  if (rules.empty())
    return;
  llvm::outs() << "\nWhat each rule does, against the policy without it:\n"
                  "  changes  narrow  casts    cast traffic         results\n";
  auto signedBytes = [](int64_t bytes) {
    return (bytes < 0 ? "-" : "+") + formatBytes(std::abs(bytes));
  };
  for (const RuleCost &rule : rules)
    llvm::outs() << llvm::formatv(
        "  {0,7} {1,7} {2,6} {3,15} {4,15}  {5}\n", rule.changed,
        llvm::formatv("{0}{1}", rule.narrowOps < 0 ? "" : "+", rule.narrowOps),
        llvm::formatv("{0}{1}", rule.casts < 0 ? "" : "+", rule.casts),
        signedBytes(rule.castBytes), signedBytes(rule.bytes),
        ::binade::printable(rule.rule->origin));
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

namespace {
struct ExplainCommand {
  ImportArguments import;
  StepArguments step;
  OutputArguments output;
  std::string glob;
  ReportFormat format = ReportFormat::Text;
  bool summary = false;
  std::vector<StorageNode> updates; ///< Updates to explain.

  int run() {
    Model model(import.model, output);
    if (int code = model.readStep(import, step))
      return code;
    FailureOr<Policy> policy = model.loadPolicy(step);
    if (failed(policy))
      return ExitCode::Rejected;
    NameGlob selected;
    if (Result<void> legal = parseGlob(selected); !legal)
      return model.getDiagnostics().fail(legal.error());
    func::FuncOp function = model.getStep();
    FailureOr<Explanation> explanation = Explanation::create(function, *policy);
    if (failed(explanation) || failed(checkRules(explanation->getGraph())))
      return ExitCode::Rejected;
    std::vector<unsigned> nodes = select(*explanation, selected);
    updates = selectUpdates(*explanation, selected);
    if (nodes.empty() && updates.empty() && !glob.empty())
      return model.getDiagnostics().fail(
          ::binade::Error{import.model,
                          "no op or node is called " + ::binade::quote(glob) +
                              suggestNames(glob, getNames(*explanation)),
                          ExitCode::Rejected});
    if (int code = findFallbacks(model, *explanation))
      return code;
    FailureOr<std::vector<RuleCost>> rules = std::vector<RuleCost>();
    if (summary || format == ReportFormat::Json)
      rules = getRuleCosts(function, *explanation);
    if (failed(rules))
      return ExitCode::Rejected;
    if (format == ReportFormat::Json)
      llvm::outs() << llvm::formatv(
          "{0:2}\n",
          toJson(import.model, *explanation, nodes, *rules, function));
    else if (summary) {
      printSummary(*explanation, *rules);
      printFallbacks(*explanation, getTargetName());
      if (explanation->getGraph().quantizesOperands()) {
        llvm::outs() << "\n";
        printMacs(*explanation);
      }
    } else
      print(*explanation, nodes, function);
    return explainExchange(model);
  }

  /// Prints the exchange of gradients, of which only the plan knows.
  int explainExchange(Model &model) {
    if (step.options.exchange.empty() || !glob.empty() ||
        format == ReportFormat::Json)
      return ExitCode::Ok;
    auto bundle = model.compile(step.options);
    if (failed(bundle))
      return ExitCode::Rejected;
    llvm::outs().flush();
    std::cout << '\n';
    printExchange(std::cout, bundle->plan);
    return ExitCode::Ok;
  }

  /// Returns the names that --op can match: those of nodes, then of ops.
  static std::vector<std::string> getNames(const Explanation &explanation) {
    llvm::SetVector<StringRef> names;
    const PrecisionGraph &graph = explanation.getGraph();
    for (const PrecisionNode &node : graph.getNodes())
      if (StringRef name = getNodeName(node.op); !name.empty())
        names.insert(name);
    for (const PrecisionNode &node : graph.getNodes())
      names.insert(node.op->getName().stripDialect());
    return {names.begin(), names.end()};
  }

  /// Finds the fallbacks of the ops, if there may be any: for a GPU, or with
  /// matmuls of quantized operands.
  int findFallbacks(Model &model, Explanation &explanation) {
    const auto &nodes = explanation.getGraph().getNodes();
    bool hasCodes = false;
    for (unsigned node = 0; node < nodes.size(); ++node)
      hasCodes |=
          !describeQuantizedOperands(explanation.getDecision(node)).empty();
    if (!hasCodes && step.options.target.empty())
      return ExitCode::Ok;
    std::string error;
    auto found =
        mlir::binade::findFallbacks(model.getModule(), step.options, error);
    if (succeeded(found))
      explanation.setFallbacks(std::move(*found));
    else if (!step.options.target.empty())
      return model.getDiagnostics().fail(::binade::Error{
          import.model, "has no plan for " + getTargetName() + ": " + error,
          ExitCode::Rejected});
    return ExitCode::Ok;
  }

  std::string getTargetName() const {
    return step.options.target.empty() ? "a CPU" : step.options.target;
  }

  Result<void> parseGlob(NameGlob &selected) const {
    if (glob.empty())
      return {};
    auto pattern = llvm::GlobPattern::create(glob);
    if (!pattern)
      return usageError("--op " + ::binade::quote(glob) + " is not a glob: " +
                        llvm::toString(pattern.takeError()));
    selected = {glob, std::move(*pattern)};
    return {};
  }

  static bool matches(const NameGlob &selected, Operation *op) {
    return selected.matches(getNodeName(op)) ||
           isInModule(getNodeName(op), selected.text) ||
           selected.matches(op->getName().stripDialect());
  }

  static std::vector<unsigned> select(const Explanation &explanation,
                                      const NameGlob &selected) {
    std::vector<unsigned> nodes;
    for (auto [index, node] :
         llvm::enumerate(explanation.getGraph().getNodes()))
      if (matches(selected, node.op))
        nodes.push_back(index);
    return nodes;
  }

  static std::vector<StorageNode> selectUpdates(const Explanation &explanation,
                                                const NameGlob &selected) {
    std::vector<StorageNode> updates;
    for (const StorageNode &node : explanation.getGraph().getStorages())
      if (matches(selected, node.op))
        updates.push_back(node);
    return updates;
  }

  /// Prints all ops, one per line, or the selected ones in detail.
  void print(Explanation &explanation, ArrayRef<unsigned> nodes,
             func::FuncOp function) {
    for (unsigned node : nodes) {
      printLine(explanation, node);
      if (!glob.empty() || !step.options.target.empty())
        printFallback(explanation, explanation.getGraph().getNodes()[node].op,
                      getTargetName());
      if (glob.empty())
        continue;
      printCasts(explanation, explanation.getGraph().getNodes()[node].op);
      printEvidence(explanation.getGraph(),
                    explanation.getGraph().getNodes()[node].op);
      printFlip(explanation, node);
    }
    if (!glob.empty()) {
      for (const StorageNode &node : updates)
        llvm::outs() << llvm::formatv(
            "{0,-24} {1}  <- {2}\n", describe(node.decision),
            ::binade::printable(describe(node.op)),
            ::binade::printable(describeCause(node.decision)));
      return;
    }
    printFallbacks(explanation, getTargetName());
    OpRoles roles(function);
    printProducts(explanation, roles);
    llvm::outs() << "\ngradients\n";
    for (auto [gradient, parameter] : roles.getGradients())
      llvm::outs() << llvm::formatv(
          "{0,-24} of {1}  <- {2}\n",
          llvm::to_string(explanation.getFormat(gradient)),
          ::binade::printable(describe(parameter)),
          ::binade::printable(describe(gradient)));
    DenseMap<Value, KeptValue> kept = getKeptValues(explanation);
    for (Role role : {Role::Parameter, Role::State}) {
      llvm::outs() << "\n" << stringifyRole(role) << "s\n";
      for (Port port : getArguments(function, role)) {
        Value value = function.getArgument(port.index);
        std::string format = describeFormat(explanation, value, kept[value]);
        StorageAttr storage = kept[value].decision;
        if (storage && role == Role::Parameter &&
            storage.getMaster() != Master::None)
          format += ", master " + stringifyMaster(storage.getMaster()).str();
        std::string cause = storage ? "  <- " + describeCause(storage) : "";
        llvm::outs() << llvm::formatv("{0,-24} {1}{2}\n", format,
                                      ::binade::printable(port.name.str()),
                                      ::binade::printable(cause));
      }
    }
  }
};
} // namespace

void addExplain(CLI::App &app, Run &run) {
  CLI::App *command = ::binade::addCommand(
      app, "explain",
      "Show which rule chose each op's format and what would "
      "change it");
  command->footer(
      "Examples:\n"
      "  binade explain model.onnx --policy bf16-amp\n"
      "  binade explain model.onnx --policy bf16-amp --op 'blocks.0.*'\n"
      "  binade explain model.onnx --policy mine.yaml --summary\n"
      "  binade explain step.mlir --policy bf16-amp --format json");
  auto self = std::make_shared<ExplainCommand>();
  self->import.add(*command,
                   "ONNX file, or a module (.mlir) of a phase up to 'assign'");
  self->step.add(*command);
  self->output.add(*command);
  command
      ->add_option(
          "--op", self->glob,
          "Print only ops and ONNX nodes whose names match, and nodes of the "
          "module with this name, with their casts and the changes of the "
          "policy that would change their format")
      ->type_name("GLOB");
  command->add_flag(
      "--summary", self->summary,
      "Print totals instead of ops: numbers of ops and casts and their bytes "
      "for each format and phase, and what each rule costs");
  addReportFormat(*command, self->format);
  command->callback([&run, self] { run = [self] { return self->run(); }; });
}
