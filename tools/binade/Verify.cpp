//===- Verify.cpp - binade verify -----------------------------------------===//

#include "Commands.h"
#include "Diagnostics.h"
#include "VerifyReport.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/TrainArguments.h"
#include "binade/Container/FloatConversion.h"
#include "binade/Container/Philox.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Runtime/Data.h"
#include "llvm/Support/raw_ostream.h"
#include <numeric>
#include <unistd.h>

using namespace mlir::binade;
using ::binade::DType;
using ::binade::ExitCode;
using ::binade::Program;
using ::binade::Result;

//===----------------------------------------------------------------------===//
// Batches without data
//===----------------------------------------------------------------------===//

template <typename T>
static void draw(const ::binade::Tensor &tensor, std::uint32_t number,
                 std::uint64_t seed, llvm::function_ref<T(double, double)> of) {
  std::span<T> elements = tensor.as<T>();
  for (std::size_t i = 0; i < elements.size(); ++i) {
    auto [a, b, c, d] =
        ::binade::philox({static_cast<std::uint32_t>(i), number,
                          static_cast<std::uint32_t>(i >> 32), 0},
                         ::binade::philoxKey(seed));
    elements[i] =
        of(::binade::philoxNormal(a, b).first, ::binade::philoxUniform(c));
  }
}

