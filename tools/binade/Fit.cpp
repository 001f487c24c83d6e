//===- Fit.cpp - binade fit -----------------------------------------------===//

#include "Commands.h"
#include "Diagnostics.h"
#include "Options.h"
#include "Planner.h"
#include "RankLedger.h"
#include "Table.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/Container/Numbers.h"
#include "binade/Optimizer/RuleLibrary.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <atomic>
#include <future>
#include <unistd.h>

using namespace mlir;
using namespace mlir::binade;
using ::binade::ExitCode;
using ::binade::formatBytes;
using ::binade::Plan;
using ::binade::Result;
using ::binade::plan::Category;

namespace {
/// A size to maximize while all others are fixed.
struct Axis {
  std::string name;
  std::map<std::string, std::int64_t> Sizes::*kind;

  bool isDepth() const { return kind == &Sizes::depths; }
  std::string describe() const {
    return (isDepth() ? "depth of " : "") + ::binade::printable(name);
  }
};

/// Results for one policy and one format of optimizer states.
struct Row {
  Variant variant;
  RankLedger ledger;
  std::uint64_t bytes = 0;
  std::vector<Largest> largest; ///< One for each axis.
  /// Bytes with released gradients; none if the step needs all gradients, for
  /// the reason `need`.
  std::optional<std::uint64_t> released = {};
  std::string need = {};
};

struct FitCommand {
  ImportArguments import;
  CompileOptions options;
  ::binade::DiagnosticFormat form = ::binade::DiagnosticFormat::Text;
  std::string memory, format = "text";
  std::vector<std::string> policies = {"fp32", "bf16-amp", "bf16"};
  std::vector<std::string> states = {"f32", "bf16"};
  RankSettings ranks;
  std::string shard = "none";
  bool releasesGradients = false;

  int run();

private:
  Result<void> complete();
  Result<Row> measure(Planner &planner, Variant variant) const;
  void planReleased(Planner &planner, Row &row) const;
  std::vector<std::future<Result<Row>>> start();
  void print(const std::vector<Row> &rows) const;
  void printLargest(const std::vector<Row> &rows) const;
  void printAdvice(const std::vector<Row> &rows) const;
  void printReleased(const std::vector<Row> &rows) const;
  void printJson(const std::vector<Row> &rows) const;

  std::uint64_t budget = 0;
  Sizes sizes;
  std::vector<Axis> axes;
  std::vector<Variant> variants;
  std::atomic<std::size_t> next = 0;
  std::vector<std::promise<Result<Row>>> promises;
  std::vector<std::thread> workers;
};
} // namespace

Result<void> FitCommand::complete() {
  if (Result<void> done = import.complete(); !done)
    return done;
  if (llvm::StringRef(import.model).ends_with(".mlir"))
    if (Result<void> legal = import.refuseAll("a module"); !legal)
      return legal;
  std::optional<std::uint64_t> bytes = ::binade::parseBytes(memory);
  if (!bytes)
    return usageError("--memory expects a size such as 24GiB, got " +
                      ::binade::quote(memory));
  budget = *bytes;
  if (shard == "zero1")
    ranks.sharding = Sharding::Zero1;
  if (releasesGradients && ranks.ranks > 1)
    return usageError("--release-gradients is for one process: ranks exchange "
                      "all gradients before they update parameters");
  options.batches *= ranks.ranks; // Those of all ranks together.
  for (const std::string &format : states)
    if (Result<void> known = checkStateFormats(format); !known)
      return known;
  for (const std::string &policy : policies) {
    if (Result<void> known = checkPolicyName(policy); !known)
      return known;
    for (const std::string &format : states)
      variants.push_back({policy, format});
  }
  Result<Sizes> own = Planner(import.model, import.options, options).getSizes();
  if (!own)
    return own.takeError();
  sizes = *std::move(own);
  for (auto kind : {&Sizes::dims, &Sizes::depths})
    for (const auto &[name, size] : sizes.*kind)
      axes.push_back({name, kind});
  return {};
}

/// Plans a step that releases gradients. A step that needs all gradients cannot
/// be planned, with an error that says why.
void FitCommand::planReleased(Planner &planner, Row &row) const {
  if (ranks.ranks > 1)
    return;
  Variant variant = row.variant;
  variant.releasesGradients = true;
  Result<Plan> plan = planner.plan(variant, sizes);
  if (!plan) {
    row.need = plan.error().message;
    return;
  }
  RankLedger ledger = countRank(*plan, ranks);
  row.released = ledger.getBytes();
  if (!releasesGradients)
    return;
  row.variant = variant;
  row.ledger = ledger;
  row.bytes = *row.released;
}

