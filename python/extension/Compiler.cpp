//===- Compiler.cpp - From a model to a compiled step, for Python ---------===//

#include "Failure.h"
#include "Modules.h"
#include "Reports.h"
#include "binade/IR/Interface.h"
#include "binade/IR/ParseModule.h"
#include "binade/Import/ONNX/Import.h"
#include "binade/Monitor/Requests.h"
#include "binade/Optimizer/RuleLibrary.h"
#include "binade/Pipelines/AlarmRules.h"
#include "binade/Pipelines/Fallbacks.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Plan/Bundle.h"
#include "binade/Plan/PlanJson.h"
#include "binade/Precision/Describe.h"
#include "binade/Precision/MatchRules.h"
#include "binade/Precision/Policy.h"
#include "binade/Target/CUDA.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <numeric>

namespace nb = nanobind;
using namespace nb::literals;
using namespace mlir;
using namespace mlir::binade;
using namespace ::binade::python;
using ::binade::Bundle;

namespace {
/// A compiled step, with the module and policy that `explain` needs to find the
/// reasons for its formats on request.
struct Compiled {
  Bundle bundle;
  std::string name, directory;
  std::unique_ptr<MLIRContext> context;
  OwningOpRef<ModuleOp> module; ///< The module after phase `optimizer`.
  std::optional<Policy> policy;
  CompileOptions options;
};
} // namespace

static Policy readPolicy(const CompileOptions &options, MLIRContext *context,
                         Reports &reports) {
  Policy policy = reports.take(loadPolicy(options.policy, context));
  warnAboutIgnoredSchedule(policy);
  reports.check(addEvidence(policy, options.ranges, context));
  reports.check(addStateFormats(policy, options.states, context));
  return policy;
}

/// Returns the output of `binade explain --format json`.
static std::string explain(Compiled &compiled) {
  nb::gil_scoped_release release;
  Reports reports(*compiled.context, compiled.name);
  auto step = compiled.module->lookupSymbol<func::FuncOp>(kStepName);
  Explanation explanation =
      reports.take(Explanation::create(step, *compiled.policy));
  std::string error;
  auto fallbacks = findFallbacks(*compiled.module, compiled.options, error);
  if (succeeded(fallbacks))
    explanation.setFallbacks(std::move(*fallbacks));
  std::vector<RuleCost> rules = reports.take(getRuleCosts(step, explanation));
  std::vector<unsigned> nodes(explanation.getGraph().getNodes().size());
  std::iota(nodes.begin(), nodes.end(), 0);
  return llvm::formatv("{0}",
                       toJson(compiled.name, explanation, nodes, rules, step));
}

using MakeModule =
    llvm::function_ref<FailureOr<OwningOpRef<ModuleOp>>(MLIRContext &)>;

/// Compiles the module that `make` returns, whose last phase is `from`.
/// Messages name it `path`; external data are in the directory of `path`.
static Compiled compile(const std::string &path, MakeModule make,
                        CompilerPhase from, const CompileOptions &options) {
  Compiled compiled;
  std::vector<std::string> warnings;
  compiled.name = llvm::sys::path::stem(path).str();
  compiled.options = options;
  compiled.directory = llvm::sys::path::parent_path(path).str();
  if (compiled.directory.empty())
    compiled.directory = ".";
  {
    nb::gil_scoped_release release;
    compiled.context = std::make_unique<MLIRContext>(makeRegistry());
    MLIRContext &context = *compiled.context;
    context.loadAllAvailableDialects();
    Reports reports(context, ::binade::printable(path));
    ::binade::python::check(checkAlarmRequests(options.alarms, &context));
    for (const std::string &request : options.watch)
      (void)::binade::python::take(
          parseStatisticsRequest(request, context, "stats"));
    OwningOpRef<ModuleOp> module = reports.take(make(context));
    reports.check(runPhases(*module, from, CompilerPhase::Optimizer, options));
    compiled.policy = readPolicy(options, &context, reports);
    compiled.module = module->clone();
    compiled.bundle = reports.take(compileStep(
        *module, std::max(from, CompilerPhase::Optimizer), options));
    if (compiled.bundle.plan.model.empty())
      compiled.bundle.plan.model = compiled.name;
    warnings = std::move(reports.warnings);
    context.disableMultithreading(); // Ends its threads.
  }
  warn(warnings);
  return compiled;
}

/// Compiles an ONNX model. `file` has the bytes of the file at `path`; if
/// `isInMemory`, there is no such file, and the bundle embeds the weights.
static Compiled compileModel(nb::bytes file, const std::string &path,
                             bool isInMemory, const ImportOptions &import,
                             const CompileOptions &options) {
  llvm::MemoryBufferRef buffer(StringRef(file.c_str(), file.size()), path);
  auto make = [&](MLIRContext &context) {
    return importModel(buffer, import, &context);
  };
  Compiled compiled = compile(path, make, CompilerPhase::Import, options);
  if (isInMemory)
    ::binade::embedWeights(compiled.bundle, llvm::sys::path::filename(path),
                           std::as_bytes(std::span(file.c_str(), file.size())));
  return compiled;
}

/// Compiles an optimizer update; `text` is an MLIR module with gradients.
static Compiled compileUpdate(const std::string &text,
                              const CompileOptions &options) {
  auto make = [&](MLIRContext &context) -> FailureOr<OwningOpRef<ModuleOp>> {
    return take(parseModuleText(text, "update", context));
  };
  return compile("update", make, CompilerPhase::Autodiff, options);
}

