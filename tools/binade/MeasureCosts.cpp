//===- MeasureCosts.cpp - Costs of formats on this machine ----------------===//

#include "MeasureCosts.h"
#include "Diagnostics.h"
#include "binade/IR/QuantizedOperands.h"
#include "binade/Precision/StateFormats.h"
#include "binade/Runtime/Library.h"
#include "binade/Runtime/Program.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/ScopedPrinter.h"
#include <chrono>
#include <cmath>

using namespace mlir;
using namespace mlir::binade;
using ::binade::Result;

//===----------------------------------------------------------------------===//
// Steps to measure
//===----------------------------------------------------------------------===//

/// Returns the texts of `item(i)` for all i below `count`, with commas.
static std::string list(size_t count,
                        llvm::function_ref<std::string(size_t)> item) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += (i ? ", " : "") + item(i);
  return text;
}

/// Returns names such as "%a2, %a3".
static std::string listNames(char letter, size_t first, size_t count) {
  return list(count, [&](size_t i) {
    return llvm::formatv("%{0}{1}", letter, first + i).str();
  });
}

static std::string listTypes(TypeRange types) {
  return list(types.size(),
              [&](size_t i) { return llvm::to_string(types[i]); });
}

/// Returns the text of a step. Its `body` reads the operands %a0, %a1 and so
/// on, and computes the results %y0, %y1 and so on.
static std::string makeStep(TypeRange operands, TypeRange results,
                            StringRef body) {
  auto getPort = [](Type type, char letter, size_t i, StringRef role) {
    return llvm::formatv("{0} {{binade.name = \"{1}{2}\", "
                         "binade.role = #binade.role<{3}>}",
                         type, letter, i, role)
        .str();
  };
  std::string arguments = list(operands.size(), [&](size_t i) {
    return llvm::formatv("%a{0}: ", i).str() +
           getPort(operands[i], 'a', i, "buffer");
  });
  std::string ports = list(results.size(), [&](size_t i) {
    return getPort(results[i], 'y', i, "output");
  });
  return llvm::formatv(
      "func.func @step({0}) -> ({1}) {{\n{2}  return {3} : {4}\n}\n", arguments,
      ports, body, listNames('y', 0, results.size()), listTypes(results));
}

/// Returns the text of a step of one op with operands and results of one
/// format.
static std::string makeStep(StringRef op, TypeRange operands, Type result) {
  return makeStep(operands, result,
                  llvm::formatv("  %y0 = binade.{0} : ({1}) -> {2}\n", op,
                                listTypes(operands), result)
                      .str());
}

namespace {
/// A matmul of a transformer layer, forward or backward.
struct LayerMatmul {
  StringLiteral attributes;
  std::array<int64_t, 2> lhs, rhs, result;

  /// Returns the op without its types.
  std::string getOp(StringRef left, StringRef right) const {
    return llvm::formatv("matmul {0}, {1} {2}", left, right, attributes);
  }
};
} // namespace

static constexpr int64_t kRows = 2048, kWide = 1536, kNarrow = 384;
static constexpr LayerMatmul kMatmuls[] = {
    {"{transpose_rhs}", {kRows, kNarrow}, {kWide, kNarrow}, {kRows, kWide}},
    {"", {kRows, kWide}, {kWide, kNarrow}, {kRows, kNarrow}},
    {"{transpose_lhs}", {kRows, kWide}, {kRows, kNarrow}, {kWide, kNarrow}}};
static constexpr double kMacs =
    std::size(kMatmuls) * double(kRows * kWide * kNarrow);
/// Elements that exceed all caches.
static constexpr int64_t kManyElements = 1 << 24;

/// The quantized formats that are measured: one of each kind of scales, and the
/// other element format.
static constexpr StringLiteral kQuantizedFormats[] = {
    "e4m3-tensor", "e5m2-tensor", "e4m3-1x128", "e4m3-128x128", "mxfp8"};

static std::string makeMatmul(const LayerMatmul &matmul, FloatType format) {
  return makeStep(matmul.getOp("%a0", "%a1"),
                  {RankedTensorType::get(matmul.lhs, format),
                   RankedTensorType::get(matmul.rhs, format)},
                  RankedTensorType::get(matmul.result, format));
}

static SmallVector<Type> getParts(QuantizedAttr format,
                                  ArrayRef<int64_t> shape) {
  return llvm::to_vector_of<Type>(format.getParts(shape));
}

/// Returns a line that dequantizes the parts of a tensor, the operands from
/// %a`first` on, to f32.
static std::string dequantize(StringRef result, QuantizedAttr format,
                              ArrayRef<int64_t> shape, unsigned first) {
  SmallVector<Type> parts = getParts(format, shape);
  return llvm::formatv(
      "  {0} = binade.dequantize {1} {{format = {2}} : ({3}) "
      "-> {4}\n",
      result, listNames('a', first, parts.size()), format, listTypes(parts),
      RankedTensorType::get(shape, Float32Type::get(format.getContext())));
}

