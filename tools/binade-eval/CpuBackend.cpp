//===- CpuBackend.cpp - Run a function as compiled code -------------------===//

#include "CpuBackend.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/Interface.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Runtime/Program.h"
#include <cstring>

using namespace mlir;
using namespace mlir::binade;
using ::binade::Error;
using ::binade::Result;
namespace plan = ::binade::plan;

/// A copy of the module in which `name` is the step: its arguments are buffers,
/// which may have any shape, and its results outputs, whatever they are in
/// training.
static OwningOpRef<ModuleOp> makeStep(ModuleOp module, StringRef name) {
  OwningOpRef<ModuleOp> copy(module.clone());
  auto function = copy->lookupSymbol<func::FuncOp>(name);
  for (func::FuncOp program : getPrograms(*copy))
    if (program != function)
      program.erase();
  function.setName(kStepName);
  auto describe = [&](Role role, StringRef name) {
    Builder b(module.getContext());
    return b.getDictionaryAttr(
        {b.getNamedAttr(kNameAttr, b.getStringAttr(name)),
         b.getNamedAttr(kRoleAttr, RoleAttr::get(b.getContext(), role))});
  };
  SmallVector<std::string> arguments = getArgumentNames(function),
                           results = getResultNames(function);
  for (auto [index, argument] : llvm::enumerate(arguments))
    function.setArgAttrs(index, describe(Role::Buffer, argument));
  for (auto [index, result] : llvm::enumerate(results))
    function.setResultAttrs(index, describe(Role::Output, result));
  return copy;
}

static Result<::binade::Program> compile(ModuleOp module, StringRef where,
                                         StringRef directory) {
  DiagnosticCollector diagnostics(module.getContext());
  auto fail = [&] {
    return diagnostics.takeError(where.str(), "cannot be compiled");
  };
  CompileOptions options;
  auto step = module.lookupSymbol<func::FuncOp>(kStepName);
  bool hasKernels = !step.getOps<LaunchOp>().empty();
  if (!hasKernels && failed(runPhases(module, CompilerPhase::Materialize,
                                      CompilerPhase::Kernels, options)))
    return fail();
  FailureOr<::binade::Bundle> bundle = compileBundle(module, options);
  if (failed(bundle))
    return fail();
  ::binade::LoadOptions load;
  load.poison = true;
  return ::binade::Program::load(std::move(*bundle), where.str(),
                                 directory.str(), load);
}

Result<NamedTensors> evaluateOnCpu(ModuleOp module, StringRef function,
                                   const NamedTensors &inputs,
                                   StringRef directory) {
  std::string where = ("@" + function).str();
  DialectRegistry registry;
  registerAllDialects(registry);
  module.getContext()->appendDialectRegistry(registry);
  module.getContext()->loadAllAvailableDialects();
  OwningOpRef<ModuleOp> copy = makeStep(module, function);
  auto step = copy->lookupSymbol<func::FuncOp>(kStepName);
  SmallVector<std::string> results = getResultNames(step);
  SmallVector<Type> types(step.getResultTypes());

  Result<::binade::Program> program = compile(*copy, where, directory);
  if (!program)
    return program.takeError();
  if (Result<void> done = program->initialize(/*seed=*/0); !done)
    return done.takeError(); // Constants have their values.
  for (const auto &[name, tensor] : inputs) {
    std::vector<char> bytes = tensor->toBytes();
    std::span<std::byte> memory =
        program->find(plan::Role::Buffer, name)->bytes;
    std::memcpy(memory.data(), bytes.data(), memory.size());
  }
  program->run();
  if (std::optional<std::string_view> launch = program->findIndexFault())
    return Error{where,
                 "an index is out of range in " + ::binade::quote(*launch)};
  NamedTensors outputs;
  for (auto [name, type] : llvm::zip(results, types)) {
    std::span<std::byte> memory =
        program->find(plan::Role::Output, name)->bytes;
    FailureOr<Tensor> tensor = Tensor::fromBytes(
        cast<RankedTensorType>(type),
        {reinterpret_cast<const char *>(memory.data()), memory.size()});
    if (failed(tensor))
      return Error{where, "result " + ::binade::quote(name) +
                              " holds bytes that are no value of its type"};
    outputs[name] = std::make_shared<Tensor>(std::move(*tensor));
  }
  return outputs;
}
