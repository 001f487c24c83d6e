//===- Policy.cpp - binade policy -----------------------------------------===//

#include "Policy.h"
#include "Commands.h"
#include "Diagnostics.h"
#include "Model.h"
#include "Options.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/Container/Printable.h"
#include "binade/IR/Diagnostics.h"
#include "binade/Monitor/Requests.h"
#include "binade/Pipelines/AlarmRules.h"
#include "binade/Precision/Assigner.h"
#include "binade/Precision/Describe.h"
#include "binade/Precision/MatchRules.h"
#include "binade/Precision/StateFormats.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/ScopedPrinter.h"
#include <variant>

using namespace mlir;
using namespace mlir::binade;
using ::binade::ExitCode;
using ::binade::Result;

//===----------------------------------------------------------------------===//
// list
//===----------------------------------------------------------------------===//

/// Returns the first sentence of a policy's comment, which states its purpose.
static std::string getPurpose(StringRef text) {
  text = text.ltrim("# ");
  size_t end = text.find('.');
  while (end != StringRef::npos && !text.substr(end + 1, 1).trim().empty())
    end = text.find('.', end + 1);
  SmallVector<StringRef> lines;
  text.take_front(end).split(lines, '\n');
  for (StringRef &line : lines)
    line = line.ltrim("# ");
  return llvm::join(lines, " ");
}

void listPolicies() {
  MLIRContext context;
  for (StringRef name : getPolicyNames()) {
    FailureOr<Policy> policy = loadPolicy(name, &context);
    llvm::outs() << llvm::formatv("{0,-15} {1}\n", name,
                                  getPurpose(policy->source.getText()));
  }
}

//===----------------------------------------------------------------------===//
// show
//===----------------------------------------------------------------------===//

static std::string describe(const BlockEnds &range) {
  SmallVector<std::string> parts;
  if (range.first != CountOrShare())
    parts.push_back("first " + range.first.print());
  if (range.last != CountOrShare())
    parts.push_back("last " + range.last.print());
  return "blocks " + llvm::join(parts, " and ");
}

static void describe(const OperandFormats &formats, StringRef product,
                     SmallVectorImpl<std::string> &parts) {
  for (auto [key, format] : {std::pair("activation", formats.activation),
                             std::pair("weight", formats.weight),
                             std::pair("gradient", formats.gradient)})
    if (format)
      parts.push_back(
          ("quantize " + product + key + " " + describeFormat(format)).str());
  if (formats.transform)
    parts.push_back(
        ("transform " + product + describe(formats.transform.transform)).str());
}

static std::string describe(const PolicySelector &match) {
  SmallVector<std::string> parts;
  if (!match.ops.empty())
    parts.push_back("op " + llvm::join(match.ops, "|"));
  if (!match.name.text.empty())
    parts.push_back("name " + ::binade::quote(match.name.text));
  if (match.phase)
    parts.push_back("phase " + stringifyPhase(*match.phase).str());
  if (match.role)
    parts.push_back("role " + stringifyTensorRole(*match.role).str());
  if (match.layer)
    parts.push_back("layer " + stringifyLayerPosition(*match.layer).str());
  if (match.blocks)
    parts.push_back(describe(*match.blocks));
  return parts.empty() ? "every op" : llvm::join(parts, ", ");
}

static std::string describe(const PolicySettings &settings) {
  SmallVector<std::string> parts;
  if (settings.precisionClass)
    parts.push_back("class " +
                    stringifyPrecisionClass(*settings.precisionClass).str());
  for (auto [key, format] : {std::pair("compute", settings.compute),
                             std::pair("accumulate", settings.accumulate),
                             std::pair("result", settings.result),
                             std::pair("parameter", settings.parameter),
                             std::pair("accumulator", settings.accumulator)})
    if (format)
      parts.push_back((key + Twine(" ") + llvm::to_string(format)).str());
  if (settings.saved)
    parts.push_back("saved " + describeFormat(settings.saved));
  describe(settings.quantize.common, "", parts);
  for (auto [product, formats] :
       llvm::zip(kLayerProducts, settings.quantize.own))
    if (formats)
      describe(*formats, (product + " ").str(), parts);
  if (settings.accumulation)
    parts.push_back("accumulate " +
                    describe(settings.accumulation.accumulation));
  if (const UnitScaling &scaled = settings.unitScale)
    parts.push_back("unit_scale activation " +
                    llvm::to_string(scaled.activation) + ", weight " +
                    llvm::to_string(scaled.weight) + ", gradient " +
                    llvm::to_string(scaled.gradient));
  if (settings.state)
    parts.push_back("state " + describeState(settings.state));
  if (settings.master)
    parts.push_back("master " + stringifyMaster(*settings.master).str());
  if (settings.clamp)
    parts.push_back(("clamp " + stringifyClamp(*settings.clamp)).str());
  return llvm::join(parts, ", ");
}

