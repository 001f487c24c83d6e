//===- Inspect.cpp - binade inspect ---------------------------------------===//

#include "Commands.h"
#include "Model.h"
#include "PredictedTimes.h"
#include "RankLedger.h"
#include "SavedLedger.h"
#include "Table.h"
#include "Write.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/Report.h"
#include "binade/Container/Numbers.h"
#include "binade/Plan/PlanJson.h"
#include "binade/Plan/ShardStates.h"
#include "binade/Precision/OperatorLedger.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <iostream>

using ::binade::ExitCode;
using ::binade::formatBytes;
using ::binade::Plan;
using ::binade::Program;
using ::binade::Result;
using mlir::binade::CompilerPhase;
using mlir::binade::OperatorRow;

namespace {
struct InspectCommand {
  ImportArguments import;
  StepArguments step;
  OutputArguments output;
  std::string ledger = "plan", costs;
  std::int64_t ranks = 1;
  bool json = false, policy = false;

  /// Compares the memory that operators keep with the memory of the plan.
  int compareLedgers(Model &model);
  /// Lists the values saved for the backward pass.
  int listSaved(Model &model);
  /// Lists the memory of a rank for each way to distribute the step.
  int listRanks(Model &model, const Plan &plan);

  int run() {
    Model model(import.model, output);
    if (ledger != "ranks" && (ranks > 1 || !costs.empty()))
      return model.getDiagnostics().fail(
          ::binade::usageError("--ranks and --costs need --ledger=ranks"));
    bool isOfPlan = ledger == "plan" || ledger == "ranks";
    if (!isOfPlan && model.isBundle())
      return model.getDiagnostics().fail(::binade::usageError(
          "--ledger=" + ledger +
          " counts values of a model, which a bundle has no more"));
    if (ledger == "paper")
      return compareLedgers(model);
    if (ledger == "saved")
      return listSaved(model);
    ::binade::LoadOptions options;
    options.loadsPlanOnly = true;
    auto loaded = model.load(import, step, options);
    if (auto *code = std::get_if<int>(&loaded))
      return *code;
    auto &program = std::get<Program>(loaded);
    if (ledger == "ranks")
      return listRanks(model, program.getPlan());
    if (policy) {
      printPolicy(std::cout, program.getPlan());
      return ExitCode::Ok;
    }
    if (json) {
      Result<void> written =
          writeText("-", ::binade::writePlan(program.getPlan()) + "\n");
      return written ? ExitCode::Ok
                     : model.getDiagnostics().fail(written.error());
    }
    printHeading(std::cout, program);
    printLedger(std::cout, program);
    printExchange(std::cout, program.getPlan());
    printRecords(std::cout, program.getPlan());
    return ExitCode::Ok;
  }
};
} // namespace

static llvm::json::Value writeJson(const std::vector<OperatorRow> &rows,
                                   const Plan &plan) {
  llvm::json::Array operators;
  for (const OperatorRow &row : rows)
    operators.push_back(llvm::json::Object{{"name", row.name},
                                           {"operators", row.operators},
                                           {"tensors", row.tensors},
                                           {"bytes", row.bytes},
                                           {"scale_bytes", row.scaleBytes}});
  llvm::json::Object ledger;
  for (const auto &[category, bytes] : plan.ledger)
    ledger[llvm::StringRef(name(category))] = bytes;
  return llvm::json::Object{{"paper", std::move(operators)},
                            {"plan", std::move(ledger)}};
}