/// Compiles statistics of tensors of the caller; `text` is an MLIR module that
/// marks them (see `kWatchAttr`).
static Compiled compileStatistics(const std::string &text,
                                  const CompileOptions &options) {
  auto make = [&](MLIRContext &context) -> FailureOr<OwningOpRef<ModuleOp>> {
    return take(parseModuleText(text, "statistics", context));
  };
  return compile("statistics", make, CompilerPhase::Programs, options);
}

/// Returns the text of a policy's file.
static std::string readPolicyText(const std::string &name) {
  MLIRContext context;
  context.getOrLoadDialect<BinadeDialect>();
  Reports reports(context, ::binade::printable(name));
  return reports.take(loadPolicy(name, &context)).source.getText().str();
}

static std::vector<std::string> listPolicies() {
  std::vector<StringRef> names = getPolicyNames();
  return {names.begin(), names.end()};
}

/// Returns the default settings of an optimizer.
static std::map<std::string, double>
getOptimizerDefaults(const std::string &optimizer) {
  MLIRContext context;
  Reports reports(context, ::binade::printable(optimizer));
  Settings settings = reports.take(getDefaults(optimizer, &context));
  std::map<std::string, double> values;
  for (const auto &setting : settings)
    values[setting.getKey().str()] = setting.getValue();
  return values;
}

static void addOptions(nb::module_ &module) {
  nb::class_<ImportOptions>(module, "ImportOptions")
      .def(nb::init<>())
      .def_rw("loss", &ImportOptions::loss)
      .def_rw("loss_output", &ImportOptions::lossOutput)
      .def_rw("fold", &ImportOptions::fold)
      .def_rw("freeze", &ImportOptions::freeze)
      .def_rw("train", &ImportOptions::train)
      .def_rw("allow_links", &ImportOptions::allowHardLinks)
      .def_rw("fail_on_nonfinite", &ImportOptions::failOnNonfinite)
      .def("set_dims", [](ImportOptions &options,
                          const std::map<std::string, std::int64_t> &dims) {
        for (const auto &[name, size] : dims)
          options.dims[name] = size;
      });
  nb::class_<CompileOptions>(module, "CompileOptions")
      .def(nb::init<>())
      .def_rw("policy", &CompileOptions::policy)
      .def_rw("ranges", &CompileOptions::ranges)
      .def_rw("states", &CompileOptions::states)
      .def_rw("activation_memory", &CompileOptions::budget)
      .def_rw("recompute_matmuls", &CompileOptions::recomputesMatmuls)
      .def_rw("optimizer", &CompileOptions::optimizer)
      .def_rw("settings", &CompileOptions::settings)
      .def_rw("groups", &CompileOptions::groups)
      .def_rw("decay", &CompileOptions::decay)
      .def_rw("clip", &CompileOptions::clip)
      .def_rw("accumulate", &CompileOptions::batches)
      .def_rw("accumulate_in_momentum", &CompileOptions::accumulateInMomentum)
      .def_rw("exchange", &CompileOptions::exchange)
      .def_rw("release_gradients", &CompileOptions::releaseGradients)
      .def_rw("stable_embedding", &CompileOptions::stableEmbedding)
      .def_rw("on_nonfinite", &CompileOptions::onNonfinite)
      .def_rw("keep_gradients", &CompileOptions::keepGradients)
      .def_rw("keep_outputs", &CompileOptions::keepOutputs)
      .def_rw("target", &CompileOptions::target)
      .def_rw("save_kernels", &CompileOptions::kernelDirectory)
      .def_rw("strict", &CompileOptions::isStrict)
      .def_rw("alarms", &CompileOptions::alarms)
      .def_rw("on_alarm", &CompileOptions::onAlarm)
      .def_rw("stats", &CompileOptions::watch)
      .def_rw("metric", &CompileOptions::metrics)
      .def_rw("threads", &CompileOptions::threads);
}

void ::binade::python::addCompiler(nb::module_ &module) {
  addOptions(module);
  module.def("compile_model", &compileModel, "file"_a, "path"_a,
             "is_in_memory"_a, "import_options"_a, "options"_a);
  module.def("compile_update", &compileUpdate, "text"_a, "options"_a);
  module.def("compile_statistics", &compileStatistics, "text"_a, "options"_a);
  module.def("read_policy", &readPolicyText, "name"_a);
  module.def("policy_names", &listPolicies);
  module.def("optimizer_defaults", &getOptimizerDefaults, "optimizer"_a);
  module.def("cuda_targets", &getCudaTargets);
  nb::class_<Compiled>(module, "Compiled")
      .def("explain", &explain)
      .def("plan",
           [](const Compiled &self) {
             return ::binade::writePlan(self.bundle.plan);
           })
      .def("write",
           [](const Compiled &self, const std::string &path) {
             nb::gil_scoped_release release;
             Bundle whole = self.bundle;
             ::binade::python::check(
                 ::binade::embedWeights(whole, self.directory));
             ::binade::python::check(::binade::writeBundle(path, whole));
           })
      .def(
          "load",
          [](const Compiled &self, const std::string &device, unsigned threads,
             std::uint64_t seed, const std::map<std::string, double> &settings,
             const std::vector<std::string> &boundRoles) {
            return start({device, threads, seed, settings,
                          /*failOnNonfinite=*/false, boundRoles},
                         [&](const ::binade::LoadOptions &options) {
                           return ::binade::Program::load(
                               self.bundle, self.name, self.directory, options);
                         });
          },
          "device"_a, "threads"_a, "seed"_a, "settings"_a,
          "bound_roles"_a = std::vector<std::string>());
}
