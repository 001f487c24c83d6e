//===- OneDnnConvolution.cpp - Convolutions with oneDNN -------------------===//
// Activations keep the layout of the record. oneDNN chooses the layout of the
// weights, which are small and are reordered in scratch memory.
//===----------------------------------------------------------------------===//

#include "Contraction.h"
#include "OneDnn.h"
#include <algorithm>

using namespace binade;
using namespace binade::plan;

#if BINADE_WITH_ONEDNN

namespace {
class OneDnnConvolution : public Operation {
public:
  OneDnnConvolution(DnnPrimitive primitive, int weightArgument,
                    std::optional<DnnPrimitive> reorder, bool reordersResult)
      : primitive(std::move(primitive)), reorder(std::move(reorder)),
        weightArgument(weightArgument), reordersResult(reordersResult) {}

  void add(int argument, Address address) {
    operands.emplace_back(argument, std::move(address));
  }
  void setWeight(Address address) { weight = std::move(address); }

  void run(const ExecutionContext &context) override {
    for (auto &[argument, address] : operands)
      primitive.set(argument, address.at(context.iteration));
    std::byte *own = weight.at(context.iteration);
    if (!reorder) {
      primitive.set(weightArgument, own);
      primitive.execute();
      return;
    }
    reorder->set(reordersResult ? DNNL_ARG_TO : DNNL_ARG_FROM, own);
    if (!reordersResult)
      reorder->execute();
    primitive.execute();
    if (reordersResult)
      reorder->execute();
  }

  std::uint64_t getScratchBytes() const override {
    return reorderedAt() + reorderedBytes();
  }
  void setScratch(std::byte *scratch) override {
    primitive.set(DNNL_ARG_SCRATCHPAD, scratch);
    if (!reorder)
      return;
    reorder->set(DNNL_ARG_SCRATCHPAD, scratch);
    reorder->set(reordersResult ? DNNL_ARG_FROM : DNNL_ARG_TO,
                 scratch + reorderedAt());
    primitive.set(weightArgument, scratch + reorderedAt());
  }
  std::string getImplementation() const override {
    return "onednn " + primitive.getName();
  }

private:
  /// Returns the offset of the reordered weights, after the scratchpad, which
  /// both primitives share because they do not run concurrently.
  std::uint64_t reorderedAt() const {
    std::uint64_t bytes = primitive.getScratchBytes();
    if (reorder)
      bytes = std::max(bytes, reorder->getScratchBytes());
    return (bytes + 63) / 64 * 64;
  }
  std::uint64_t reorderedBytes() const {
    if (!reorder)
      return 0;
    return OneDnn::get()->memory_desc_get_size(&reorder->query(
        reordersResult ? dnnl_query_src_md : dnnl_query_dst_md));
  }

  DnnPrimitive primitive;
  std::optional<DnnPrimitive> reorder;
  int weightArgument;
  bool reordersResult;
  std::vector<std::pair<int, Address>> operands;
  Address weight;
};

/// Layouts and geometry as oneDNN describes them.
struct Description {
  dnnl_memory_desc_t x, y, weight, anyWeight;
  std::optional<dnnl_memory_desc_t> bias;
  dnnl_dims_t strides, dilations, low, high;
};
} // namespace

/// Describes a dense activation with axes N, C, spatial, whose channel axis is
/// the last one in memory or follows N.
static bool describeActivation(dnnl_memory_desc_t &layout, std::int64_t batch,
                               std::int64_t channels,
                               const std::vector<std::int64_t> &spatial,
                               bool channelsLast, DType type) {
  std::vector<std::int64_t> sizes = {batch, channels};
  sizes.insert(sizes.end(), spatial.begin(), spatial.end());
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t stride = 1;
  if (channelsLast) {
    strides[1] = 1;
    stride = channels;
  }
  for (std::size_t d = sizes.size(); d-- > 2; stride *= sizes[d])
    strides[d] = stride;
  if (!channelsLast) {
    strides[1] = stride;
    stride *= channels;
  }
  strides[0] = stride;
  std::optional<dnnl_data_type_t> dnnType = toDnn(type);
  return dnnType && OneDnn::get()->memory_desc_init_by_strides(
                        &layout, static_cast<int>(sizes.size()), sizes.data(),
                        *dnnType, strides.data()) == dnnl_success;
}

static bool describeWeight(Description &d, const Convolution &c, DType type) {
  std::vector<std::int64_t> sizes;
  if (c.groups > 1)
    sizes.push_back(c.groups);
  sizes.insert(sizes.end(),
               {c.outChannels / c.groups, c.inChannels / c.groups});
  sizes.insert(sizes.end(), c.kernel.begin(), c.kernel.end());
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size() - 1; i-- > 0;)
    strides[i] = strides[i + 1] * sizes[i + 1];
  std::optional<dnnl_data_type_t> dnnType = toDnn(type);
  auto rank = static_cast<int>(sizes.size());
  return dnnType &&
         OneDnn::get()->memory_desc_init_by_strides(
             &d.weight, rank, sizes.data(), *dnnType, strides.data()) ==
             dnnl_success &&
         OneDnn::get()->memory_desc_init_by_tag(
             &d.anyWeight, rank, sizes.data(), *dnnType, dnnl_format_tag_any) ==
             dnnl_success;
}

