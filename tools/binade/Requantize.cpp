//===- Requantize.cpp - states from one format into another ---------------===//

#include "Requantize.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/ParseModule.h"
#include "binade/Pipelines/Pipelines.h"
#include "mlir/AsmParser/AsmParser.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::Error;
using ::binade::Requantization;
using ::binade::Result;
namespace plan = ::binade::plan;

namespace {
/// Builds and runs a step that reads optimizer states in their old formats from
/// buffers and returns them in their new formats.
class Requantizer {
public:
  explicit Requantizer(std::span<Requantization> states)
      : states(states), context(makeRegistry()), diagnostics(&context),
        b(UnknownLoc::get(&context), &context) {
    context.loadAllAvailableDialects();
  }

  Result<void> run();

private:
  QuantizedAttr parse(const std::string &format);
  LogicalResult build();
  SmallVector<RankedTensorType> getParts(const Requantization &state,
                                         const std::string &format);
  FailureOr<::binade::Bundle> compile();
  void execute(::binade::Program &program);

  std::span<Requantization> states;
  MLIRContext context;
  DiagnosticCollector diagnostics;
  ImplicitLocOpBuilder b;
  OwningOpRef<ModuleOp> module;
};
} // namespace

static std::string nameOf(size_t state, size_t part) {
  return std::to_string(state) + "." + std::to_string(part);
}

/// Returns the format; null if the text does not describe one.
QuantizedAttr Requantizer::parse(const std::string &format) {
  if (findDeepNesting(format))
    return {};
  return dyn_cast_if_present<QuantizedAttr>(parseAttribute(format, &context));
}

/// Returns the types of the tensors that store a state in `format`; empty if
/// `format` is invalid.
SmallVector<RankedTensorType> Requantizer::getParts(const Requantization &state,
                                                    const std::string &format) {
  if (format.empty())
    return {RankedTensorType::get(state.shape, b.getF32Type())};
  QuantizedAttr attribute = parse(format);
  return attribute ? attribute.getParts(state.shape)
                   : SmallVector<RankedTensorType>();
}

static uint64_t countBytes(RankedTensorType type) {
  return type.getNumElements() * type.getElementTypeBitWidth() / 8;
}

LogicalResult Requantizer::build() {
  module = ModuleOp::create(b.getLoc());
  b.setInsertionPointToStart(module->getBody());
  auto step = func::FuncOp::create(b, kStepName, b.getFunctionType({}, {}));
  Block *body = step.addEntryBlock();
  b.setInsertionPointToStart(body);
  func::ReturnOp::create(b);
  b.setInsertionPoint(body->getTerminator());

  SmallVector<NewArgument> arguments;
  for (auto [index, state] : llvm::enumerate(states)) {
    SmallVector<RankedTensorType> types = getParts(state, state.from);
    bool fits = types.size() == state.parts.size();
    for (size_t part = 0; fits && part < types.size(); ++part) {
      fits = countBytes(types[part]) == state.parts[part].size();
      arguments.push_back({nameOf(index, part), types[part], b.getLoc(), {}});
    }
    if (!fits)
      return step.emitError("tensor '")
             << state.name << "' and its parts are not what their format says";
  }
  SmallVector<Value> values = addArguments(step, Role::Buffer, arguments);

  ArrayRef<Value> rest(values);
  SmallVector<NewResult> results;
  for (auto [index, state] : llvm::enumerate(states)) {
    ArrayRef<Value> parts = rest.take_front(state.parts.size());
    rest = rest.drop_front(parts.size());
    Value elements = parts.front();
    if (!state.from.empty())
      elements = DequantizeOp::create(
          b, RankedTensorType::get(state.shape, b.getF32Type()), parts,
          parse(state.from));
    SmallVector<Value> made = {elements};
    if (!state.to.empty()) {
      QuantizedAttr format = parse(state.to);
      if (!format)
        return step.emitError("the bundle has an invalid format of '")
               << state.name << "'";
      // Round to nearest: stochastic errors do not average out in one rounding.
      format = format.withRounding(/*stochastic=*/false);
      made =
          QuantizeOp::create(b, elements, format, /*saturate=*/true).getParts();
    }
    for (auto [part, value] : llvm::enumerate(made))
      results.push_back({Role::Output, nameOf(index, part), value});
  }
  addResults(step, results);
  return success();
}

FailureOr<::binade::Bundle> Requantizer::compile() {
  CompileOptions options;
  if (failed(build()) || failed(runPhases(*module, CompilerPhase::Materialize,
                                          CompilerPhase::Kernels, options)))
    return failure();
  return compileBundle(*module, options);
}

void Requantizer::execute(::binade::Program &program) {
  for (auto [index, state] : llvm::enumerate(states))
    for (auto [part, bytes] : llvm::enumerate(state.parts))
      llvm::copy(
          bytes,
          program.find(plan::Role::Buffer, nameOf(index, part))->bytes.begin());
  (void)program.run(); // On the CPU.
  for (auto [index, state] : llvm::enumerate(states)) {
    state.parts.clear();
    for (size_t part = 0;; ++part) {
      auto made = program.find(plan::Role::Output, nameOf(index, part));
      if (!made)
        break;
      state.parts.emplace_back(made->bytes.begin(), made->bytes.end());
    }
  }
}

Result<void> Requantizer::run() {
  FailureOr<::binade::Bundle> bundle = compile();
  if (failed(bundle))
    return diagnostics.takeError("the states", "cannot be converted");
  auto program = ::binade::Program::load(std::move(*bundle), "the states", ".");
  if (!program)
    return program.takeError();
  if (Result<void> done = program->initialize(/*seed=*/0); !done)
    return done.takeError(); // Constants have their values.
  execute(*program);
  return {};
}

Result<void> requantize(std::span<Requantization> states) {
  return Requantizer(states).run();
}
