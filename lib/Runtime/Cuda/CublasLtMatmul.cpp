//===- CublasLtMatmul.cpp - Matmuls with cuBLASLt -------------------------===//

#include "CublasLtMatmul.h"
#include <charconv>
#include <tuple>
#include <utility>
#include <vector>

using namespace binade;
using namespace binade::cuda;

static bool isFp8(DType type) {
  return type == DType::F8_E4M3 || type == DType::F8_E5M2;
}

/// Returns cuBLASLt's constant for a type; nothing if it is not supported.
static std::optional<int> toLibrary(DType type) {
  switch (type) {
  case DType::F32:
    return lt::type::F32;
  case DType::F16:
    return lt::type::F16;
  case DType::BF16:
    return lt::type::BF16;
  case DType::F8_E4M3:
    return lt::type::E4M3;
  case DType::F8_E5M2:
    return lt::type::E5M2;
  default:
    return std::nullopt;
  }
}

static std::int32_t toLibrary(ScaleMode mode) {
  switch (mode) {
  case ScaleMode::Tensor:
    return lt::scale::Scalar;
  case ScaleMode::Vec128:
    return lt::scale::Vec128;
  case ScaleMode::Block128x128:
    return lt::scale::Block128x128;
  }
  __builtin_unreachable();
}

// A is Binade's right side.
static std::uint32_t toLibrary(Epilogue epilogue) {
  switch (epilogue) {
  case Epilogue::None:
    return lt::epilogue::Default;
  case Epilogue::Bias:
    return lt::epilogue::Bias;
  case Epilogue::Gelu:
    return lt::epilogue::GeluAux;
  case Epilogue::GeluBias:
    return lt::epilogue::GeluAuxBias;
  case Epilogue::DGelu:
    return lt::epilogue::DGelu;
  case Epilogue::DGeluBGrad:
    return lt::epilogue::DGeluBGrad;
  case Epilogue::BGradLeft:
    return lt::epilogue::BGradB;
  case Epilogue::BGradRight:
    return lt::epilogue::BGradA;
  }
  __builtin_unreachable();
}

static bool hasBias(Epilogue epilogue) {
  return epilogue != Epilogue::None && epilogue != Epilogue::Gelu &&
         epilogue != Epilogue::DGelu;
}

static bool hasAux(Epilogue epilogue) {
  return epilogue == Epilogue::Gelu || epilogue == Epilogue::GeluBias ||
         epilogue == Epilogue::DGelu || epilogue == Epilogue::DGeluBGrad;
}

static std::string format(const MatmulProblem &problem) {
  auto side = [](DType type, std::int64_t rows, std::int64_t columns,
                 bool isTransposed) {
    if (isTransposed)
      std::swap(rows, columns);
    return std::string(name(type)) + " [" + std::to_string(rows) + ", " +
           std::to_string(columns) + "]" + (isTransposed ? " transposed" : "");
  };
  return side(problem.lhs, problem.m, problem.k, problem.transposeLhs) + " x " +
         side(problem.rhs, problem.k, problem.n, problem.transposeRhs) +
         " -> " + std::string(name(problem.out));
}

/// Returns an error that lists possible reasons, because cuBLASLt only reports
/// that it does not support a problem.
static Error describeRefusal(const CublasLt &library,
                             const MatmulProblem &problem, std::string what) {
  Error error = {"cuda",
                 "cuBLASLt " + library.formatVersion() + " " + std::move(what) +
                     " for " + format(problem),
                 ExitCode::Device};
  if (hasAux(problem.epilogue))
    error = std::move(error).withNote(
        "GELU and its derivative need n as a multiple of 8");
  if (!isFp8(problem.lhs) && !isFp8(problem.rhs))
    return error;
  const CudaDevice &device = library.getDevice().getProperties();
  constexpr ComputeCapability first = {8, 9};
  if (device.capability < first)
    return std::move(error).withNote("FP8 needs compute capability " +
                                     first.format() + ", " + device.format() +
                                     " has " + device.capability.format());
  constexpr ComputeCapability blocks = {9, 0};
  if (problem.hasBlocks() && device.capability != blocks)
    return std::move(error).withNote("block scales need compute capability " +
                                     blocks.format() + ", " + device.format() +
                                     " has " + device.capability.format());
  return std::move(error).withNote(
      "FP8 needs the left side as [m, k], the right one as [n, k] "
      "(transposed), n, k and all strides as multiples of 16, and not both "
      "sides in F8_E5M2");
}

template <typename T>
Result<void> CublasLtMatmul::set(int attribute, const T &value) const {
  return library->call(library->functions.matmulDescSetAttribute,
                       operation.get(), attribute,
                       static_cast<const void *>(&value), sizeof(value));
}