static std::optional<Description> describe(const Convolution &c,
                                           const Memory &memory) {
  Description d;
  if (!describeActivation(d.x, c.batch, c.inChannels, c.input, c.channelsLast,
                          memory.typeOf(c.x)) ||
      !describeActivation(d.y, c.batch, c.outChannels, c.output, c.channelsLast,
                          memory.typeOf(c.y)) ||
      !describeWeight(d, c, memory.typeOf(c.weight)))
    return std::nullopt;
  if (c.bias) {
    std::optional<dnnl_data_type_t> type = toDnn(memory.typeOf(*c.bias));
    std::int64_t one = 1;
    if (!type ||
        OneDnn::get()->memory_desc_init_by_strides(
            &d.bias.emplace(), 1, &c.outChannels, *type, &one) != dnnl_success)
      return std::nullopt;
  }
  for (std::size_t i = 0; i < c.input.size(); ++i) {
    d.strides[i] = c.strides[i];
    d.dilations[i] = c.dilations[i] - 1;
    d.low[i] = c.paddingLow[i];
    d.high[i] = c.paddingHigh[i];
  }
  return d;
}

std::unique_ptr<Operation>
binade::createOneDnnConvolution(const Convolution &c, const Memory &memory) {
  const OneDnn *dnn = OneDnn::get();
  if (!dnn)
    return nullptr;
  std::optional<Description> d = describe(c, memory);
  if (!d)
    return nullptr;
  dnnl_convolution_desc_t operation;
  dnnl_status_t status;
  int x = DNNL_ARG_SRC, y = DNNL_ARG_DIFF_DST, weight = DNNL_ARG_WEIGHTS;
  dnnl_query_t chosenWeight = dnnl_query_weights_md;
  if (c.direction == Convolution::Forward) {
    y = DNNL_ARG_DST;
    status = dnn->dilated_convolution_forward_desc_init(
        &operation, dnnl_forward_training, dnnl_convolution_direct, &d->x,
        &d->anyWeight, d->bias ? &*d->bias : nullptr, &d->y, d->strides,
        d->dilations, d->low, d->high);
  } else if (c.direction == Convolution::InputGrad) {
    x = DNNL_ARG_DIFF_SRC;
    status = dnn->dilated_convolution_backward_data_desc_init(
        &operation, dnnl_convolution_direct, &d->x, &d->anyWeight, &d->y,
        d->strides, d->dilations, d->low, d->high);
  } else {
    weight = DNNL_ARG_DIFF_WEIGHTS;
    chosenWeight = dnnl_query_diff_weights_md;
    status = dnn->dilated_convolution_backward_weights_desc_init(
        &operation, dnnl_convolution_direct, &d->x, &d->anyWeight, nullptr,
        &d->y, d->strides, d->dilations, d->low, d->high);
  }
  if (status != dnnl_success)
    return nullptr;
  std::optional<DnnPrimitive> primitive = DnnPrimitive::create(&operation);
  if (!primitive)
    return nullptr;

  bool writesWeight = c.direction == Convolution::WeightGrad;
  dnnl_memory_desc_t chosen = primitive->query(chosenWeight);
  std::optional<DnnPrimitive> reorder;
  if (!dnn->memory_desc_equal(&chosen, &d->weight)) {
    reorder = writesWeight ? DnnPrimitive::createReorder(chosen, d->weight)
                           : DnnPrimitive::createReorder(d->weight, chosen);
    if (!reorder)
      return nullptr;
  }
  primitive->add(x, d->x);
  primitive->add(y, d->y);
  primitive->add(weight, chosen);
  if (d->bias)
    primitive->add(DNNL_ARG_BIAS, *d->bias);
  primitive->add(DNNL_ARG_SCRATCHPAD,
                 primitive->query(dnnl_query_scratchpad_md));
  auto made = std::make_unique<OneDnnConvolution>(
      std::move(*primitive), weight, std::move(reorder), writesWeight);
  made->add(x, memory.addressOf(c.x));
  made->add(y, memory.addressOf(c.y));
  if (c.bias)
    made->add(DNNL_ARG_BIAS, memory.addressOf(*c.bias));
  made->setWeight(memory.addressOf(c.weight));
  return made;
}

#else

std::unique_ptr<Operation> binade::createOneDnnConvolution(const Convolution &,
                                                           const Memory &) {
  return nullptr;
}

#endif // BINADE_WITH_ONEDNN
