//===- Model.cpp - A model on its way through the phases ------------------===//

#include "Model.h"
#include "SavedLedger.h"
#include "binade/Container/Activity.h"
#include "binade/Container/ExternalFile.h"
#include "binade/Container/Magic.h"
#include "binade/IR/Exported.h"
#include "binade/IR/FrozenParameters.h"
#include "binade/IR/ParseModule.h"
#include "binade/Pipelines/FindPhase.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <chrono>

using namespace mlir;
using namespace mlir::binade;
using ::binade::ExitCode;

Model::Model(std::string path, const OutputArguments &output)
    : path(std::move(path)), timing(output.timing), context(makeRegistry()),
      diagnostics(context, ::binade::printable(this->path), output.format) {}

bool Model::isModule() const { return StringRef(path).ends_with(".mlir"); }

::binade::Result<void> Model::checkModule() {
  context.loadAllAvailableDialects();
  auto parsed = parseModuleFile(path, context);
  if (!parsed)
    return parsed.error();
  return {};
}

bool Model::isBundle() const {
  std::array<std::byte, ::binade::kMagicBytes> head = {};
  auto file = ::binade::openFile(path);
  if (!file)
    return false;
  auto part =
      std::span(head).first(std::min<uint64_t>(file->getSize(), head.size()));
  return ::binade::readRange(*file, 0, part) &&
         ::binade::recognizeMagic(part) == "a safetensors file";
}

std::string Model::getDirectory() const {
  StringRef directory = llvm::sys::path::parent_path(path);
  return directory.empty() ? "." : directory.str();
}

PhaseListener Model::getListener() const {
  if (!timing)
    return {};
  return [](CompilerPhase phase, double seconds) {
    llvm::errs() << llvm::formatv("{0,-12} {1:f3} s\n", getName(phase),
                                  seconds);
  };
}

/// Parses a module, which options of the import phase cannot change.
int Model::parseModule(const ImportArguments &arguments) {
  if (::binade::Result<void> legal = arguments.refuseAll("a module"); !legal)
    return diagnostics.fail(legal.error());
  auto parsed = parseModuleFile(path, context);
  if (!parsed)
    return diagnostics.fail(parsed.error());
  module = std::move(*parsed);
  return ExitCode::Ok;
}

int Model::read(const ImportArguments &arguments,
                std::optional<CompilerPhase> from) {
  context.loadAllAvailableDialects();
  ::binade::Activity activity("file", path);
  auto start = std::chrono::steady_clock::now();
  if (isModule()) {
    if (int code = parseModule(arguments))
      return code;
    if (!from)
      from = findPhase(*module);
    if (!from)
      return diagnostics.fail(
          usageError(::binade::printable(path) +
                     " is a module: name the phase that wrote it, such as "
                     "--from=assign (binade list phases)"));
    phase = *from;
  } else {
    auto imported = importModel(path, arguments.options, &context, &report);
    if (failed(imported))
      return report.exitCode;
    module = std::move(*imported);
  }
  std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - start;
  if (PhaseListener listener = getListener())
    listener(phase, elapsed.count());
  return ExitCode::Ok;
}

LogicalResult Model::advance(CompilerPhase to, const CompileOptions &options) {
  if (failed(runPhases(*module, phase, to, options, getListener())))
    return failure();
  phase = to;
  return success();
}

int Model::readUpToOptimizer(ImportArguments &arguments,
                             const StepArguments *step,
                             const CompileOptions &options) {
  if (::binade::Result<void> complete = arguments.complete(); !complete)
    return diagnostics.fail(complete.error());
  context.loadAllAvailableDialects();
  if (isModule()) {
    ::binade::Activity activity("file", path);
    if (int code = parseModule(arguments))
      return code;
    phase = findPhase(*module).value_or(CompilerPhase::Optimizer);
    if (::binade::Result<void> legal =
            step ? step->refuseDone(phase) : ::binade::Result<void>();
        !legal)
      return diagnostics.fail(legal.error());
  } else if (int code = read(arguments)) {
    return code;
  }
  if (failed(advance(CompilerPhase::Optimizer, options)))
    return ExitCode::Rejected;
  if (getStep())
    return ExitCode::Ok;
  module->emitError("expected a function '@forward', '@gradient' or '@step', "
                    "such as 'binade import' or 'binade compile --to' writes");
  return ExitCode::Rejected;
}

