//===- StreamMatmul.cpp - Matmuls on a stream -----------------------------===//

#include "LibraryMatmul.h"

namespace binade::cuda {

namespace {
class MatmulOnStream : public StreamOperation {
public:
  MatmulOnStream(const plan::Matmul &matmul, const StreamSetup &setup,
                 std::string_view label)
      : device(*setup.device), library(setup.library), memory(setup.memory),
        label(label), lhs(memory.addressOf(matmul.lhs)),
        rhs(memory.addressOf(matmul.rhs)), out(memory.addressOf(matmul.out)),
        scratch(matmul.libraryScratch, setup) {
    if (matmul.lhsScale)
      lhsScale = memory.addressOf(*matmul.lhsScale);
    if (matmul.rhsScale)
      rhsScale = memory.addressOf(*matmul.rhsScale);
    if (matmul.bias)
      bias = memory.addressOf(*matmul.bias);
  }

  static MadeOperation create(const plan::Matmul &matmul,
                              std::string_view label, const StreamSetup &setup);

  Result<void> tune() override;
  std::string getAlgorithm() const override {
    return formatAlgorithm(matmulOp->getAlgorithm());
  }

  Result<void> run(std::span<const std::int64_t> iteration) override {
    auto find = [&](const std::optional<binade::Address> &address) -> Address {
      return address ? toDevice(address->at(iteration)) : 0;
    };
    MatmulAddresses addresses;
    addresses.lhs = toDevice(lhs.at(iteration));
    addresses.rhs = toDevice(rhs.at(iteration));
    addresses.out = toDevice(out.at(iteration));
    addresses.lhsScale = find(lhsScale);
    addresses.rhsScale = find(rhsScale);
    addresses.bias = find(bias);
    addresses.workspace = scratch.at(iteration);
    return runAxis(0, addresses);
  }

  std::string getImplementation() const override {
    return matmulOp->describe();
  }

private:
  /// Loops over the batch axes that cuBLASLt does not support.
  Result<void> runAxis(std::size_t axis, MatmulAddresses addresses) {
    if (axis == outer.size())
      return matmulOp->run(addresses, {"matmul", label});
    const BatchAxis &own = outer[axis];
    for (std::int64_t i = 0; i < own.size; ++i) {
      if (auto done = runAxis(axis + 1, addresses); !done)
        return done;
      addresses.lhs += own.lhs;
      addresses.rhs += own.rhs;
      addresses.out += own.out;
    }
    return {};
  }

  /// Returns the seconds of a run.
  Result<double> measure();

  Device &device;
  std::shared_ptr<CublasLt> library;
  binade::Memory memory;
  std::string_view label;
  binade::Address lhs, rhs, out;
  std::optional<binade::Address> lhsScale, rhsScale, bias;
  std::vector<BatchAxis> outer; ///< With distances in bytes.
  MatmulProblem problem;
  std::optional<CublasLtMatmul> matmulOp;
  LibraryScratch scratch;
};
} // namespace

/// Creates the matmul with the algorithm that the plan records for this
/// library, if it is still available, else with the best one.
static Result<CublasLtMatmul> choose(const plan::Matmul &matmul,
                                     const MatmulProblem &problem,
                                     const std::shared_ptr<CublasLt> &library,
                                     std::uint64_t scratchBytes) {
  auto known = matmul.algorithms.find(library->identify());
  if (known != matmul.algorithms.end())
    if (auto algorithm = parseAlgorithm(known->second))
      if (auto matmulOp = CublasLtMatmul::create(library, problem, *algorithm,
                                                 scratchBytes))
        return matmulOp;
  return CublasLtMatmul::create(library, problem, scratchBytes);
}

MadeOperation MatmulOnStream::create(const plan::Matmul &matmul,
                                     std::string_view label,
                                     const StreamSetup &setup) {
  auto made = std::make_unique<MatmulOnStream>(matmul, setup, label);
  Result<LibraryMatmul> found = toLibrary(matmul, setup);
  if (!found)
    return found.takeError();
  made->problem = found->problem;
  made->outer = std::move(found->outer);
  Result<CublasLtMatmul> matmulOp =
      choose(matmul, made->problem, setup.library, made->scratch.bytes);
  if (!matmulOp)
    return matmulOp.takeError();
  made->matmulOp.emplace(*std::move(matmulOp));
  return std::unique_ptr<StreamOperation>(std::move(made));
}

/// Measures after a warm-up run.
Result<double> MatmulOnStream::measure() {
  constexpr int kRuns = 3;
  const std::vector<std::int64_t> iteration(plan::kMaxLoopDepth);
  if (Result<void> done = run(iteration); !done)
    return done.takeError();
  Result<Event> begin = device.record();
  if (!begin)
    return begin.takeError();
  for (int i = 0; i < kRuns; ++i)
    if (Result<void> done = run(iteration); !done)
      return done.takeError();
  Result<Event> end = device.record();
  if (!end)
    return end.takeError();
  if (Result<void> done = device.wait(*end); !done)
    return done.takeError();
  auto elapsed = device.measure(*begin, *end);
  if (!elapsed)
    return elapsed.takeError();
  return elapsed->count() / kRuns;
}

Result<void> MatmulOnStream::tune() {
  constexpr int kMaxAlgorithms = 16;
  auto found =
      CublasLtMatmul::list(library, problem, scratch.bytes, kMaxAlgorithms);
  if (!found)
    return found.takeError();
  std::optional<CublasLtMatmul> best;
  double least = 0;
  for (CublasLtMatmul &candidate : *found) {
    matmulOp.emplace(std::move(candidate));
    Result<double> seconds = measure();
    if (!seconds && device.hasFailed())
      return seconds.takeError();
    if (!seconds) // The library lists algorithms that fail when they run.
      continue;
    if (!best || *seconds < least) {
      least = *seconds;
      best = std::move(matmulOp);
    }
  }
  if (!best)
    return Error{"cuda", "none of the library's algorithms runs",
                 ExitCode::Device};
  matmulOp = std::move(best);
  return {};
}

MadeOperation createMatmul(const plan::Record &record,
                           const StreamSetup &setup) {
  const auto &matmul = std::get<plan::Matmul>(record.body);
  if (!setup.library)
    return createKernels(record, setup);
  return fallBackToKernels(MatmulOnStream::create(matmul, record.label, setup),
                           record, matmul.deviceKernel, setup);
}
} // namespace binade::cuda
