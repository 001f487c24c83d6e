//===- CudnnConvolution.cpp - Convolutions with cuDNN ---------------------===//

#include "CudnnConvolution.h"
#include <algorithm>
#include <climits>

using namespace binade;
using namespace binade::cuda;
using plan::Convolution;

/// Returns cuDNN's constant for a type; nothing if it is not supported.
static std::optional<int> toCudnnType(DType type) {
  switch (type) {
  case DType::F32:
    return cudnn::type::F32;
  case DType::F16:
    return cudnn::type::F16;
  case DType::BF16:
    return cudnn::type::BF16;
  default:
    return std::nullopt;
  }
}

/// Returns the math type of a convolution; f32 is never rounded to TF32.
static int getMath(DType type) {
  return type == DType::F32 ? cudnn::math::Fma : cudnn::math::TensorOp;
}

static Error refuse(const Cudnn &library, std::string what) {
  return {"cuda",
          "cuDNN " + library.formatVersion() + " supports no convolution " +
              std::move(what),
          ExitCode::Device};
}

namespace {
/// Sizes as cuDNN expects them, with at least two spatial axes.
struct Sizes {
  std::vector<int> x, weight, y, bias;
  std::vector<int> padding, strides, dilations;

  /// Returns nothing if a size is too large for cuDNN.
  static std::optional<Sizes> of(const Convolution &c);
};
} // namespace

std::optional<Sizes> Sizes::of(const Convolution &c) {
  bool areSmall = true;
  auto take = [&](std::initializer_list<std::int64_t> first,
                  const std::vector<std::int64_t> &spatial, int missing) {
    std::vector<int> all;
    auto add = [&](std::int64_t size) {
      areSmall &= size <= INT_MAX;
      all.push_back(static_cast<int>(size));
    };
    std::for_each(first.begin(), first.end(), add);
    std::for_each(spatial.begin(), spatial.end(), add);
    if (spatial.size() == 1)
      all.push_back(missing);
    return all;
  };
  Sizes sizes;
  sizes.x = take({c.batch, c.inChannels}, c.input, 1);
  sizes.y = take({c.batch, c.outChannels}, c.output, 1);
  sizes.weight = take({c.outChannels, c.inChannels / c.groups}, c.kernel, 1);
  sizes.bias = take({1, c.outChannels},
                    std::vector<std::int64_t>(c.output.size(), 1), 1);
  sizes.padding = take({}, c.paddingLow, 0);
  sizes.strides = take({}, c.strides, 1);
  sizes.dilations = take({}, c.dilations, 1);
  return areSmall && c.groups <= INT_MAX ? std::optional(sizes) : std::nullopt;
}

/// Whether the output has the size that cuDNN computes, which uses the low
/// padding at both ends.
static bool fitsPadding(const Convolution &c) {
  for (std::size_t d = 0; d < c.input.size(); ++d) {
    std::int64_t window = (c.kernel[d] - 1) * c.dilations[d] + 1;
    if ((c.input[d] + 2 * c.paddingLow[d] - window) / c.strides[d] + 1 !=
        c.output[d])
      return false;
  }
  return true;
}

Result<void>
CudnnConvolution::describeTensor(Released<cudnn::TensorDesc> &tensor, int type,
                                 int format, const std::vector<int> &sizes) {
  const cudnn::Table &functions = library->functions;
  cudnn::TensorDesc *made = nullptr;
  if (auto done = library->call(functions.tensorCreate, &made); !done)
    return done;
  tensor = {made, functions.tensorDestroy.address};
  return library->call(functions.tensorSet, made, format, type,
                       static_cast<int>(sizes.size()), sizes.data());
}

Result<void>
CudnnConvolution::describeProblem(const ConvolutionProblem &problem) {
  const cudnn::Table &functions = library->functions;
  const Convolution &c = *problem.record;
  std::optional<int> type = toCudnnType(problem.x);
  if (!type || problem.weight != problem.x || problem.y != problem.x)
    return refuse(*library, "of " + std::string(name(problem.x)) + ", " +
                                std::string(name(problem.weight)) + " and " +
                                std::string(name(problem.y)));
  // A 16-bit result would be rounded before the bias is added.
  if (c.bias && (problem.y != DType::F32 || problem.bias != DType::F32))
    return refuse(*library, "with a bias that is rounded only once");
  if (!fitsPadding(c))
    return refuse(*library, "with other padding at the end");
  std::optional<Sizes> sizes = Sizes::of(c);
  if (!sizes)
    return refuse(*library, "with sizes above 2^31 - 1");
  int format = c.channelsLast ? cudnn::format::ChannelsLast
                              : cudnn::format::ChannelsFirst;
  if (auto done = describeTensor(x, *type, format, sizes->x); !done)
    return done;
  if (auto done = describeTensor(y, *type, format, sizes->y); !done)
    return done;
  if (c.bias)
    if (auto done = describeTensor(bias, *type, format, sizes->bias); !done)
      return done;
  cudnn::FilterDesc *filter = nullptr;
  if (auto done = library->call(functions.filterCreate, &filter); !done)
    return done;
  weight = {filter, functions.filterDestroy.address};
  // Filters are always channels-first, whatever the layout of activations is.
  if (auto done = library->call(
          functions.filterSet, filter, *type, int(cudnn::format::ChannelsFirst),
          static_cast<int>(sizes->weight.size()), sizes->weight.data());
      !done)
    return done;
  cudnn::ConvolutionDesc *made = nullptr;
  if (auto done = library->call(functions.convolutionCreate, &made); !done)
    return done;
  convolution = {made, functions.convolutionDestroy.address};
  if (auto done = library->call(
          functions.convolutionSet, made,
          static_cast<int>(sizes->padding.size()), sizes->padding.data(),
          sizes->strides.data(), sizes->dilations.data(),
          cudnn::kCrossCorrelation, int(cudnn::type::F32));
      !done)
    return done;
  if (auto done =
          library->call(functions.setGroups, made, static_cast<int>(c.groups));
      !done)
    return done;
  return library->call(functions.setMath, made, getMath(problem.x));
}