static void print(const std::vector<OperatorRow> &rows, const Plan &plan) {
  OperatorRow total;
  size_t width = llvm::StringRef("operator").size();
  for (const OperatorRow &row : rows) {
    width = std::max(width, row.name.size());
    total.tensors += row.tensors;
    total.bytes += row.bytes;
    total.scaleBytes += row.scaleBytes;
  }
  auto line = [&](std::string name, const std::string &operators,
                  const std::string &tensors, const std::string &bytes,
                  const std::string &scales) {
    name.resize(width, ' ');
    std::cout << name
              << llvm::formatv("  {0,9}  {1,7}  {2,9}  {3,9}\n", operators,
                               tensors, bytes, scales)
                     .str();
  };
  auto list = [&](const OperatorRow &row, const std::string &operators) {
    line(row.name, operators, std::to_string(row.tensors),
         formatBytes(row.bytes), formatBytes(row.scaleBytes));
  };
  std::cout
      << "what operators save for the backward pass, each tensor once\n\n";
  line("operator", "operators", "tensors", "elements", "scales");
  for (const OperatorRow &row : rows)
    list(row, std::to_string(row.operators));
  total.name = "total";
  list(total, "");
  auto saved = plan.ledger.find(::binade::plan::Category::Saved);
  std::cout << "\nthe plan: saved "
            << formatBytes(saved == plan.ledger.end() ? 0 : saved->second)
            << " at its fullest moment\n";
}

int InspectCommand::compareLedgers(Model &model) {
  if (int code = model.readStep(import, step))
    return code;
  if (failed(model.advance(CompilerPhase::Assign, step.options)))
    return ExitCode::Rejected;
  std::vector<OperatorRow> rows =
      mlir::binade::countByOperators(model.getStep());
  auto bundle = model.compile(step.options);
  if (failed(bundle))
    return ExitCode::Rejected;
  if (!json) {
    print(rows, bundle->plan);
    return ExitCode::Ok;
  }
  Result<void> written = writeText(
      "-", llvm::formatv("{0:2}\n", writeJson(rows, bundle->plan)).str());
  return written ? ExitCode::Ok : model.getDiagnostics().fail(written.error());
}

int InspectCommand::listSaved(Model &model) {
  if (int code = model.readStep(import, step))
    return code;
  // Without a budget all values are saved, but those that a GPU recomputes.
  bool isForGpu = !step.options.target.empty();
  if (step.options.budget.empty() && !isForGpu)
    step.options.budget = "100%";
  CompilerPhase last = step.options.budget.empty() ? CompilerPhase::Kernels
                                                   : CompilerPhase::Materialize;
  if (failed(model.advance(last, step.options)))
    return ExitCode::Rejected;
  if (!json) {
    printSavedValues(llvm::outs(), model.getModule());
    llvm::outs() << "\n";
    printSavedTotals(llvm::outs(), model.getModule());
    return ExitCode::Ok;
  }
  Result<void> written =
      writeText("-", llvm::formatv("{0:2}\n", toJson(model.getModule())).str());
  return written ? ExitCode::Ok : model.getDiagnostics().fail(written.error());
}

/// Returns the ways to distribute a step over `ranks` ranks.
static std::vector<RankSettings> listSettings(std::int64_t ranks) {
  std::vector<RankSettings> settings;
  for (Sharding sharding : {Sharding::None, Sharding::Zero1})
    for (llvm::StringRef format : kExchangeFormats)
      settings.push_back({ranks, sharding, format.str()});
  return settings;
}

static void print(const std::vector<RankSettings> &ways, const Plan &plan) {
  std::vector<std::vector<std::string>> table = {
      {"shard", "exchange", "memory"}};
  for (auto [category, bytes] : plan.ledger)
    table[0].emplace_back(name(category));
  table[0].insert(table[0].end(), {"exchange", "gather"});
  for (const RankSettings &way : ways) {
    RankLedger rank = countRank(plan, way);
    auto &line = table.emplace_back();
    line = {getName(way.sharding).str(), way.exchange,
            formatBytes(rank.getBytes())};
    for (auto [category, bytes] : rank.ledger)
      line.push_back(formatBytes(bytes));
    line.push_back(formatBytes(rank.exchange));
    line.push_back(formatBytes(rank.gather));
  }
  std::cout << "memory of the fullest of " << ways.front().ranks
            << " ranks\n\n";
  std::cout.flush();
  printTable(llvm::outs(), table, 2);
}

/// Returns the parameters whose states zero1 shards.
static llvm::json::Array writeSharded(const Plan &plan) {
  std::vector<std::string> names(plan.buffers.size());
  for (const auto &port : plan.ports)
    if (port.role == ::binade::plan::Role::Parameter)
      names[port.buffer] = port.name;
  llvm::json::Array list;
  for (const auto &parameter : ::binade::listShardedParameters(plan))
    list.push_back(llvm::json::Object{{"name", names[parameter.buffer]},
                                      {"elements", parameter.elements},
                                      {"block", parameter.block},
                                      {"states", parameter.stateBytes}});
  return list;
}