/// Creates a layout; cuBLASLt's columns are Binade's rows.
Result<void> CublasLtMatmul::createLayout(Released<lt::MatrixLayout> &layout,
                                          DType type, std::int64_t rows,
                                          std::int64_t columns,
                                          std::int64_t stride,
                                          std::int64_t batchStride) {
  const lt::Table &functions = library->functions;
  lt::MatrixLayout *made = nullptr;
  if (auto done = library->call(
          functions.matrixLayoutCreate, &made, *toLibrary(type),
          static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows),
          stride ? stride : columns);
      !done)
    return done;
  layout = {made, functions.matrixLayoutDestroy.address};
  if (problem.batch == 1)
    return {};
  auto count = static_cast<std::int32_t>(problem.batch);
  if (auto done = library->call(
          functions.matrixLayoutSetAttribute, made, lt::layout::BatchCount,
          static_cast<const void *>(&count), sizeof(count));
      !done)
    return done;
  return library->call(
      functions.matrixLayoutSetAttribute, made, lt::layout::StridedBatchOffset,
      static_cast<const void *>(&batchStride), sizeof(batchStride));
}

Result<void> CublasLtMatmul::createLayouts() {
  const MatmulProblem &p = problem;
  auto [lhsRows, lhsColumns] =
      p.transposeLhs ? std::pair(p.k, p.m) : std::pair(p.m, p.k);
  auto [rhsRows, rhsColumns] =
      p.transposeRhs ? std::pair(p.n, p.k) : std::pair(p.k, p.n);
  if (auto done = createLayout(lhs, p.lhs, lhsRows, lhsColumns, p.lhsStride,
                               p.lhsBatchStride);
      !done)
    return done;
  if (auto done = createLayout(rhs, p.rhs, rhsRows, rhsColumns, p.rhsStride,
                               p.rhsBatchStride);
      !done)
    return done;
  if (auto done =
          createLayout(out, p.out, p.m, p.n, p.outStride, p.outBatchStride);
      !done)
    return done;
  // The addend is never FP8, even if nothing is added.
  DType added = !isFp8(p.out)          ? p.out
                : p.bias == DType::F16 ? DType::F16
                                       : DType::BF16;
  return createLayout(old, added, p.m, p.n, p.outStride, p.outBatchStride);
}

Result<void> CublasLtMatmul::setOptions() {
  const MatmulProblem &p = problem;
  auto transposed = [](bool is) -> std::int32_t {
    return is ? lt::kOpT : lt::kOpN;
  };
  std::vector<Result<void>> done;
  done.push_back(set(lt::desc::TransA, transposed(p.transposeRhs)));
  done.push_back(set(lt::desc::TransB, transposed(p.transposeLhs)));
  done.push_back(set(lt::desc::Epilogue, toLibrary(p.epilogue)));
  if (hasBias(p.epilogue))
    done.push_back(
        set(lt::desc::BiasDataType, std::int32_t(*toLibrary(p.bias))));
  if (hasAux(p.epilogue)) {
    done.push_back(set(lt::desc::AuxDataType, std::int32_t(*toLibrary(p.aux))));
    done.push_back(set(lt::desc::AuxLd, p.n));
    if (p.batch > 1)
      done.push_back(set(lt::desc::AuxBatchStride, p.m * p.n));
  }
  if (isFp8(p.lhs) || isFp8(p.rhs))
    done.push_back(
        set(lt::desc::FastAccumulation, std::int8_t(p.fastAccumulation)));
  // Older versions support only scales per tensor and lack these attributes.
  if (p.hasBlocks()) {
    done.push_back(set(lt::desc::AScaleMode, toLibrary(p.rhsScale)));
    done.push_back(set(lt::desc::BScaleMode, toLibrary(p.lhsScale)));
  }
  // The heuristic depends on which addresses are set, and on their alignment.
  MatmulAddresses some;
  constexpr Address aligned = 256;
  if (isFp8(p.lhs))
    some.lhsScale = aligned;
  if (isFp8(p.rhs))
    some.rhsScale = aligned;
  if (isFp8(p.out))
    some.outScale = some.outAmax = aligned;
  some.bias = some.aux = aligned;
  done.push_back(setAddresses(some));
  for (Result<void> &each : done)
    if (!each)
      return std::move(each);
  return {};
}