Result<std::vector<cudnn::AlgorithmResult>> CudnnConvolution::list() const {
  constexpr int kMax = 16;
  const cudnn::Table &functions = library->functions;
  std::vector<cudnn::AlgorithmResult> results(kMax);
  int count = 0;
  auto call = [&](const auto &function, auto *one, auto *other, auto *result) {
    return library->call(function, library->handle, one, other,
                         convolution.get(), result, kMax, &count,
                         results.data());
  };
  Result<void> done =
      direction == Convolution::Forward
          ? call(functions.listForward, x.get(), weight.get(), y.get())
      : direction == Convolution::InputGrad
          ? call(functions.listInputGrad, weight.get(), y.get(), x.get())
          : call(functions.listWeightGrad, x.get(), y.get(), weight.get());
  if (!done)
    return done.takeError();
  results.resize(static_cast<std::size_t>(count));
  return results;
}

Result<std::uint64_t> CudnnConvolution::measure(int candidate) const {
  const cudnn::Table &functions = library->functions;
  std::size_t bytes = 0;
  auto call = [&](const auto &function, auto *one, auto *other, auto *result) {
    return library->call(function, library->handle, one, other,
                         convolution.get(), result, candidate, &bytes);
  };
  Result<void> done =
      direction == Convolution::Forward
          ? call(functions.sizeForward, x.get(), weight.get(), y.get())
      : direction == Convolution::InputGrad
          ? call(functions.sizeInputGrad, weight.get(), y.get(), x.get())
          : call(functions.sizeWeightGrad, x.get(), y.get(), weight.get());
  if (!done)
    return done.takeError();
  return bytes;
}

/// Chooses the first suitable algorithm of the library's list, which starts
/// with the fastest.
Result<void> CudnnConvolution::choose(DType type,
                                      std::uint64_t workspaceLimit) {
  Result<std::vector<cudnn::AlgorithmResult>> results = list();
  if (!results)
    return results.takeError();
  int last = direction == Convolution::Forward ? cudnn::kLastForward
                                               : cudnn::kLastGradient;
  for (const cudnn::AlgorithmResult &result : *results) {
    if (result.status != cudnn::status::Success || result.algorithm > last ||
        result.determinism != cudnn::kDeterministic)
      continue;
    // Each algorithm is listed with its math type; f32 keeps its own.
    int math = type == DType::F32 ? getMath(type) : result.mathType;
    if (auto done =
            library->call(library->functions.setMath, convolution.get(), math);
        !done)
      return done;
    Result<std::uint64_t> bytes = measure(result.algorithm);
    if (!bytes || *bytes > workspaceLimit)
      continue;
    algorithm = result.algorithm;
    workspaceBytes = *bytes;
    return {};
  }
  return refuse(*library, "of this shape with a deterministic algorithm "
                          "without transforms");
}

Result<CudnnConvolution>
CudnnConvolution::create(std::shared_ptr<Cudnn> library,
                         const ConvolutionProblem &problem,
                         std::uint64_t workspaceLimit) {
  CudnnConvolution convolution(std::move(library), problem.record->direction);
  if (auto done = convolution.describeProblem(problem); !done)
    return done.takeError();
  if (auto done = convolution.choose(problem.x, workspaceLimit); !done)
    return done.takeError();
  return convolution;
}

std::string CudnnConvolution::describe() const {
  return "cudnn " + library->formatVersion() + " algorithm " +
         std::to_string(algorithm);
}

Result<void> CudnnConvolution::run(const ConvolutionAddresses &addresses,
                                   const Label &label) const {
  const cudnn::Table &functions = library->functions;
  auto pointer = [](Address address) {
    return reinterpret_cast<void *>(address);
  };
  auto constant = [&](Address address) -> const void * {
    return pointer(address);
  };
  const float one = 1, zero = 0;
  const void *alpha = &one, *beta = &zero;
  auto call = [&](const auto &function, auto *leftDesc, Address left,
                  auto *rightDesc, Address right, auto *outDesc, Address out) {
    return library->call(
        function, library->handle, alpha, leftDesc, constant(left), rightDesc,
        constant(right), convolution.get(), algorithm,
        pointer(addresses.workspace), std::size_t(workspaceBytes), beta,
        outDesc, pointer(out));
  };
  const auto &[xAt, weightAt, yAt, biasAt, workspace] = addresses;
  Result<void> done = direction == Convolution::Forward
                          ? call(functions.forward, x.get(), xAt, weight.get(),
                                 weightAt, y.get(), yAt)
                      : direction == Convolution::InputGrad
                          ? call(functions.inputGrad, weight.get(), weightAt,
                                 y.get(), yAt, x.get(), xAt)
                          : call(functions.weightGrad, x.get(), xAt, y.get(),
                                 yAt, weight.get(), weightAt);
  if (done && bias)
    done = library->call(functions.add, library->handle, alpha, bias.get(),
                         constant(biasAt), alpha, y.get(), pointer(yAt));
  if (!done)
    return library->device.hasFailed()
               ? done.takeError()
               : done.takeError().withPart(printable(label.op));
  return library->device.note(label);
}