Result<Row> FitCommand::measure(Planner &planner, Variant variant) const {
  Result<Plan> plan = planner.plan(variant, sizes);
  if (!plan)
    return plan.takeError();
  RankLedger ledger = countRank(*plan, ranks);
  Row row{variant, ledger, ledger.getBytes(), {}};
  planReleased(planner, row);
  variant = row.variant;
  for (const Axis &axis : axes) {
    auto take = [&](std::int64_t n) -> Result<std::uint64_t> {
      Sizes other = sizes;
      (other.*axis.kind)[axis.name] = n;
      Result<Plan> plan = planner.plan(variant, other);
      if (!plan)
        return plan.takeError();
      return countRank(*plan, ranks).getBytes();
    };
    constexpr std::int64_t kMaxBlocks = 1000, kMax = 1 << 24;
    Largest given = {(sizes.*axis.kind).at(axis.name), row.bytes, {}};
    row.largest.push_back(findLargest(take, budget, given,
                                      axis.isDepth() ? kMaxBlocks : kMax,
                                      /*isUneven=*/!axis.isDepth()));
  }
  return row;
}

/// Starts one planner per thread; returns the rows in the order of variants.
std::vector<std::future<Result<Row>>> FitCommand::start() {
  promises.resize(variants.size());
  std::vector<std::future<Result<Row>>> rows;
  for (auto &promise : promises)
    rows.push_back(promise.get_future());
  std::size_t count =
      std::min<std::size_t>(::binade::defaultThreadCount(), variants.size());
  for (std::size_t i = 0; i < count; ++i)
    workers.emplace_back([this] {
      Planner planner(import.model, import.options, options);
      for (std::size_t i = next++; i < variants.size(); i = next++)
        promises[i].set_value(measure(planner, variants[i]));
    });
  return rows;
}

int FitCommand::run() {
  MLIRContext context;
  Diagnostics diagnostics(context, "binade", form);
  if (Result<void> done = complete(); !done)
    return diagnostics.fail(done.error());
  std::vector<Row> rows;
  std::optional<::binade::Error> error;
  const bool isTerminal = isatty(STDERR_FILENO);
  for (std::future<Result<Row>> &row : start()) {
    if (isTerminal)
      llvm::errs() << "\rvariant " << rows.size() + 1 << " of "
                   << variants.size() << "\033[K";
    Result<Row> made = row.get();
    if (made)
      rows.push_back(*std::move(made));
    else if (!error)
      error = made.takeError();
  }
  for (std::thread &worker : workers)
    worker.join();
  if (isTerminal)
    llvm::errs() << "\r\033[K";
  if (error)
    return diagnostics.fail(*error);
  if (format == "json") {
    printJson(rows);
    return ExitCode::Ok;
  }
  print(rows);
  printLargest(rows);
  printAdvice(rows);
  printReleased(rows);
  return ExitCode::Ok;
}

//===----------------------------------------------------------------------===//
// What is printed
//===----------------------------------------------------------------------===//

static constexpr Category kShown[] = {Category::Parameter, Category::State,
                                      Category::Gradient, Category::Saved,
                                      Category::Workspace};

static std::uint64_t getBytes(const Row &row, Category category) {
  auto found = row.ledger.ledger.find(category);
  return found == row.ledger.ledger.end() ? 0 : found->second;
}

static std::uint64_t getOther(const Row &row) {
  std::uint64_t other = row.bytes - row.ledger.exchange - row.ledger.gather;
  for (Category category : kShown)
    other -= getBytes(row, category);
  return other;
}

static std::vector<std::string> beginLine(const Row &row) {
  return {::binade::printable(row.variant.policy), row.variant.states};
}

