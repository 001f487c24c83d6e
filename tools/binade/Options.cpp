//===- Options.cpp - What several commands take ---------------------------===//

#include "Options.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/Container/EvaluationMetrics.h"
#include "binade/Container/Numbers.h"
#include "binade/Container/Suggest.h"
#include "binade/Monitor/Requests.h"
#include "binade/Optimizer/RuleLibrary.h"
#include "binade/Pipelines/Target.h"
#include "binade/Precision/Policy.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir::binade;
using ::binade::ExitCode;
using ::binade::integer;
using ::binade::number;
using ::binade::oneOf;
using ::binade::Result;

//===----------------------------------------------------------------------===//
// ImportArguments
//===----------------------------------------------------------------------===//

void addFailOnNonfinite(CLI::App &command, ImportOptions &options) {
  command.add_flag("--fail-on-nonfinite", options.failOnNonfinite,
                   "Fail if a weight is NaN or infinite; without this option, "
                   "training only prints a warning");
}

void ImportArguments::add(CLI::App &command, llvm::StringRef kinds,
                          const std::string &option) {
  this->command = &command;
  command.add_option(option, model, kinds.str())
      ->required()
      ->type_name("MODEL");
  command
      .add_option("--dim", dims,
                  "Size of a symbolic dimension, such as batch=8; the default "
                  "is the size that the file's metadata give, if any")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
  command
      .add_option(
          "--loss", options.loss,
          "Loss to append to the graph: cross_entropy(OUTPUT, LABELS) or "
          "mse(OUTPUT, TARGET); OUTPUT is an output of the graph, LABELS or "
          "TARGET an input, which is added if the graph lacks it")
      ->type_name("EXPR");
  command
      .add_option("--loss-output", options.lossOutput,
                  "Name of the output that is the loss, for a graph that "
                  "computes its loss; by default 'loss'")
      ->type_name("NAME");
  command
      .add_option("--freeze", options.freeze,
                  "Parameters not to train, by name, such as 'encoder.*': they "
                  "have no gradient and no optimizer state")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  command
      .add_option("--train", options.train,
                  "Initializers to train, by name, such as 'encoder.*'; only "
                  "these are trained. By default, the parameters that the "
                  "file's metadata or PyTorch's exporter list are trained "
                  "or, without a list, initializers with external data")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  command
      .add_option("--also-train", options.alsoTrain,
                  "Initializers to train in addition to the others, by name, "
                  "such as '*.bias'")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  command
      .add_option("--fold", options.fold,
                  "Initializers to compile into the step as constants, by "
                  "name; they are neither trained nor part of the state")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  command
      .add_option("--optimizer-model", options.optimizerModel,
                  "Optimizer to use, from the file that ONNX Runtime's "
                  "training tools write next to the training model")
      ->type_name("FILE.onnx");
  command.add_flag("--allow-links", options.allowHardLinks,
                   "Accept weight files that are hard links, which have more "
                   "than one name in the file system");
  addFailOnNonfinite(command, options);
}

std::string getCompiledAnswer(::binade::OnNonFinite answer,
                              bool releasesGradients) {
  switch (answer) {
  case ::binade::OnNonFinite::Continue:
    return "continue";
  case ::binade::OnNonFinite::Shrink:
    return "shrink";
  case ::binade::OnNonFinite::Stop:
    return releasesGradients ? "continue" : "skip";
  case ::binade::OnNonFinite::Skip:
    break;
  }
  return "skip";
}

Result<void> refuseModule(const std::string &model, llvm::StringRef command) {
  if (!llvm::StringRef(model).ends_with(".mlir"))
    return {};
  return usageError("binade " + command.str() +
                    " writes a changed copy of an ONNX file, and " +
                    ::binade::printable(model) +
                    " is a module: name the ONNX file that it was imported "
                    "from" +
                    (command == "export" ? " by --model" : ""));
}

Result<void> parseDims(const std::vector<std::string> &dims,
                       ImportOptions &options) {
  for (llvm::StringRef text : dims) {
    auto [name, number] = text.split('=');
    int64_t value;
    if (name.empty() || number.getAsInteger(10, value) || value < 0)
      return usageError("--dim expects NAME=N, got " +
                        ::binade::quote(text.str()));
    options.dims[name] = value;
  }
  return {};
}

Result<void> ImportArguments::complete() { return parseDims(dims, options); }

/// Rejects options of `phase`, which has already run in a file of kind `what`.
static Result<void> refuse(const CLI::App &command, llvm::StringRef phase,
                           llvm::StringRef what,
                           std::initializer_list<const char *> names) {
  for (const char *name : names)
    if (command.count(name) > 0)
      return usageError(std::string(name) + " belongs to phase '" +
                        phase.str() + "', which is done in " + what.str());
  return {};
}