static std::string describe(const LossScaling &scaling) {
  std::string layers = scaling.layers ? ", and one for each layer of at most " +
                                            formatNumber(scaling.layers->bound)
                                      : "";
  if (scaling.fixed)
    return formatNumber(*scaling.fixed) + ", which never changes" + layers;
  std::string text = "starts at " + formatNumber(scaling.init) + ", times " +
                     formatNumber(scaling.growth) + " after " +
                     std::to_string(scaling.interval) + " good steps, times " +
                     formatNumber(scaling.backoff) + " after " +
                     (scaling.hysteresis > 1
                          ? std::to_string(scaling.hysteresis) + " overflows"
                          : "an overflow");
  if (scaling.min)
    text += ", at least " + formatNumber(*scaling.min);
  if (scaling.max)
    text += ", at most " + formatNumber(*scaling.max);
  if (scaling.underflow)
    text += ", more where over " + formatNumber(100 * *scaling.underflow) +
            "% of the gradients vanish";
  return text + layers;
}

/// Describes the alarm rules and the reaction to alarms.
static std::string describe(const ::binade::AlarmSettings &alarms) {
  if (alarms.rules.empty())
    return "none";
  SmallVector<std::string> names;
  for (const ::binade::AlarmRule &rule : alarms.rules)
    names.push_back(::binade::printable(rule.name));
  return llvm::join(names, ", ") + " -> " +
         ::binade::printable(alarms.getAction());
}

/// Prints a policy, including the settings of its bases.
static void show(const Policy &policy, const ::binade::AlarmSettings &alarms) {
  llvm::outs() << policy.name;
  for (PolicyAttr base = policy.source.getExtends(); base;
       base = base.getExtends())
    llvm::outs() << " extends " << base.getName().getValue();
  llvm::outs() << "\n  narrow      " << policy.narrow << "\n  wide        "
               << policy.wide << "\n  propagate   "
               << stringifyPropagation(
                      policy.propagate.value_or(Propagation::Operands))
               << "\n  biases      "
               << (policy.narrowsBiases() ? "narrow" : "wide")
               << "\n  loss scale  ";
  llvm::outs() << (policy.lossScaling ? describe(*policy.lossScaling) : "none");
  if (policy.amaxHalfLife)
    llvm::outs() << "\n  amax        halves in " << *policy.amaxHalfLife
                 << " steps";
  if (policy.exchange)
    llvm::outs() << "\n  exchange    "
                 << stringifyExchangeFormat(*policy.exchange);
  for (StringRef request : policy.statistics)
    llvm::outs() << "\n  statistics  " << ::binade::printable(request.str());
  llvm::outs() << "\n  alarms      " << describe(alarms);
  if (policy.schedule)
    for (const PolicySwitch &later : *policy.schedule)
      llvm::outs() << "\n  schedule    " << later.policy << " "
                   << describeStart(later);
  llvm::outs() << "\n  hash        " << policy.source.getHash().getValue()
               << "\n";
  if (policy.rules.empty())
    return;
  llvm::outs() << "  rules, of which the last that matches an op wins:\n";
  for (const PolicyRule &rule : policy.rules)
    llvm::outs() << "    " << ::binade::printable(rule.origin) << ": "
                 << describe(rule.match) << " -> " << describe(rule.settings)
                 << "\n";
}

//===----------------------------------------------------------------------===//
// check
//===----------------------------------------------------------------------===//

static void report(const RuleMatches &matches) {
  llvm::outs() << llvm::formatv("  {0,6} {1,8}  {2}", matches.decided,
                                matches.matched,
                                ::binade::printable(matches.origin));
  if (matches.rule)
    llvm::outs() << ": " << describe(matches.rule->match) << " -> "
                 << describe(matches.rule->settings);
  llvm::outs() << "\n";
  for (const std::string &example : matches.examples)
    llvm::outs() << "                   " << ::binade::printable(example)
                 << "\n";
}

namespace {
/// A policy with its alarms.
struct LoadedPolicy {
  Policy policy;
  ::binade::AlarmSettings alarms;
};
} // namespace

/// Loads a policy. If that fails, reports the error and returns the exit code.
static std::variant<LoadedPolicy, int>
load(const std::string &name, Diagnostics &diagnostics, MLIRContext &context) {
  if (Result<void> known = checkPolicyName(name); !known)
    return diagnostics.fail(known.error());
  FailureOr<Policy> policy = loadPolicy(name, &context);
  if (failed(policy))
    return ExitCode::Rejected;
  FailureOr<::binade::AlarmSettings> alarms =
      chooseAlarms(policy->alarms, &context);
  if (failed(alarms))
    return ExitCode::Rejected;
  return LoadedPolicy{*std::move(policy), *std::move(alarms)};
}

