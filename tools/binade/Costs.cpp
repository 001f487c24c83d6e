//===- Costs.cpp - binade costs -------------------------------------------===//

#include "Commands.h"
#include "Diagnostics.h"
#include "Options.h"
#include "Write.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/Container/Printable.h"
#include "binade/IR/Diagnostics.h"
#include "binade/Precision/Policy.h"
#include "binade/Runtime/Library.h"
#include "binade/Runtime/Program.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/ScopedPrinter.h"
#include <chrono>
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace mlir::binade;
using ::binade::ExitCode;
using ::binade::Result;

//===----------------------------------------------------------------------===//
// Measuring
//===----------------------------------------------------------------------===//

/// An op of two operands to measure.
struct Probe {
  std::string op, attributes;
  /// Shapes as types write them: "2x3".
  std::string lhs, rhs, result;
};

static std::string makeStep(const Probe &probe, StringRef format) {
  return llvm::formatv(
      R"(func.func @step(
    %a: tensor<{0}x{3}> {{binade.name = "a", binade.role = #binade.role<buffer>},
    %b: tensor<{1}x{3}> {{binade.name = "b", binade.role = #binade.role<buffer>})
    -> (tensor<{2}x{3}> {{binade.name = "y", binade.role = #binade.role<output>}) {{
  %y = binade.{4} %a, %b {5}
      : (tensor<{0}x{3}>, tensor<{1}x{3}>) -> tensor<{2}x{3}>
  return %y : tensor<{2}x{3}>
}
)",
      probe.lhs, probe.rhs, probe.result, format, probe.op, probe.attributes);
}

/// Returns the seconds of each program's fastest run. The programs take turns,
/// so that other processes slow all of them alike; the fastest run is the one
/// with the smallest disturbance.
static std::vector<double> time(std::vector<::binade::Program> &programs) {
  constexpr unsigned kWarm = 2, kRounds = 30;
  using Clock = std::chrono::steady_clock;
  std::vector<double> least(programs.size(), HUGE_VAL);
  for (unsigned round = 0; round < kWarm + kRounds; ++round)
    for (auto [program, fastest] : llvm::zip(programs, least)) {
      Clock::time_point start = Clock::now();
      (void)program.run(); // On the CPU.
      std::chrono::duration<double> elapsed = Clock::now() - start;
      if (round >= kWarm)
        fastest = std::min(fastest, elapsed.count());
    }
  return least;
}

namespace {
/// Runs small steps on this machine.
class Meter {
public:
  explicit Meter(const CompileOptions &options)
      : options(options), context(makeRegistry()) {
    context.loadAllAvailableDialects();
  }

  Result<TargetCosts> measure() {
    // Matmuls of a transformer layer, forward and backward; elementwise ops
    // that exceed all caches; a tiny op.
    const Probe matmuls[] = {
        {"matmul", "{transpose_rhs}", "2048x384", "1536x384", "2048x1536"},
        {"matmul", "", "2048x1536", "1536x384", "2048x384"},
        {"matmul", "{transpose_lhs}", "2048x1536", "2048x384", "1536x384"}};
    const double kMacs = 3.0 * 2048 * 1536 * 384;
    const Probe elements = {"add", "", "16777216", "16777216", "16777216"};
    const Probe launch = {"add", "", "8", "8", "8"};
    const FloatType formats[] = {Float32Type::get(&context),
                                 BFloat16Type::get(&context),
                                 Float16Type::get(&context)};
    TargetCosts costs;
    std::vector<::binade::Program> programs;
    auto add = [&](const Probe &probe, FloatType format) -> Result<void> {
      Result<::binade::Program> program = prepare(probe, format, costs);
      if (!program)
        return program.takeError();
      programs.push_back(std::move(*program));
      return {};
    };
    for (FloatType format : formats) {
      for (const Probe &matmul : matmuls)
        if (Result<void> done = add(matmul, format); !done)
          return done.takeError();
      if (Result<void> done = add(elements, format); !done)
        return done.takeError();
    }
    if (Result<void> done = add(launch, formats[0]); !done)
      return done.takeError();
    std::vector<double> seconds = time(programs);
    ArrayRef<double> rest = seconds;
    for (FloatType format : formats) {
      ArrayRef<double> taken = rest.take_front(std::size(matmuls));
      FormatRates rates;
      rates.format = format;
      rates.products = kMacs / std::accumulate(taken.begin(), taken.end(), 0.0);
      rates.elements = 3.0 * (1 << 24) / rest[taken.size()];
      rest = rest.drop_front(taken.size() + 1);
      costs.formats.push_back(rates);
      llvm::errs() << llvm::formatv(
          "{0,-5} {1:e2} products/s, {2:e2} elements/s\n",
          llvm::to_string(format), rates.products, rates.elements);
    }
    costs.launch = seconds.back();
    return costs;
  }

private:
  Result<::binade::Program> prepare(const Probe &probe, FloatType format,
                                    TargetCosts &costs) {
    DiagnosticCollector diagnostics(&context);
    auto fail = [&] {
      return diagnostics.takeError(probe.op + " in " + llvm::to_string(format),
                                   "cannot be measured");
    };
    auto module = parseSourceString<ModuleOp>(
        makeStep(probe, llvm::to_string(format)), &context);
    if (!module || failed(runPhases(*module, CompilerPhase::Materialize,
                                    CompilerPhase::Kernels, options)))
      return fail();
    FailureOr<::binade::Bundle> bundle = compileBundle(*module, options);
    if (failed(bundle))
      return fail();
    auto program =
        ::binade::Program::load(std::move(*bundle), "costs", ".", {});
    if (!program)
      return program.takeError();
    if (Result<void> done = program->initialize(/*seed=*/0); !done)
      return done.takeError();
    std::string library = ::binade::oneDnnVersion();
    costs.target = llvm::formatv(
        "{0}, {1} threads, {2}",
        program->getIsa().empty() ? "no kernels" : program->getIsa(),
        program->getThreads(),
        library.empty() ? "own contractions" : "oneDNN " + library);
    return program;
  }

  CompileOptions options;
  MLIRContext context;
};

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

struct CostsCommand {
  CompileOptions options;
  ::binade::DiagnosticFormat form = ::binade::DiagnosticFormat::Text;
  std::string out = "-";
  bool measure = false;

  int run() {
    MLIRContext context;
    Diagnostics diagnostics(context, "binade", form);
    if (!measure) {
      for (StringRef name : getCostNames())
        llvm::outs() << name << "\n";
      return ExitCode::Ok;
    }
    Meter meter(options);
    Result<TargetCosts> costs = meter.measure();
    if (!costs)
      return diagnostics.fail(costs.error());
    Result<void> written = writeText(out, writeCosts(*costs));
    return written ? ExitCode::Ok : diagnostics.fail(written.error());
  }
};
} // namespace

void addCosts(CLI::App &app, Run &run) {
  CLI::App *command = ::binade::addCommand(
      app, "costs",
      "List the cost tables of number formats, or measure one. They are for "
      "policies that choose the cheapest formats ('cut: { costs: FILE }')");
  command->footer("Examples:\n"
                  "  binade costs\n"
                  "  binade costs --measure -o here.yaml");
  auto self = std::make_shared<CostsCommand>();
  command->add_flag("--measure", self->measure,
                    "Measure the costs on this machine; without this option, "
                    "list the tables that Binade ships");
  command
      ->add_option(
          "--threads", self->options.threads,
          "Threads of library calls such as matmuls; 0 for one per core")
      ->check(::binade::integer<unsigned>(0, ::binade::plan::kMaxThreads))
      ->capture_default_str();
  command
      ->add_option(
          "-o,--output", self->out,
          "File to write the measured costs to, as YAML; - for standard output")
      ->type_name("FILE.yaml")
      ->capture_default_str();
  ::binade::addDiagnosticFormat(*command, self->form);
  command->callback([&run, self] { run = [self] { return self->run(); }; });
}