Result<void> ImportArguments::refuseAll(llvm::StringRef what) const {
  return refuse(*command, "import", what,
                {"--dim", "--loss", "--loss-output", "--freeze", "--fold",
                 "--train", "--also-train", "--optimizer-model",
                 "--allow-links"});
}

//===----------------------------------------------------------------------===//
// StepArguments
//===----------------------------------------------------------------------===//

void StepArguments::add(CLI::App &command) {
  this->command = &command;
  command
      .add_option("--policy", options.policy,
                  "Precision policy, which chooses the format of every value: "
                  "a name that 'binade list policies' prints, or a .yaml file")
      ->type_name("POLICY")
      ->capture_default_str();
  command
      .add_option(
          "--ranges", options.ranges,
          "Ranges of values that 'binade train --record' measured; values that "
          "would overflow or underflow in a narrow format keep a wide one")
      ->type_name("FILE.json");
  command
      .add_option("--states", options.states,
                  "Format of the optimizer states, which overrides the "
                  "policy's: a name that 'binade list formats' prints, such as "
                  "dyn8; GLOB selects parameters by name, as in 'fc*:bf16'; "
                  "':stochastic' requests stochastic rounding")
      ->type_name("[GLOB:]FORMAT[:stochastic]")
      ->allow_extra_args(false);
  command
      .add_option(
          "--stats", options.watch,
          "Statistics of values to compute while training, every N steps "
          "(default 1); 'binade list stats' explains kinds and statistics; for "
          "instance 'gradient:absmax,zeros', "
          "'weight/*attn*:norm,lost@every=100' or '*:underflow(f16)@every=10'")
      ->type_name("KIND[/GLOB]:STATISTIC,...[@every=N]")
      ->allow_extra_args(false);
  addMetric(command, options.metrics);
  command
      .add_option("--activation-memory", options.budget,
                  "Memory limit of the values saved for the backward pass, "
                  "such as 24MiB, or 60% of their size without a limit; values "
                  "are recomputed, then quantized, until the rest fits")
      ->type_name("BYTES|PERCENT");
  command.add_flag("--recompute-matmuls", options.recomputesMatmuls,
                   "To meet --activation-memory, also recompute values that "
                   "need a matmul or a convolution, before any value is "
                   "quantized: exact, but slower");
  command.add_flag("--stable-embedding", options.stableEmbedding,
                   "Insert a layer norm after each embedding lookup, before "
                   "position embeddings are added");
  command
      .add_option("--optimizer", options.optimizer,
                  "Optimizer: NAME or NAME:VARIANT that 'binade list "
                  "optimizers' prints, or a .mlir file that defines a rule")
      ->type_name("RULE")
      ->default_str("the model's own, or " + kDefaultRule.str());
  settings.add(command);
  command
      .add_option("--group", options.groups,
                  "Hyper-parameters of the parameters whose names match, such "
                  "as '*.bias:weight_decay=0'")
      ->type_name("GLOB:KEY=VALUE,...")
      ->allow_extra_args(false);
  command
      .add_option("--decay", options.decay,
                  "Which parameters have weight decay: all, or matrices (two "
                  "or more axes), which exempts biases and norms; a --group "
                  "that sets weight_decay overrides this")
      ->check(oneOf({"all", "matrices"}))
      ->capture_default_str();
  command
      .add_option("--clip", options.clip,
                  "Scale the gradients down if their global L2 norm is larger "
                  "than this; 0 for no clipping")
      ->check(number({0.0}))
      ->capture_default_str();
  command
      .add_option(
          "--accumulate", options.batches,
          "Batches per step, whose gradients are averaged for one update")
      ->type_name("K")
      ->check(integer<std::int64_t>(1))
      ->capture_default_str();
  command.add_flag(
      "--accumulate-in-momentum", options.accumulateInMomentum,
      "With --accumulate, add the gradient of each batch directly to the "
      "optimizer states, so that no sum of gradients takes memory");
  command.add_flag(
      "--release-gradients", options.releaseGradients,
      "Update each parameter as soon as its gradient is complete, so that "
      "gradients need not be in memory together. Not with --clip, a dynamic "
      "loss scale, or --on-nonfinite skip, which need all gradients");
  command
      .add_option(
          "--exchange", options.exchange,
          "Compile a step for the processes of a group, which exchange their "
          "gradients in this format: f32, bf16, e4m3, exact, or policy for "
          "that of the policy; exact has the same bits for any number of "
          "processes; on GPUs, only f32. Without it, the step cannot be "
          "distributed. --accumulate is the number of batches of all "
          "processes together, as in '--accumulate 8 --exchange exact'")
      ->check(oneOf({"f32", "bf16", "e4m3", "exact", "policy"}))
      ->type_name("FORMAT");
  command
      .add_option(
          "--target", options.target,
          "GPU to compile for: cuda:CHIP, such as cuda:sm_90 (see 'binade list "
          "targets'); by default the step is compiled for the CPU")
      ->type_name("TARGET");
  command.add_flag("--strict", options.isStrict,
                   "Fail if the target has no instructions for a format that "
                   "the policy chooses; without this option, such formats are "
                   "emulated, with a warning");
  command
      .add_option(
          "--threads", options.threads,
          "Threads of library calls such as matmuls; 0 for one per core")
      ->check(integer<unsigned>(0, ::binade::plan::kMaxThreads))
      ->capture_default_str();
}