/// Returns a step that multiplies quantized operands. Scales are along the axis
/// that is summed.
static std::string makeMatmul(const LayerMatmul &matmul, QuantizedAttr format) {
  MLIRContext *context = format.getContext();
  bool sumsRowsOfLhs = matmul.attributes.contains("lhs"),
       sumsRowsOfRhs = !matmul.attributes.contains("rhs");
  QuantizedAttr left =
      sumsRowsOfLhs ? format.getTransposed(matmul.lhs[0]) : format;
  QuantizedAttr right =
      sumsRowsOfRhs ? format.getTransposed(matmul.rhs[0]) : format;
  SmallVector<Type> operands = getParts(left, matmul.lhs);
  unsigned numLeft = operands.size();
  llvm::append_range(operands, getParts(right, matmul.rhs));
  auto wide = Float32Type::get(context);
  Type result =
      RankedTensorType::get(matmul.result, BFloat16Type::get(context));
  return makeStep(operands, result,
                  dequantize("%left", left, matmul.lhs, 0) +
                      dequantize("%right", right, matmul.rhs, numLeft) +
                      llvm::formatv("  %y0 = binade.{0} : ({1}, {2}) -> {3}\n",
                                    matmul.getOp("%left", "%right"),
                                    RankedTensorType::get(matmul.lhs, wide),
                                    RankedTensorType::get(matmul.rhs, wide),
                                    result)
                          .str());
}

static std::string makeQuantize(QuantizedAttr format) {
  std::array<int64_t, 2> shape = {kRows, kWide};
  SmallVector<Type> parts = getParts(format, shape);
  Type operand =
      RankedTensorType::get(shape, BFloat16Type::get(format.getContext()));
  return makeStep(operand, parts,
                  llvm::formatv("  {0} = binade.quantize %a0 {{format = {1}, "
                                "saturate} : ({2}) -> ({3})\n",
                                listNames('y', 0, parts.size()), format,
                                operand, listTypes(parts))
                      .str());
}

static std::string makeDequantize(QuantizedAttr format) {
  std::array<int64_t, 2> shape = {kRows, kWide};
  auto wide =
      RankedTensorType::get(shape, Float32Type::get(format.getContext()));
  Type result = wide.clone(BFloat16Type::get(format.getContext()));
  return makeStep(
      getParts(format, shape), result,
      dequantize("%wide", format, shape, 0) +
          llvm::formatv("  %y0 = binade.cast %wide : ({0}) -> {1}\n", wide,
                        result)
              .str());
}

//===----------------------------------------------------------------------===//
// Measuring
//===----------------------------------------------------------------------===//

namespace {
/// Compiles steps, and runs them in turns.
class Meter {
public:
  Meter(const CompileOptions &options, MLIRContext &context)
      : options(options), context(context) {}

  /// Adds a step; `what` names it in errors. Returns its number.
  unsigned add(std::string what, std::string step) {
    names.push_back(std::move(what));
    steps.push_back(std::move(step));
    return steps.size() - 1;
  }

  /// Measures all steps. The programs take turns, so that other processes slow
  /// all of them alike; the fastest run is the one with the smallest
  /// disturbance.
  Result<void> run();

  /// Returns the seconds of a step's fastest run.
  double getSeconds(unsigned step) const { return seconds[step]; }
  const std::string &getTarget() const { return target; }

private:
  Result<::binade::Program> compile(unsigned step);

  const CompileOptions &options;
  MLIRContext &context;
  std::vector<std::string> names, steps;
  std::vector<double> seconds;
  std::string target;
};
} // namespace

Result<::binade::Program> Meter::compile(unsigned step) {
  DiagnosticCollector diagnostics(&context);
  auto fail = [&] {
    return diagnostics.takeError(names[step], "cannot be measured");
  };
  auto module = parseSourceString<ModuleOp>(steps[step], &context);
  if (!module || failed(runPhases(*module, CompilerPhase::Materialize,
                                  CompilerPhase::Kernels, options)))
    return fail();
  FailureOr<::binade::Bundle> bundle = compileBundle(*module, options);
  if (failed(bundle))
    return fail();
  auto program = ::binade::Program::load(std::move(*bundle), "costs", ".", {});
  if (!program)
    return program.takeError();
  if (Result<void> done = program->initialize(/*seed=*/0); !done)
    return done.takeError();
  std::string library = ::binade::oneDnnVersion();
  target = llvm::formatv(
      "{0}, {1} threads, {2}",
      program->getIsa().empty() ? "no kernels" : program->getIsa(),
      program->getThreads(),
      library.empty() ? "own contractions" : "oneDNN " + library);
  return program;
}