void FitCommand::print(const std::vector<Row> &rows) const {
  std::string given;
  for (const Axis &axis : axes)
    given += (given.empty() ? " with " : ", ") + axis.describe() + " = " +
             std::to_string((sizes.*axis.kind).at(axis.name));
  llvm::outs() << "memory of a step" << given;
  if (ranks.ranks > 1)
    llvm::outs() << ", in the fullest of " << ranks.ranks << " ranks";
  llvm::outs() << "\n";
  std::vector<std::vector<std::string>> table = {{"policy", "states", "total"}};
  for (Category category : kShown)
    table[0].emplace_back(name(category));
  table[0].push_back("other");
  if (ranks.ranks > 1)
    table[0].insert(table[0].end(), {"exchange", "gather"});
  for (const Row &row : rows) {
    auto &line = table.emplace_back(beginLine(row));
    line.push_back(formatBytes(row.bytes) + (row.bytes > budget ? " !" : ""));
    for (Category category : kShown)
      line.push_back(formatBytes(getBytes(row, category)));
    line.push_back(formatBytes(getOther(row)));
    if (ranks.ranks > 1) {
      line.push_back(formatBytes(row.ledger.exchange));
      line.push_back(formatBytes(row.ledger.gather));
    }
  }
  llvm::outs() << "\n";
  printTable(llvm::outs(), table, 2);
  if (llvm::any_of(rows, [&](const Row &row) { return row.bytes > budget; }))
    llvm::outs() << "\n! more than " << formatBytes(budget) << "\n";
}

void FitCommand::printLargest(const std::vector<Row> &rows) const {
  if (axes.empty()) {
    llvm::outs() << "\nall sizes of the model are fixed: 'binade from-torch "
                    "--dims' names axes, whose largest sizes are shown here\n";
    return;
  }
  llvm::outs() << "\nlargest that " << formatBytes(budget)
               << (axes.size() > 1 ? " hold, one size at a time\n" : " hold\n");
  std::vector<std::vector<std::string>> table = {{"policy", "states"}};
  std::map<std::string, std::string> limits;
  for (const Axis &axis : axes)
    table[0].push_back(axis.describe());
  for (const Row &row : rows) {
    auto &line = table.emplace_back(beginLine(row));
    for (const auto &[axis, largest] : llvm::zip(axes, row.largest)) {
      line.push_back(largest.size ? std::to_string(largest.size) : "none");
      if (!largest.limit.empty()) {
        line.back() += " *";
        limits.emplace(axis.describe(), largest.limit);
      }
    }
  }
  llvm::outs() << "\n";
  printTable(llvm::outs(), table, 2);
  for (const auto &[name, limit] : limits)
    llvm::outs() << "\n* no larger " << name << ": " << limit << "\n";
}

/// Prints how much memory narrow states save and whether that is worthwhile.
void FitCommand::printAdvice(const std::vector<Row> &rows) const {
  constexpr double kWorth = 0.05;
  for (const Row &row : rows)
    for (const Row &wide : rows) {
      if (wide.variant.policy != row.variant.policy ||
          wide.variant.states != "f32" || row.variant.states == "f32")
        continue;
      double saved =
          1 - static_cast<double>(row.bytes) / static_cast<double>(wide.bytes);
      llvm::outs() << llvm::formatv("\n{0}: states in {1} save {2:P1}{3}",
                                    ::binade::printable(row.variant.policy),
                                    row.variant.states, saved,
                                    saved < kWorth ? ": not worth it" : "");
    }
  llvm::outs() << "\n";
}

/// Prints how much memory released gradients save, or which steps need all
/// gradients.
void FitCommand::printReleased(const std::vector<Row> &rows) const {
  constexpr double kShown = 0.001; ///< Less is printed as 0.0 %.
  if (ranks.ranks > 1)
    return;
  std::string text;
  for (const Row &row : rows) {
    std::string name =
        ::binade::printable(row.variant.policy) + ", " + row.variant.states;
    if (!row.released && releasesGradients)
      text +=
          name + ": without --release-gradients, because " + row.need + "\n";
    if (!row.released || releasesGradients)
      continue;
    double saved =
        1 - static_cast<double>(*row.released) / static_cast<double>(row.bytes);
    bool fits = row.bytes > budget && *row.released <= budget;
    if (fits || saved >= kShown)
      text += llvm::formatv("{0}: --release-gradients saves {1:P1}: {2}{3}\n",
                            name, saved, formatBytes(*row.released),
                            fits ? ", which fits" : "")
                  .str();
  }
  if (!text.empty())
    llvm::outs() << "\n" << text;
}

static llvm::json::Object
toJson(const std::map<std::string, std::int64_t> &sizes) {
  llvm::json::Object object;
  for (const auto &[name, size] : sizes)
    object[name] = size;
  return object;
}