static std::string checkMetric(const std::string &name) {
  if (::binade::isEvaluationMetric(name))
    return "";
  std::vector<std::string> known = {"accuracy", "top5", "perplexity"};
  return "expected accuracy, topK such as top5, or perplexity, got " +
         ::binade::quote(name) + ::binade::suggest(name, known);
}

void addMetric(CLI::App &command, std::vector<std::string> &metrics) {
  command
      .add_option("--metric", metrics,
                  "Metric to compute in evaluations in addition to the loss: "
                  "accuracy, topK (such as top5) or perplexity; the loss has "
                  "to be a cross-entropy")
      ->type_name("NAME")
      ->check(CLI::Validator(checkMetric, ""))
      ->allow_extra_args(false);
}

static ::binade::Error noName(const std::string &name, llvm::StringRef suffix,
                              llvm::StringRef what,
                              const std::vector<std::string> &known) {
  return usageError("no " + what.str() + " is called " + ::binade::quote(name) +
                    ::binade::suggest(name, known))
      .withNote("there are " + llvm::join(known, ", ") +
                ", or a file ending in " + suffix.str());
}

template <typename Names>
static Result<void> checkName(const std::string &name, llvm::StringRef suffix,
                              llvm::StringRef what, const Names &names) {
  if (llvm::StringRef(name).ends_with(suffix) ||
      llvm::is_contained(names, name))
    return {};
  return noName(name, suffix, what, {names.begin(), names.end()});
}

static Result<void> checkTarget(const std::string &name) {
  std::vector<std::string> known = getTargetNames();
  if (llvm::is_contained(known, name))
    return {};
  return usageError("no target is called " + ::binade::quote(name) +
                    ::binade::suggest(name, known))
      .withNote("there are " + llvm::join(known, ", ") +
                ", and CPUs without --target");
}

Result<void> checkPolicyName(const std::string &name) {
  return checkName(name, ".yaml", "policy", getPolicyNames());
}

Result<void> checkStateFormats(llvm::StringRef text) {
  mlir::MLIRContext context;
  context.getOrLoadDialect<BinadeDialect>();
  std::vector<FormatInfo> formats = listFormats(&context);
  for (llvm::StringRef one : getFormatNames(text)) {
    auto isIt = [&](const FormatInfo &format) { return format.name == one; };
    // Formats that only suit other tensors are rejected later with a reason.
    if (one.ends_with(".yaml") || llvm::any_of(formats, isIt))
      continue;
    std::vector<std::string> known;
    for (const FormatInfo &format : formats)
      if (format.isOfStates)
        known.push_back(format.name);
    ::binade::Error error =
        noName(one.str(), ".yaml", "format of states", known);
    if (splitStates(text).first.empty())
      return error;
    return std::move(error).withNote(
        "expected after ':' the format of the parameters that the name before "
        "it matches, or " +
        ::binade::quote(kStochastic.drop_front().str()) +
        ", for stochastic rounding to the format before it");
  }
  return {};
}

static Result<void> checkStatistics(const std::vector<std::string> &texts) {
  mlir::MLIRContext context;
  for (const std::string &text : texts)
    if (auto request = parseStatisticsRequest(text, context); !request)
      return request.takeError();
  return {};
}