/// Checks what needs no model: keys, formats, statistics, and rules that
/// contradict each other.
static int checkWithoutModel(const std::string &name,
                             ::binade::DiagnosticFormat format) {
  MLIRContext context;
  Diagnostics diagnostics(context, "binade", format);
  auto loaded = load(name, diagnostics, context);
  if (int *code = std::get_if<int>(&loaded))
    return *code;
  const Policy &policy = std::get<LoadedPolicy>(loaded).policy;
  for (const std::string &text : policy.statistics)
    if (auto request = parseStatisticsRequest(
            text, context, "statistics of policy " + policy.name);
        !request) {
      ::binade::Error error = request.takeError();
      error.exitCode = ExitCode::Rejected;
      return diagnostics.fail(error);
    }
  llvm::outs()
      << policy.name << ": no errors; rules: " << policy.rules.size()
      << "\nwith --model MODEL, counts the ops that each rule matches, "
         "and fails if a rule matches none\n";
  return ExitCode::Ok;
}

namespace {
struct CheckCommand {
  std::string policy;
  ImportArguments import;
  OutputArguments output;

  int run() {
    if (import.model.empty())
      return checkWithoutModel(policy, output.format);
    Model model(import.model, output);
    if (Result<void> known = checkPolicyName(policy); !known)
      return model.getDiagnostics().fail(known.error());
    if (int code = model.readStep(import, CompileOptions()))
      return code;
    FailureOr<Policy> loaded =
        loadPolicy(policy, model.getModule().getContext());
    if (failed(loaded) ||
        failed(chooseAlarms(loaded->alarms, model.getModule().getContext())))
      return ExitCode::Rejected;
    PrecisionGraph graph(model.getStep(), *loaded);
    llvm::outs() << loaded->name << " on " << ::binade::printable(import.model)
                 << "\n decides  matches\n";
    for (const RuleMatches &matches : matchRules(graph))
      report(matches);
    // What training would refuse, which includes rules that match nothing.
    return failed(assignPrecision(model.getModule(), *loaded))
               ? ExitCode::Rejected
               : ExitCode::Ok;
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// The command line
//===----------------------------------------------------------------------===//

static void addShow(CLI::App &app, Run &run) {
  CLI::App *command =
      ::binade::addCommand(app, "show",
                           "Print the settings and rules of a policy and of "
                           "the policies that it extends");
  command->footer("Examples:\n"
                  "  binade policy show fp16-amp\n"
                  "  binade policy show mine.yaml");
  struct ShowCommand {
    std::string policy;
    ::binade::DiagnosticFormat format = ::binade::DiagnosticFormat::Text;
  };
  auto self = std::make_shared<ShowCommand>();
  command
      ->add_option(
          "policy", self->policy,
          "Policy: a name that 'binade list policies' prints, or a .yaml file")
      ->required()
      ->type_name("POLICY");
  ::binade::addDiagnosticFormat(*command, self->format);
  command->callback([&run, self] {
    run = [self]() -> int {
      MLIRContext context;
      Diagnostics diagnostics(context, "binade", self->format);
      auto loaded = load(self->policy, diagnostics, context);
      if (int *code = std::get_if<int>(&loaded))
        return *code;
      const auto &[policy, alarms] = std::get<LoadedPolicy>(loaded);
      show(policy, alarms);
      return ExitCode::Ok;
    };
  });
}

static void addCheck(CLI::App &app, Run &run) {
  CLI::App *command =
      ::binade::addCommand(app, "check",
                           "Check a policy; with --model, count the ops that "
                           "each rule matches and decides");
  command->footer("Examples:\n"
                  "  binade policy check mine.yaml\n"
                  "  binade policy check mine.yaml --model model.onnx\n"
                  "  binade policy check bf16-amp --model model.onnx --dim "
                  "batch=8 \\\n"
                  "      --loss 'cross_entropy(logits, labels)'");
  auto self = std::make_shared<CheckCommand>();
  command
      ->add_option(
          "policy", self->policy,
          "Policy: a name that 'binade list policies' prints, or a .yaml file")
      ->required()
      ->type_name("POLICY");
  size_t others = command->get_options().size();
  self->import.add(*command,
                   "ONNX file, or a module (.mlir) of a phase up to 'assign'",
                   "--model");
  CLI::Option *model = command->get_option("--model")->required(false);
  for (CLI::Option *option :
       ArrayRef(command->get_options()).drop_front(others))
    if (option != model)
      option->needs(model);
  self->output.add(*command);
  command->callback([&run, self] { run = [self] { return self->run(); }; });
}

void addPolicy(CLI::App &app, Run &run) {
  CLI::App *command = ::binade::addCommand(
      app, "policy", "List, print or check precision policies");
  command->footer("Examples:\n"
                  "  binade policy list\n"
                  "  binade policy show bf16-amp\n"
                  "  binade policy schema");
  command->require_subcommand(1);
  ::binade::addCommand(*command, "list", "List the policies that Binade ships")
      ->callback([&run] {
        run = []() -> int {
          listPolicies();
          return ExitCode::Ok;
        };
      });
  addShow(*command, run);
  addCheck(*command, run);
  ::binade::addCommand(*command, "schema",
                       "Print the JSON schema of policy files, with which "
                       "editors complete and check them")
      ->callback([&run] {
        run = []() -> int {
          llvm::outs() << getPolicySchema();
          return ExitCode::Ok;
        };
      });
}