void FitCommand::printJson(const std::vector<Row> &rows) const {
  llvm::json::Array list;
  for (const Row &row : rows) {
    llvm::json::Object ledger = toJson(row.ledger), dims, depths;
    for (const auto &[axis, found] : llvm::zip(axes, row.largest))
      (axis.isDepth() ? depths : dims)[axis.name] = llvm::json::Object{
          {"size", found.size}, {"bytes", found.bytes}, {"limit", found.limit}};
    llvm::json::Value released = nullptr;
    if (row.released)
      released = *row.released;
    list.push_back(llvm::json::Object{
        {"release_gradients", row.variant.releasesGradients},
        {"released_bytes", std::move(released)},
        {"policy", row.variant.policy},
        {"states", row.variant.states},
        {"bytes", row.bytes},
        {"ledger", std::move(ledger)},
        {"largest", llvm::json::Object{{"dims", std::move(dims)},
                                       {"depths", std::move(depths)}}}});
  }
  llvm::outs() << llvm::formatv("{0:2}\n", llvm::json::Value(llvm::json::Object{
                                               {"memory", budget},
                                               {"ranks", ranks.ranks},
                                               {"shard", shard},
                                               {"dims", toJson(sizes.dims)},
                                               {"depths", toJson(sizes.depths)},
                                               {"variants", std::move(list)}}));
}

void addFit(CLI::App &app, Run &run) {
  CLI::App *command = ::binade::addCommand(
      app, "fit",
      "Find the largest batch, context and depth that fit into memory. Prints "
      "one answer for each policy and format of optimizer states");
  command->footer(
      "Examples:\n"
      "  binade fit model.onnx --memory 24GiB --dim batch=8\n"
      "  binade fit model.onnx --memory 8GiB --policy fp32 "
      "--policy mine.yaml \\\n"
      "      --states f32 --states bf16 --optimizer sgd --format json\n"
      "  binade fit model.onnx --memory 24GiB --ranks 64 --shard zero1");
  auto self = std::make_shared<FitCommand>();
  self->import.add(*command, "ONNX file, or a module (.mlir) that 'binade "
                             "import' wrote");
  command
      ->add_option("--memory", self->memory,
                   "Memory that a training step may take, such as 24GiB, "
                   "512MiB or 8e9 (bytes)")
      ->required()
      ->type_name("SIZE");
  command
      ->add_option(
          "--policy", self->policies,
          "Policy to try, repeatable: a name that 'binade list policies' "
          "prints, or a .yaml file; by default fp32, bf16-amp and bf16")
      ->type_name("POLICY")
      ->allow_extra_args(false);
  command
      ->add_option("--states", self->states,
                   "Format of the optimizer states to try, repeatable: a name "
                   "that 'binade list formats' prints; by default f32 and bf16")
      ->type_name("FORMAT")
      ->allow_extra_args(false);
  command
      ->add_option("--optimizer", self->options.optimizer,
                   "Optimizer: a name that 'binade list optimizers' prints, or "
                   "a .mlir file that defines a rule")
      ->type_name("RULE")
      ->default_str("the model's own, or " + kDefaultRule.str());
  command
      ->add_option(
          "--accumulate", self->options.batches,
          "Batches per step, whose gradients are averaged for one update; with "
          "--ranks, those of each rank")
      ->type_name("K")
      ->check(::binade::integer<std::int64_t>(1))
      ->capture_default_str();
  command->add_flag(
      "--release-gradients", self->releasesGradients,
      "Count steps that update each parameter as soon as its gradient is "
      "complete (see 'binade train --help'), where a policy does not need all "
      "gradients; without it, the report says how much this saves");
  command
      ->add_option("--ranks", self->ranks.ranks,
                   "Number of ranks that train with equal batches; counts the "
                   "memory of the fullest one")
      ->check(::binade::integer<std::int64_t>(1, kMaxRanks))
      ->capture_default_str();
  command
      ->add_option("--shard", self->shard,
                   "What is sharded: none, or zero1: the optimizer states")
      ->check(::binade::oneOf({"none", "zero1"}))
      ->capture_default_str();
  command
      ->add_option("--exchange", self->ranks.exchange,
                   "Format in which gradients are exchanged")
      ->check(::binade::oneOf({"f32", "bf16", "e4m3", "exact"}))
      ->capture_default_str();
  command
      ->add_option(
          "--threads", self->options.threads,
          "Threads of library calls such as matmuls; 0 for one per core")
      ->check(::binade::integer<unsigned>(0, ::binade::plan::kMaxThreads))
      ->capture_default_str();
  command->add_option("--format", self->format, "Format of the report")
      ->check(::binade::oneOf({"text", "json"}))
      ->capture_default_str();
  ::binade::addDiagnosticFormat(*command, self->form);
  command->callback([&run, self] { run = [self] { return self->run(); }; });
}