Result<void> StepArguments::complete() {
  if (command->count("--target") > 0)
    if (Result<void> known = checkTarget(options.target); !known)
      return known;
  if (!options.budget.empty() && !::binade::parseBudget(options.budget, 1))
    return usageError(
        "--activation-memory expects a size such as 24MiB or a part such as "
        "60%, got " +
        ::binade::quote(options.budget));
  if (options.recomputesMatmuls && options.budget.empty())
    return usageError("--recompute-matmuls needs --activation-memory, the "
                      "limit that it helps to meet");
  for (const std::string &text : options.states)
    if (Result<void> known = checkStateFormats(text); !known)
      return known;
  if (Result<void> legal = checkStatistics(options.watch); !legal)
    return legal;
  if (Result<void> known = checkPolicyName(options.policy); !known)
    return known;
  if (!options.optimizer.empty())
    if (Result<void> known =
            checkName(splitVariant(options.optimizer).first.str(), ".mlir",
                      "optimizer", getRuleNames());
        !known)
      return known;
  if (Result<void> legal = settings.complete(kFormSetting); !legal)
    return legal;
  options.settings = settings.texts;
  // On the command line assignments of a group are separated by commas; pass
  // options need them for their lists.
  for (std::string &group : options.groups) {
    size_t colon = group.find(':');
    if (colon == 0 || colon == std::string::npos)
      return usageError("--group expects GLOB:KEY=VALUE,..., got " +
                        ::binade::quote(group));
    std::replace(group.begin() + colon, group.end(), ',', ';');
  }
  return {};
}

Result<void> StepArguments::refuseDone(CompilerPhase from) const {
  std::string what = "a module from '" + getName(from).str() + "'";
  if (from >= CompilerPhase::Autodiff)
    if (Result<void> ok =
            refuse(*command, "autodiff", what, {"--stable-embedding"});
        !ok)
      return ok;
  if (from >= CompilerPhase::Optimizer)
    if (Result<void> ok = refuse(
            *command, "optimizer", what,
            {"--optimizer", "--lr", "--set", "--group", "--decay", "--clip"});
        !ok)
      return ok;
  if (from >= CompilerPhase::Assign)
    if (Result<void> ok = refuse(*command, "assign", what,
                                 {"--policy", "--ranges", "--states"});
        !ok)
      return ok;
  if (from >= CompilerPhase::Materialize)
    if (Result<void> ok =
            refuse(*command, "materialize", what,
                   {"--activation-memory", "--recompute-matmuls"});
        !ok)
      return ok;
  if (from >= CompilerPhase::Monitor)
    if (Result<void> ok = refuse(*command, "monitor", what, {"--stats"}); !ok)
      return ok;
  if (from < CompilerPhase::Programs)
    return {};
  if (Result<void> ok = refuse(*command, "materialize", what, {"--strict"});
      !ok)
    return ok;
  if (from >= CompilerPhase::Kernels)
    if (Result<void> ok =
            refuse(*command, "kernels", what, {"--release-gradients"});
        !ok)
      return ok;
  return refuse(
      *command, "programs", what,
      {"--accumulate", "--accumulate-in-momentum", "--exchange", "--metric"});
}

Result<void> StepArguments::refuseCompiled() const {
  if (Result<void> ok =
          refuse(*command, "autodiff", "a bundle", {"--stable-embedding"});
      !ok)
    return ok;
  if (Result<void> ok = refuse(*command, "optimizer", "a bundle",
                               {"--optimizer", "--group", "--decay", "--clip"});
      !ok)
    return ok;
  for (llvm::StringRef text : settings.texts)
    if (text.split('=').first == kFormSetting)
      return usageError("--set " + text.str() +
                        " belongs to phase 'optimizer', which is done in a "
                        "bundle");
  if (Result<void> ok = refuse(*command, "materialize", "a bundle",
                               {"--activation-memory", "--recompute-matmuls"});
      !ok)
    return ok;
  if (Result<void> ok = refuse(*command, "programs", "a bundle",
                               {"--accumulate", "--accumulate-in-momentum",
                                "--exchange", "--metric"});
      !ok)
    return ok;
  if (Result<void> ok = refuse(*command, "monitor", "a bundle", {"--stats"});
      !ok)
    return ok;
  if (Result<void> ok =
          refuse(*command, "kernels", "a bundle", {"--release-gradients"});
      !ok)
    return ok;
  if (Result<void> ok =
          refuse(*command, "target", "a bundle", {"--target", "--strict"});
      !ok)
    return ok;
  return refuse(*command, "assign", "a bundle",
                {"--policy", "--ranges", "--states"});
}

bool StepArguments::namesPolicy() const {
  return command->count("--policy") > 0;
}

//===----------------------------------------------------------------------===//
// OutputArguments
//===----------------------------------------------------------------------===//

void OutputArguments::add(CLI::App &command) {
  ::binade::addDiagnosticFormat(command, format);
  command.add_flag("--timing", timing,
                   "Print how many seconds each phase of the compiler took");
}

void addReportFormat(CLI::App &app, ReportFormat &format) {
  auto set = [&format](const std::string &text) {
    format = text == "json" ? ReportFormat::Json : ReportFormat::Text;
  };
  app.add_option_function<std::string>("--format", set, "Format of the report")
      ->check(oneOf({"text", "json"}))
      ->default_str("text");
}