int Model::readStep(ImportArguments &arguments, const CompileOptions &options) {
  return readUpToOptimizer(arguments, nullptr, options);
}

int Model::readStep(ImportArguments &arguments, StepArguments &step) {
  ::binade::Result<void> legal = step.complete();
  return legal ? readUpToOptimizer(arguments, &step, step.options)
               : diagnostics.fail(legal.error());
}

func::FuncOp Model::getStep() {
  return module->lookupSymbol<func::FuncOp>(kStepName);
}

FailureOr<Policy> Model::loadPolicy(const StepArguments &step) {
  auto kept = (*module)->getAttrOfType<PolicyAttr>(kPolicyAttr);
  FailureOr<Policy> policy =
      kept && !step.namesPolicy()
          ? readPolicy(kept)
          : mlir::binade::loadPolicy(step.options.policy, &context);
  if (failed(policy) ||
      failed(addEvidence(*policy, step.options.ranges, &context)) ||
      failed(addStateFormats(*policy, step.options.states, &context)))
    return failure();
  return policy;
}

FailureOr<::binade::Bundle> Model::compile(const CompileOptions &options) {
  if (phase <= CompilerPhase::Materialize) {
    if (failed(advance(CompilerPhase::Materialize, options)))
      return failure();
    printSavedTotals(llvm::errs(), *module);
  }
  FailureOr<::binade::Bundle> bundle =
      compileStep(*module, phase, options, getListener());
  if (succeeded(bundle) && bundle->plan.model.empty())
    bundle->plan.model = llvm::sys::path::stem(path).str();
  return bundle;
}

/// Loads a compiled step, of which only hyper-parameters can be changed.
std::variant<::binade::Program, int>
Model::loadBundle(const ImportArguments &arguments, const StepArguments &step,
                  ::binade::LoadOptions options) {
  options.settings = step.settings.getSettings();
  if (::binade::Result<void> legal = arguments.refuseAll("a bundle"); !legal)
    return diagnostics.fail(legal.error());
  if (::binade::Result<void> legal = step.refuseCompiled(); !legal) {
    ::binade::Error error = legal.takeError();
    options.settings.clear();
    options.loadsPlanOnly = true;
    if (auto program = ::binade::Program::load(path, options))
      error = std::move(error).withNote(
          "--lr and --set change its hyper-parameters, which are " +
          describeSettings(program->getPlan()));
    return diagnostics.fail(error);
  }
  ::binade::Result<::binade::Program> program =
      ::binade::Program::load(path, options);
  if (!program)
    return diagnostics.fail(program.error());
  return std::move(*program);
}

std::variant<::binade::Program, int>
Model::load(ImportArguments &arguments, StepArguments &step,
            ::binade::LoadOptions options) {
  options.failOnNonfinite = arguments.options.failOnNonfinite;
  auto fail = [&](const ::binade::Error &error) {
    return diagnostics.fail(error);
  };
  for (const ::binade::Result<void> &complete :
       {arguments.complete(), step.complete()})
    if (!complete)
      return fail(complete.error());
  if (isBundle())
    return loadBundle(arguments, step, std::move(options));
  if (isModule()) {
    context.loadAllAvailableDialects();
    if (int code = parseModule(arguments))
      return code;
    std::optional<CompilerPhase> found = findPhase(*module);
    if (!found)
      return fail(usageError(
          ::binade::printable(path) +
          " is IR of a phase after 'optimizer', or of none (binade list "
          "phases); compile it first: binade compile " +
          ::binade::printable(path) + " --from=PHASE -o step.bnd"));
    phase = *found;
    if (::binade::Result<void> legal = step.refuseDone(phase); !legal)
      return fail(legal.error());
  } else if (int code = read(arguments)) {
    return code;
  }
  for (StringRef name : {StringRef(kForwardName), StringRef(kGradientName),
                         StringRef(kStepName)})
    if (auto function = module->lookupSymbol<func::FuncOp>(name)) {
      parameterNames.clear(); // All functions have the same parameters.
      for (StringRef parameter : mlir::binade::getParameterNames(function))
        parameterNames.push_back(parameter.str());
    }
  FailureOr<::binade::Bundle> bundle = compile(step.options);
  if (failed(bundle))
    return ExitCode::Rejected;
  ::binade::Result<::binade::Program> program = ::binade::Program::load(
      std::move(*bundle), ::binade::printable(path), getDirectory(), options);
  if (!program)
    return fail(program.error());
  return std::move(*program);
}