Result<void>
CublasLtMatmul::setAddresses(const MatmulAddresses &addresses) const {
  const std::tuple<int, Address, bool> attributes[] = {
      {lt::desc::BiasPointer, addresses.bias, hasBias(problem.epilogue)},
      {lt::desc::AuxPointer, addresses.aux, hasAux(problem.epilogue)},
      {lt::desc::AScalePointer, addresses.rhsScale, isFp8(problem.rhs)},
      {lt::desc::BScalePointer, addresses.lhsScale, isFp8(problem.lhs)},
      {lt::desc::DScalePointer, addresses.outScale, isFp8(problem.out)},
      {lt::desc::AmaxDPointer, addresses.outAmax, isFp8(problem.out)}};
  for (auto [attribute, address, isUsed] : attributes)
    if (isUsed)
      if (auto done = set(attribute, address); !done)
        return done;
  return {};
}

Result<CublasLtMatmul>
CublasLtMatmul::prepare(std::shared_ptr<CublasLt> library,
                        const MatmulProblem &problem) {
  for (DType type :
       {problem.lhs, problem.rhs, problem.out, problem.bias, problem.aux})
    if (!toLibrary(type))
      return describeRefusal(*library, problem,
                             "has no " + std::string(name(type)));
  if (problem.hasBlocks() && library->getVersion() < lt::kFirstWithBlockScales)
    return describeRefusal(*library, problem,
                           "has no block scales, which need 12.9 or newer,");
  const lt::Table &functions = library->functions;
  CublasLtMatmul matmul(library, problem);
  lt::MatmulDesc *operation = nullptr;
  if (auto done = library->call(functions.matmulDescCreate, &operation,
                                problem.tf32 ? int(lt::compute::FastTf32)
                                             : int(lt::compute::F32),
                                int(lt::type::F32));
      !done)
    return done.takeError();
  matmul.operation = {operation, functions.matmulDescDestroy.address};
  if (auto done = matmul.createLayouts(); !done)
    return done.takeError();
  if (auto done = matmul.setOptions(); !done)
    return done.takeError();
  return matmul;
}

Result<CublasLtMatmul> CublasLtMatmul::create(std::shared_ptr<CublasLt> library,
                                              const MatmulProblem &problem,
                                              std::uint64_t workspaceLimit) {
  Result<std::vector<CublasLtMatmul>> best =
      list(std::move(library), problem, workspaceLimit, 1);
  if (!best)
    return best.takeError();
  return std::move(best->front());
}

Result<std::vector<CublasLtMatmul>>
CublasLtMatmul::list(std::shared_ptr<CublasLt> library,
                     const MatmulProblem &problem, std::uint64_t workspaceLimit,
                     int wanted) {
  const lt::Table &functions = library->functions;
  Result<CublasLtMatmul> matmul = prepare(library, problem);
  if (!matmul)
    return matmul.takeError();
  lt::Preference *made = nullptr;
  if (auto done = library->call(functions.preferenceCreate, &made); !done)
    return done.takeError();
  Released<lt::Preference> preference(made,
                                      functions.preferenceDestroy.address);
  auto prefer = [&](int attribute, auto value) {
    return library->call(functions.preferenceSetAttribute, made, attribute,
                         static_cast<const void *>(&value), sizeof(value));
  };
  if (auto done = prefer(lt::preference::MaxWorkspaceBytes, workspaceLimit);
      !done)
    return done.takeError();
  // Partial sums of split-K algorithms may be rounded to f32 only.
  if (auto done = prefer(lt::preference::ReductionSchemes,
                         std::uint32_t(lt::reduction::ComputeType));
      !done)
    return done.takeError();
  for (int attribute :
       {lt::preference::MinAlignmentA, lt::preference::MinAlignmentB,
        lt::preference::MinAlignmentC, lt::preference::MinAlignmentD})
    if (auto done = prefer(attribute, problem.alignment); !done)
      return done.takeError();
  std::vector<lt::HeuristicResult> results(static_cast<std::size_t>(wanted));
  int count = 0;
  int status = functions.getHeuristic.address(
      library->handle, matmul->operation.get(), matmul->rhs.get(),
      matmul->lhs.get(), matmul->old.get(), matmul->out.get(), made, wanted,
      results.data(), &count);
  bool isRefused =
      status == lt::status::NotSupported || status == lt::status::InvalidValue;
  results.resize(static_cast<std::size_t>(std::max(count, 0)));
  std::erase_if(results, [](const lt::HeuristicResult &result) {
    return result.status != lt::status::Success;
  });
  if (isRefused || (status == lt::status::Success && results.empty()))
    return describeRefusal(*library, problem, "has no algorithm");
  if (status)
    return library->describe(status, functions.getHeuristic.name);
  std::vector<CublasLtMatmul> found;
  for (const lt::HeuristicResult &result : results) {
    if (!matmul)
      return matmul.takeError();
    matmul->algorithm = result.algorithm;
    matmul->workspaceBytes = result.workspaceBytes;
    found.push_back(*std::move(matmul));
    if (found.size() < results.size())
      matmul = prepare(library, problem);
  }
  return found;
}

