//===- StreamConvolution.cpp - Convolutions on a stream -------------------===//

#include "CudnnConvolution.h"
#include "StreamOperation.h"

namespace binade::cuda {

namespace {
class ConvolutionOnStream : public StreamOperation {
public:
  ConvolutionOnStream(CudnnConvolution convolution,
                      const plan::Convolution &record, const StreamSetup &setup,
                      LibraryScratch scratch, std::string_view label)
      : convolution(std::move(convolution)), label(label),
        x(setup.memory.addressOf(record.x)),
        weight(setup.memory.addressOf(record.weight)),
        y(setup.memory.addressOf(record.y)), scratch(std::move(scratch)) {
    if (record.bias)
      bias = setup.memory.addressOf(*record.bias);
  }

  Result<void> run(std::span<const std::int64_t> iteration) override {
    ConvolutionAddresses addresses;
    addresses.x = toDevice(x.at(iteration));
    addresses.weight = toDevice(weight.at(iteration));
    addresses.y = toDevice(y.at(iteration));
    if (bias)
      addresses.bias = toDevice(bias->at(iteration));
    addresses.workspace = scratch.at(iteration);
    return convolution.run(addresses, {"convolution", label});
  }

  std::string getImplementation() const override {
    return convolution.describe();
  }

private:
  CudnnConvolution convolution;
  std::string_view label;
  binade::Address x, weight, y;
  std::optional<binade::Address> bias;
  LibraryScratch scratch;
};

MadeOperation createLibraryConvolution(const plan::Record &record,
                                       const StreamSetup &setup) {
  const auto &convolution = std::get<plan::Convolution>(record.body);
  ConvolutionProblem problem;
  problem.record = &convolution;
  problem.x = setup.memory.typeOf(convolution.x);
  problem.weight = setup.memory.typeOf(convolution.weight);
  problem.y = setup.memory.typeOf(convolution.y);
  if (convolution.bias)
    problem.bias = setup.memory.typeOf(*convolution.bias);
  LibraryScratch scratch(convolution.libraryScratch, setup);
  auto made = CudnnConvolution::create(setup.cudnn, problem, scratch.bytes);
  if (!made)
    return made.takeError();
  return std::unique_ptr<StreamOperation>(std::make_unique<ConvolutionOnStream>(
      *std::move(made), convolution, setup, std::move(scratch), record.label));
}
} // namespace

MadeOperation createConvolution(const plan::Record &record,
                                const StreamSetup &setup) {
  if (!setup.cudnn)
    return createKernels(record, setup);
  return fallBackToKernels(
      createLibraryConvolution(record, setup), record,
      std::get<plan::Convolution>(record.body).deviceKernel, setup);
}
} // namespace binade::cuda