/// Fills batches with standard normal values and legal integers.
static void draw(const Program &program, std::uint64_t seed) {
  std::uint32_t number = 0;
  for (const ::binade::plan::Port &port : program.getPlan().ports) {
    if (port.role != ::binade::plan::Role::Batch)
      continue;
    ::binade::Tensor tensor = *program.find(port.role, port.name);
    double low = port.check ? port.check->low : 0;
    double size = port.check ? port.check->high - port.check->low : 2;
    auto index = [&](double uniform) {
      return low + std::floor(uniform * size);
    };
    ++number;
    switch (tensor.dtype) {
    case DType::F32:
      draw<float>(tensor, number, seed, [](double x, double) { return x; });
      break;
    case DType::F16:
      draw<std::uint16_t>(tensor, number, seed, [](double x, double) {
        return ::binade::floatToF16(static_cast<float>(x));
      });
      break;
    case DType::BF16:
      draw<std::uint16_t>(tensor, number, seed, [](double x, double) {
        return ::binade::floatToBF16(static_cast<float>(x));
      });
      break;
    case DType::F64:
      draw<double>(tensor, number, seed, [](double x, double) { return x; });
      break;
    case DType::I64:
      draw<std::int64_t>(tensor, number, seed,
                         [&](double, double u) { return index(u); });
      break;
    case DType::I32:
      draw<std::int32_t>(tensor, number, seed,
                         [&](double, double u) { return index(u); });
      break;
    default:
      draw<std::uint8_t>(tensor, number, seed,
                         [&](double, double u) { return u < 0.5; });
    }
  }
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

namespace {
struct VerifyCommand {
  std::string bundle, device = "auto", init, expected;
  ::binade::DataArguments data;
  std::int64_t steps = 1;
  std::uint64_t seed = 0;
  bool json = false;
  ::binade::DiagnosticFormat form = ::binade::DiagnosticFormat::Text;
  VerifyOptions options;

  int run();

private:
  Result<void> complete();
  Result<int> verify(mlir::MLIRContext &context);
  Result<void> start(Program &program) const;
  Result<void> execute(Verification &verification);
  /// Gives the program its next batch.
  Result<void> fill(const Program &program);

  std::optional<::binade::Data> source;
  std::uint64_t batches = 0; ///< Number of batches filled so far.
};
} // namespace

Result<void> VerifyCommand::complete() {
  options.keepsExpectations = !expected.empty();
  options.simulate = device == "simulator";
  if (!options.simulate)
    options.device = *::binade::DeviceChoice::parse(device);
  return data.complete();
}

Result<void> VerifyCommand::start(Program &program) const {
  if (auto done = program.initialize(seed); !done || init.empty())
    return done;
  auto file = ::binade::Safetensors::open(init);
  if (!file)
    return file.takeError();
  auto restored = program.restore(*file);
  return restored ? Result<void>() : restored.takeError();
}

Result<void> VerifyCommand::fill(const Program &program) {
  std::uint64_t first = batches++;
  if (!source) {
    draw(program, seed + first);
    return {};
  }
  std::vector<std::uint64_t> samples(source->getBatch());
  std::iota(samples.begin(), samples.end(), first * samples.size());
  for (std::uint64_t &sample : samples)
    sample %= source->getNumSamples();
  return source->fill(samples);
}

Result<void> VerifyCommand::execute(Verification &verification) {
  Program &program = verification.getProgram();
  for (std::int64_t step = 0; step < steps; ++step)
    for (std::int64_t n = program.getPlan().batches; n > 0; --n) {
      if (auto done = fill(program); !done)
        return done;
      auto done =
          n > 1 ? verification.runAccumulation() : verification.runStep();
      if (!done)
        return done;
    }
  return program.hasEvaluation() ? verification.runEvaluation()
                                 : Result<void>();
}

Result<int> VerifyCommand::verify(mlir::MLIRContext &context) {
  bool isTerminal = isatty(STDERR_FILENO);
  if (isTerminal)
    options.progress = [](std::int64_t done, std::int64_t all) {
      llvm::errs() << "\rrecord " << done << " of " << all << "\033[K";
    };
  auto verification = Verification::create(bundle, options, context);
  if (!verification)
    return verification.takeError();
  Program &program = verification->getProgram();
  if (auto done = start(program); !done)
    return done.takeError();
  if (!data.options.path.empty()) {
    auto opened = ::binade::Data::open(program, data.options);
    if (!opened)
      return opened.takeError();
    source = *std::move(opened);
  }
  Result<void> done = execute(*verification);
  if (isTerminal)
    llvm::errs() << "\r\033[K";
  if (!done)
    return done.takeError();
  if (!expected.empty())
    if (Result<void> saved = verification->save(expected); !saved)
      return saved.takeError();
  if (json) {
    llvm::outs() << llvm::formatv("{0:2}\n", toJson(*verification));
  } else {
    llvm::outs() << ::binade::printable(bundle) << ": "
                 << verification->describe() << "\n";
    printReport(*verification);
  }
  return areEqual(*verification) ? int(ExitCode::Ok)
                                 : int(ExitCode::Difference);
}

int VerifyCommand::run() {
  mlir::MLIRContext context(mlir::binade::makeRegistry());
  Diagnostics diagnostics(context, ::binade::printable(bundle), form);
  if (Result<void> legal = complete(); !legal)
    return diagnostics.fail(legal.error());
  options.notify = [](std::string_view text) {
    llvm::errs() << "binade: " << text << "\n";
  };
  Result<int> code = verify(context);
  return code ? *code : diagnostics.fail(code.error());
}

void addVerify(CLI::App &app, Run &run) {
  CLI::App *command =
      ::binade::addCommand(app, "verify",
                           "Compare the results of a bundle's kernels with the "
                           "CPU's. Runs its kernels and library calls one by "
                           "one");
  command->footer(
      "Examples:\n"
      "  binade verify gpu.bnd --device simulator\n"
      "  binade verify gpu.bnd --data train.safetensors --steps 3 --repeat 2\n"
      "  binade verify gpu.bnd --only /fc1/Gemm --json\n"
      "The results of a bundle for the CPU are compared with the reference "
      "interpreter's.\n"
      "The exit code is 1 if a difference was found.");
  auto self = std::make_shared<VerifyCommand>();
  command
      ->add_option("bundle", self->bundle, "Bundle that 'binade compile' wrote")
      ->required()
      ->type_name("BUNDLE");
  auto check = [](const std::string &text) -> std::string {
    if (text == "simulator" || ::binade::DeviceChoice::parse(text))
      return "";
    return "expected auto, cpu, cuda, cuda:NUMBER or simulator, got " +
           ::binade::quote(text);
  };
  CLI::Option *device =
      command
          ->add_option("--device", self->device,
                       "Device to check: one that 'binade list devices' "
                       "prints, or a simulated GPU")
          ->check(CLI::Validator(check, ""))
          ->type_name("auto|cpu|cuda[:N]|simulator")
          ->capture_default_str();
  self->data.add(*command)->description(
      "Data file: one tensor with all samples for each batch input, or streams "
      "for --window; by default batches are random");
  command->add_option("--steps", self->steps, "Training steps to execute")
      ->check(::binade::integer<std::int64_t>(1))
      ->capture_default_str();
  command
      ->add_option("--init", self->init,
                   "Training state to start from, such as a run's "
                   "final.safetensors; by default initial weights")
      ->type_name("FILE.safetensors");
  command
      ->add_option("--seed", self->seed,
                   "Seed of random initial weights, and of random batches if "
                   "--data is not given")
      ->check(::binade::integer<std::uint64_t>())
      ->capture_default_str();
  command
      ->add_option(
          "--only", self->options.only,
          "Compare only kernels and library calls whose label contains this "
          "text; the others are executed but not compared")
      ->type_name("TEXT");
  command
      ->add_option("--repeat", self->options.repeat,
                   "Execute each kernel and library call this many times with "
                   "the same operands, and require bitwise equal results")
      ->check(::binade::integer<std::int64_t>(1))
      ->capture_default_str();
  command
      ->add_option(
          "--save-expected", self->expected,
          "Write the results of the CPU and their error bounds instead of "
          "checking a device, so that a machine without a compiler can compare")
      ->excludes(device)
      ->type_name("FILE.safetensors");
  command
      ->add_option("--threads", self->options.threads,
                   "Threads of library calls on the CPU; by default the number "
                   "in the bundle")
      ->check(::binade::integer<unsigned>(1, ::binade::plan::kMaxThreads));
  command->add_flag("--json", self->json, "Print the report as JSON");
  ::binade::addDiagnosticFormat(*command, self->form);
  command->callback([&run, self] { run = [self] { return self->run(); }; });
}