/// Returns the reduction scheme of a split-K algorithm; 0 for other algorithms.
static std::uint32_t getReduction(const lt::Table &functions,
                                  const lt::Algorithm &algorithm) {
  std::uint32_t scheme = 0;
  std::size_t written = 0;
  int status =
      functions.getConfig.address(&algorithm, lt::config::ReductionScheme,
                                  &scheme, sizeof(scheme), &written);
  return status == lt::status::Success ? scheme : 0;
}

Result<CublasLtMatmul> CublasLtMatmul::create(std::shared_ptr<CublasLt> library,
                                              const MatmulProblem &problem,
                                              const lt::Algorithm &algorithm,
                                              std::uint64_t workspaceLimit) {
  const lt::Table &functions = library->functions;
  Result<CublasLtMatmul> matmul = prepare(library, problem);
  if (!matmul)
    return matmul;
  lt::HeuristicResult result = {};
  int status = functions.checkAlgorithm.address(
      library->handle, matmul->operation.get(), matmul->rhs.get(),
      matmul->lhs.get(), matmul->old.get(), matmul->out.get(), &algorithm,
      &result);
  bool isWide = !(getReduction(functions, algorithm) &
                  (lt::reduction::InPlace | lt::reduction::OutputType));
  if (status || result.workspaceBytes > workspaceLimit || !isWide)
    return describeRefusal(*library, problem,
                           "does not have the algorithm that was recorded")
        .withNote("it was recorded for another device or library; run "
                  "'binade-run tune' again");
  matmul->algorithm = algorithm;
  matmul->workspaceBytes = result.workspaceBytes;
  return matmul;
}

std::string CublasLtMatmul::describe() const {
  std::string text = "cublaslt " + library->formatVersion();
  auto add = [&](const char *key, int attribute, auto value) {
    std::size_t written = 0;
    if (library->functions.getConfig.address(&algorithm, attribute, &value,
                                             sizeof(value), &written) == 0)
      text += " " + std::string(key) + " " + std::to_string(value);
  };
  add("id", lt::config::Id, std::int32_t(0));
  add("tile", lt::config::TileId, std::uint32_t(0));
  add("stages", lt::config::StagesId, std::uint32_t(0));
  add("split-k", lt::config::SplitK, std::int32_t(0));
  add("reduction", lt::config::ReductionScheme, std::uint32_t(0));
  add("swizzle", lt::config::CtaSwizzling, std::uint32_t(0));
  add("inner", lt::config::InnerShapeId, std::uint16_t(0));
  add("cluster", lt::config::ClusterShapeId, std::uint16_t(0));
  return text;
}

Result<void> CublasLtMatmul::run(const MatmulAddresses &addresses,
                                 const Label &label) const {
  if (auto done = setAddresses(addresses); !done)
    return done;
  auto pointer = [](Address address) {
    return reinterpret_cast<void *>(address);
  };
  const float one = 1, factor = problem.accumulate ? 1 : 0;
  auto constant = [&](Address address) -> const void * {
    return pointer(address);
  };
  // FP8 results have no addend; for other types, some versions reject a null
  // address.
  Address added = isFp8(problem.out) ? 0 : addresses.out;
  if (auto done = library->call(
          library->functions.matmul, library->handle, operation.get(),
          static_cast<const void *>(&one), constant(addresses.rhs), rhs.get(),
          constant(addresses.lhs), lhs.get(),
          static_cast<const void *>(&factor), constant(added), old.get(),
          pointer(addresses.out), out.get(), &algorithm,
          pointer(addresses.workspace), std::size_t(workspaceBytes),
          library->device.getStream());
      !done)
    return library->device.hasFailed()
               ? done.takeError()
               : done.takeError().withPart(printable(label.op));
  return library->device.note(label);
}

std::string cuda::formatAlgorithm(const lt::Algorithm &algorithm) {
  std::string text;
  for (std::uint64_t word : algorithm)
    for (int shift = 60; shift >= 0; shift -= 4)
      text += "0123456789abcdef"[word >> shift & 15];
  return text;
}

std::optional<lt::Algorithm> cuda::parseAlgorithm(std::string_view text) {
  constexpr std::size_t digits = 16;
  lt::Algorithm algorithm;
  if (text.size() != digits * algorithm.size())
    return std::nullopt;
  for (std::uint64_t &word : algorithm) {
    auto [end, error] =
        std::from_chars(text.data(), text.data() + digits, word, 16);
    if (error != std::errc() || end != text.data() + digits)
      return std::nullopt;
    text.remove_prefix(digits);
  }
  return algorithm;
}
