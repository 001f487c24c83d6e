//===- Interpret.cpp - Evaluate a function, check its results -------------===//

#include "Interpret.h"
#include "CpuBackend.h"
#include "SimulatorBackend.h"
#include "binade/Container/Printable.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/ParseModule.h"
#include "binade/Reference/TensorFile.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::Error;
using ::binade::ExitCode;
using ::binade::Result;

namespace {
/// Evaluates one function as the command line requests.
class Interpretation {
public:
  explicit Interpretation(const InterpretOptions &options) : options(options) {}

  /// Returns exit code 0, or 1 if a result exceeds its bound, or an error.
  Result<int> run();

private:
  Result<NamedTensors> compute();
  Result<Outputs> evaluateReference();
  Result<int> check(const NamedTensors &values, const Outputs &reference);
  Error explain(const char *fallback) {
    return diagnostics->takeError(options.module, fallback);
  }

  const InterpretOptions &options;
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  NamedTensors inputs;
  EvaluationOptions evaluation;
  std::optional<DiagnosticCollector> diagnostics;
};
} // namespace

/// Returns the tensor types of `types` by the name at the same index.
static std::map<std::string, RankedTensorType>
getTypes(ArrayRef<std::string> names, TypeRange types) {
  std::map<std::string, RankedTensorType> result;
  for (auto [name, type] : llvm::zip(names, types))
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      result[name] = tensor;
  return result;
}

/// Returns the name of the only public function with a body, or "" if there is
/// not exactly one.
static std::string getOnlyFunction(ModuleOp module) {
  std::string name;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isPrivate() || function.isExternal())
      continue;
    if (!name.empty())
      return "";
    name = function.getName();
  }
  return name;
}

static void print(StringRef name, const Tensor &tensor) {
  constexpr int64_t kShown = 16;
  llvm::outs() << ::binade::printable(name) << ": " << tensor.getType() << " =";
  int64_t count = tensor.getNumElements();
  for (int64_t i = 0; i < std::min(count, kShown); ++i) {
    if (tensor.isFloat())
      llvm::outs() << llvm::format(" %.9g", tensor[i]);
    else
      llvm::outs() << " " << tensor.getIntegers()[i];
  }
  llvm::outs() << (count > kShown ? " ...\n" : "\n");
}

Result<Outputs> Interpretation::evaluateReference() {
  evaluation.bounds = options.check || !options.bounds.empty();
  FailureOr<Outputs> outputs =
      evaluate(*module, function.getName(), inputs, evaluation);
  if (failed(outputs))
    return explain("cannot be evaluated");
  return std::move(*outputs);
}

/// Returns the results of the selected backend, or those read from a file.
Result<NamedTensors> Interpretation::compute() {
  if (options.results.empty() && options.backend == "simulator")
    return evaluateOnSimulator(*module, function.getName(), inputs, evaluation);
  if (options.results.empty())
    return evaluateOnCpu(*module, function.getName(), inputs,
                         evaluation.directory);
  SmallVector<std::string> names = getResultNames(function);
  auto results = readTensors(options.results, &context,
                             getTypes(names, function.getResultTypes()));
  if (!results)
    return results.takeError();
  for (const std::string &name : names)
    if (!results->count(name))
      return Error{options.results, "has no tensor " + ::binade::quote(name) +
                                        ", which the function returns"};
  return results;
}

Result<int> Interpretation::check(const NamedTensors &values,
                                  const Outputs &reference) {
  bool isCorrect = true;
  for (const auto &[name, expected] : reference.values) {
    const Tensor &actual = *values.at(name);
    if (actual.getType() != expected->getType())
      return Error{options.module, "output " + ::binade::quote(name) +
                                       " has another type than the function "
                                       "says"};
    Deviation worst =
        compare(actual, *expected, reference.bounds.at(name).get());
    isCorrect &= worst.ratio <= 1.0;
    llvm::outs() << ::binade::printable(name)
                 << llvm::format(": %.3g of the bound", worst.ratio);
    if (worst.ratio > 0.0)
      llvm::outs() << llvm::format(
          " at element %lld: %.9g, reference %.9g, bound %.3g",
          static_cast<long long>(worst.index), actual.getNumber(worst.index),
          expected->getNumber(worst.index), worst.bound);
    llvm::outs() << "\n";
  }
  return static_cast<int>(isCorrect ? ExitCode::Ok : ExitCode::Difference);
}

Result<int> Interpretation::run() {
  auto parsed = parseModuleFile(options.module, context);
  if (!parsed) {
    if (StringRef(options.module).ends_with(".mlir"))
      return parsed.takeError();
    return parsed.takeError().withNote(
        "binade interpret runs a function of a module (.mlir); 'binade train "
        "--eval-data' evaluates a model on data");
  }
  module = std::move(*parsed);
  diagnostics.emplace(&context);
  evaluation.directory = llvm::sys::path::parent_path(options.module).str();

  std::string name =
      options.function.empty() ? getOnlyFunction(*module) : options.function;
  FailureOr<func::FuncOp> found = findFunction(*module, name);
  if (failed(found))
    return explain("has no such function");
  function = *found;
  if (!options.inputs.empty()) {
    auto given = readTensors(
        options.inputs, &context,
        getTypes(getArgumentNames(function), function.getArgumentTypes()));
    if (!given)
      return given.takeError();
    inputs = std::move(*given);
  }
  FailureOr<NamedTensors> complete =
      completeInputs(function, inputs, evaluation);
  if (failed(complete))
    return explain("has other arguments");
  inputs = std::move(*complete);

  bool isReference = options.backend == "reference" && options.results.empty();
  Outputs reference;
  if (isReference || options.check || !options.bounds.empty()) {
    Result<Outputs> outputs = evaluateReference();
    if (!outputs)
      return outputs.takeError();
    reference = std::move(*outputs);
  }
  NamedTensors values = reference.values;
  if (!isReference) {
    Result<NamedTensors> computed = compute();
    if (!computed)
      return computed.takeError();
    values = std::move(*computed);
  }
  if (!options.out.empty())
    if (auto written = writeTensors(options.out, values); !written)
      return written.takeError();
  if (!options.bounds.empty())
    if (auto written = writeTensors(options.bounds, reference.bounds); !written)
      return written.takeError();
  if (options.check)
    return check(values, reference);
  if (options.out.empty())
    for (const auto &[name, tensor] : values)
      print(name, *tensor);
  return static_cast<int>(ExitCode::Ok);
}

Result<int> interpret(const InterpretOptions &options) {
  return Interpretation(options).run();
}