static llvm::json::Value writeSeconds(const Plan &plan,
                                      const mlir::binade::TargetCosts &costs) {
  return llvm::json::Object{
      {"target", costs.target},
      {"step", llvm::json::Array(predictSeconds(plan.records, plan, costs))},
      {"accumulation",
       llvm::json::Array(predictSeconds(plan.accumulation, plan, costs))},
      {"sharded", predictShardedSeconds(plan, costs)}};
}

int InspectCommand::listRanks(Model &model, const Plan &plan) {
  std::vector<RankSettings> ways = listSettings(ranks);
  if (!json && costs.empty()) {
    print(ways, plan);
    return ExitCode::Ok;
  }
  llvm::json::Array ledgers;
  for (const RankSettings &way : ways) {
    RankLedger rank = countRank(plan, way);
    ledgers.push_back(llvm::json::Object{{"shard", getName(way.sharding)},
                                         {"exchange", way.exchange},
                                         {"bytes", rank.getBytes()},
                                         {"ledger", toJson(rank)}});
  }
  llvm::json::Object report{{"ranks", ranks},
                            {"ledgers", std::move(ledgers)},
                            {"sharded", writeSharded(plan)}};
  if (!costs.empty()) {
    auto target = mlir::binade::loadCosts(costs, &model.getContext());
    if (failed(target))
      return ExitCode::Rejected;
    report["seconds"] = writeSeconds(plan, *target);
  }
  Result<void> written = writeText(
      "-",
      llvm::formatv("{0:2}\n", llvm::json::Value(std::move(report))).str());
  return written ? ExitCode::Ok : model.getDiagnostics().fail(written.error());
}

void addInspect(CLI::App &app, Run &run) {
  CLI::App *command =
      ::binade::addCommand(app, "inspect",
                           "Print the memory, kernels and memory traffic of a "
                           "training step");
  command->footer(
      "Examples:\n"
      "  binade inspect step.bnd\n"
      "  binade inspect model.onnx --policy bf16-amp\n"
      "  binade inspect step.bnd --json\n"
      "  binade inspect step.bnd --policy-text\n"
      "  binade inspect model.onnx --policy coat --ledger=paper\n"
      "  binade inspect model.onnx --activation-memory 24MiB --ledger=saved\n"
      "  binade inspect step.bnd --ledger=ranks --ranks 64");
  auto self = std::make_shared<InspectCommand>();
  self->import.add(*command,
                   "ONNX file, a module (.mlir) of a phase up to 'optimizer', "
                   "or a bundle that 'binade compile' wrote");
  self->step.add(*command);
  self->output.add(*command);
  auto *json =
      command->add_flag("--json", self->json,
                        "Print JSON: the whole plan of the step, or the values "
                        "that --ledger=saved or --ledger=paper counts");
  command
      ->add_flag(
          "--policy-text", self->policy,
          "Print the text of the policy and of the policies that it extends")
      ->excludes(json);
  command
      ->add_option(
          "--ledger", self->ledger,
          "What to count: plan: the memory of the whole step; saved: the "
          "values saved for the backward pass, one by one; paper: what each "
          "operator would save for its own backward pass, as papers count; "
          "ranks: the memory of one of --ranks ranks that execute the step "
          "together")
      ->check(::binade::oneOf({"plan", "saved", "paper", "ranks"}))
      ->capture_default_str();
  command
      ->add_option("--ranks", self->ranks,
                   "With --ledger=ranks: the number of ranks")
      ->check(::binade::integer<std::int64_t>(1, kMaxRanks))
      ->capture_default_str();
  command
      ->add_option("--costs", self->costs,
                   "With --ledger=ranks: target for which the seconds of each "
                   "record are predicted, as JSON: a name that 'binade costs' "
                   "lists, or a .yaml file of 'binade costs --measure'")
      ->type_name("COSTS");
  command->callback([&run, self] { run = [self] { return self->run(); }; });
}
