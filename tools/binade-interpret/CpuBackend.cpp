//===- CpuBackend.cpp - Compile a function and run it on the CPU ----------===//

#include "CpuBackend.h"
#include "Step.h"
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

static Result<::binade::Program> compile(ModuleOp module, StringRef where,
                                         StringRef directory) {
  DiagnosticCollector diagnostics(module.getContext());
  auto fail = [&] {
    return diagnostics.takeError(where.str(), "cannot be compiled");
  };
  if (failed(formKernels(module)))
    return fail();
  FailureOr<::binade::Bundle> bundle = compileBundle(module, CompileOptions());
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
  if (Result<void> done = program->run(); !done)
    return done.takeError();
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
      return Error{
          where, "result " + ::binade::quote(name) +
                     " holds bytes that do not represent a value of its type"};
    outputs[name] = std::make_shared<Tensor>(std::move(*tensor));
  }
  return outputs;
}