Result<void> Meter::run() {
  constexpr unsigned kWarm = 1, kRounds = 30;
  using Clock = std::chrono::steady_clock;
  // A slow machine runs fewer rounds.
  constexpr std::chrono::seconds kBudget(15);
  std::vector<::binade::Program> programs;
  for (unsigned step = 0; step < steps.size(); ++step) {
    Result<::binade::Program> program = compile(step);
    if (!program)
      return program.takeError();
    programs.push_back(std::move(*program));
  }
  seconds.assign(steps.size(), HUGE_VAL);
  Clock::time_point end = Clock::now() + kBudget;
  for (unsigned round = 0; round < kWarm + kRounds; ++round) {
    if (round > kWarm && Clock::now() > end)
      break;
    for (auto [program, fastest] : llvm::zip(programs, seconds)) {
      Clock::time_point start = Clock::now();
      (void)program.run(); // On the CPU.
      std::chrono::duration<double> elapsed = Clock::now() - start;
      if (round >= kWarm)
        fastest = std::min(fastest, elapsed.count());
    }
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

namespace {
/// The steps that measure a float format.
struct FloatSteps {
  FloatType format;
  SmallVector<unsigned> matmuls;
  unsigned elements;

  FloatSteps(Meter &meter, FloatType format) : format(format) {
    std::string name = llvm::to_string(format);
    for (const LayerMatmul &matmul : kMatmuls)
      matmuls.push_back(
          meter.add("matmul in " + name, makeMatmul(matmul, format)));
    Type type = RankedTensorType::get(kManyElements, format);
    elements = meter.add("add in " + name,
                         makeStep("add %a0, %a1", {type, type}, type));
  }

  FormatRates getRates(const Meter &meter) const {
    double seconds = 0;
    for (unsigned matmul : matmuls)
      seconds += meter.getSeconds(matmul);
    constexpr double kAccesses = 3; // Two reads and a write.
    return {format, kMacs / seconds,
            kAccesses * kManyElements / meter.getSeconds(elements)};
  }
};

/// The steps that measure a quantized format.
struct QuantizedSteps {
  std::string name;
  QuantizedAttr format;
  SmallVector<unsigned> matmuls;
  unsigned quantize, dequantize;

  QuantizedSteps(Meter &meter, StringRef name, QuantizedAttr format)
      : name(name), format(format) {
    for (const LayerMatmul &matmul : kMatmuls)
      matmuls.push_back(
          meter.add("matmul in " + this->name, makeMatmul(matmul, format)));
    quantize = meter.add("quantize to " + this->name, makeQuantize(format));
    dequantize =
        meter.add("dequantize from " + this->name, makeDequantize(format));
  }

  QuantizedRates getRates(const Meter &meter) const {
    constexpr double kElements = kRows * kWide;
    QuantizedRates rates{name, format};
    rates.quantize = kElements / meter.getSeconds(quantize);
    rates.dequantize = kElements / meter.getSeconds(dequantize);
    double seconds = 0;
    for (auto [step, matmul] : llvm::zip(matmuls, kMatmuls)) {
      double operands =
          matmul.lhs[0] * matmul.lhs[1] + matmul.rhs[0] * matmul.rhs[1];
      double whole = meter.getSeconds(step);
      // The dequantization of operands that stay in a cache may be faster than
      // measured, but it is never most of the time.
      seconds += std::max(whole - operands / rates.dequantize, whole / 2);
    }
    rates.products = kMacs / seconds;
    return rates;
  }
};
} // namespace

Result<TargetCosts> measureCosts(const CompileOptions &options,
                                 MLIRContext &context) {
  context.loadAllAvailableDialects();
  Meter meter(options, context);
  FloatType wide = Float32Type::get(&context);
  SmallVector<FloatSteps> floats;
  for (FloatType format : {wide, FloatType(BFloat16Type::get(&context)),
                           FloatType(Float16Type::get(&context))})
    floats.emplace_back(meter, format);
  SmallVector<QuantizedSteps> quantized;
  for (StringRef name : kQuantizedFormats)
    quantized.emplace_back(meter, name,
                           *findTensorFormat(name, UnknownLoc::get(&context)));
  Type tiny = RankedTensorType::get(8, wide);
  unsigned launch =
      meter.add("a launch", makeStep("add %a0, %a1", {tiny, tiny}, tiny));
  if (Result<void> done = meter.run(); !done)
    return done.takeError();
  TargetCosts costs;
  costs.target = meter.getTarget();
  costs.processor = ::binade::describeProcessor();
  costs.launch = meter.getSeconds(launch);
  for (const FloatSteps &steps : floats)
    costs.formats.push_back(steps.getRates(meter));
  for (const QuantizedSteps &steps : quantized)
    costs.quantized.push_back(steps.getRates(meter));
  return costs;
}
