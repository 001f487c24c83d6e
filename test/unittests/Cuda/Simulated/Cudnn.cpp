//===- Cudnn.cpp - Simulated cuDNN ----------------------------------------===//
// Convolutions whose tensors have one type, summed in f64 and rounded once.
//===----------------------------------------------------------------------===//

#include "CudnnGraph.h"
#include "Formats.h"
#include <algorithm>
#include <array>
#include <type_traits>

using namespace binade::cuda::cudnn;
using simulated::findMemory;
namespace lt = binade::cuda::lt;

namespace binade::cuda::cudnn {
/// `format` determines the strides.
struct TensorDesc {
  int format = 0, type = 0;
  std::vector<int> sizes;
};
struct FilterDesc : TensorDesc {};
struct ConvolutionDesc {
  std::vector<int> padding, strides, dilations;
  int groups = 1, math = 0;
};
} // namespace binade::cuda::cudnn

static int toCuda(int type) {
  switch (type) {
  case type::F16:
    return lt::type::F16;
  case type::BF16:
    return lt::type::BF16;
  default:
    return lt::type::F32;
  }
}

namespace {
/// A tensor in device memory. Its indices are batch, channel, spatial axes.
struct Array {
  TensorDesc desc;
  Address address;

  std::size_t countElements() const {
    std::size_t count = 1;
    for (int size : desc.sizes)
      count *= static_cast<std::size_t>(size);
    return count;
  }
  std::size_t getBytes() const {
    return static_cast<std::size_t>(simulated::getByteSize(toCuda(desc.type)));
  }
  bool isThere() const {
    return findMemory(address, countElements() * getBytes());
  }
  char *find(const std::vector<int> &place) const {
    std::vector<std::size_t> order(place.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    if (desc.format == format::ChannelsLast)
      std::rotate(order.begin() + 1, order.begin() + 2, order.end());
    std::size_t at = 0;
    for (std::size_t axis : order)
      at = at * static_cast<std::size_t>(desc.sizes[axis]) +
           static_cast<std::size_t>(place[axis]);
    return findMemory(address + at * getBytes(), getBytes());
  }
  double get(const std::vector<int> &place) const {
    return simulated::decode(toCuda(desc.type), find(place));
  }
  void set(const std::vector<int> &place, double value) const {
    simulated::encode(toCuda(desc.type), value, find(place));
  }
};

/// Calls `visit` with all indices of a tensor of `sizes`.
template <typename Visit>
void forEach(const std::vector<int> &sizes, Visit visit) {
  std::vector<int> place(sizes.size(), 0);
  for (;;) {
    visit(place);
    std::size_t axis = sizes.size();
    while (axis-- > 0 && ++place[axis] == sizes[axis])
      place[axis] = 0;
    if (axis == static_cast<std::size_t>(-1))
      return;
  }
}

struct Operation {
  ConvolutionDesc desc;
  Array x, weight, y;
};

/// Calls `visit(x, weight, y)` with the indices of each multiply-add.
template <typename Visit> void forEachProduct(const Operation &o, Visit visit) {
  int inputs = o.weight.desc.sizes[1],
      outputs = o.weight.desc.sizes[0] / o.desc.groups;
  forEach(o.y.desc.sizes, [&](const std::vector<int> &y) {
    std::vector<int> window = o.weight.desc.sizes;
    window[0] = 1;
    forEach(window, [&](std::vector<int> weight) {
      weight[0] = y[1];
      std::vector<int> x = {y[0], y[1] / outputs * inputs + weight[1]};
      for (std::size_t d = 0; d < o.desc.strides.size(); ++d) {
        int at = y[d + 2] * o.desc.strides[d] +
                 weight[d + 2] * o.desc.dilations[d] - o.desc.padding[d];
        if (at < 0 || at >= o.x.desc.sizes[d + 2])
          return;
        x.push_back(at);
      }
      visit(x, weight, y);
    });
  });
}
} // namespace

static bool isPossible(const TensorDesc &x, const TensorDesc &weight,
                       const ConvolutionDesc &desc, const TensorDesc &y) {
  if (x.type != weight.type || x.type != y.type || x.format != y.format ||
      weight.format != format::ChannelsFirst ||
      weight.sizes[1] * desc.groups != x.sizes[1] ||
      weight.sizes[0] != y.sizes[1] || x.sizes[0] != y.sizes[0])
    return false;
  for (std::size_t d = 0; d < desc.strides.size(); ++d) {
    int window = (weight.sizes[d + 2] - 1) * desc.dilations[d] + 1;
    if ((x.sizes[d + 2] + 2 * desc.padding[d] - window) / desc.strides[d] + 1 !=
        y.sizes[d + 2])
      return false;
  }
  return true;
}

/// The workspace that the simulated algorithms need, in bytes.
static constexpr std::size_t kWorkspace = 512;
/// The only algorithm that may be chosen, in all directions.
static constexpr int kChosen = 1;

/// Lists a transform, a nondeterministic algorithm, an unsupported algorithm
/// and last the algorithm to choose.
static int list(const TensorDesc *x, const FilterDesc *weight,
                const ConvolutionDesc *desc, const TensorDesc *y, int wanted,
                int *count, AlgorithmResult *results, int transform) {
  if (!isPossible(*x, *weight, *desc, *y))
    return status::NotSupported;
  auto make = [&](int algorithm, int status, int determinism) {
    return AlgorithmResult{algorithm,   status,     1, 0,
                           determinism, desc->math, {}};
  };
  const AlgorithmResult all[] = {
      make(transform, status::Success, 1), make(0, status::Success, 0),
      make(0, status::NotSupported, 1), make(kChosen, status::Success, 1)};
  *count = std::min(wanted, static_cast<int>(std::size(all)));
  std::copy_n(all, *count, results);
  return status::Success;
}

/// Supports f32 only with FMA, which does not round the operands.
static int measure(const TensorDesc *x, const FilterDesc *weight,
                   const ConvolutionDesc *desc, const TensorDesc *y,
                   std::size_t *bytes) {
  if (!isPossible(*x, *weight, *desc, *y) ||
      (x->type == type::F32 && desc->math != math::Fma))
    return status::NotSupported;
  *bytes = kWorkspace;
  return status::Success;
}

/// Puts a convolution on the stream; `add` accumulates one multiply-add.
template <typename Add>
static int enqueue(Handle *handle, Operation operation, Array out,
                   int algorithm, void *workspace, std::size_t bytes, Add add) {
  if (algorithm != kChosen || bytes < kWorkspace ||
      !isPossible(operation.x.desc, operation.weight.desc, operation.desc,
                  operation.y.desc) ||
      !findMemory(reinterpret_cast<Address>(workspace), bytes))
    return status::BadParam;
  simulated::enqueue(handle->stream, [=] {
    for (const Array *array : {&operation.x, &operation.weight, &operation.y})
      if (!array->isThere())
        return int(simulated::status::IllegalAddress);
    std::map<std::vector<int>, double> sums;
    forEach(out.desc.sizes,
            [&](const std::vector<int> &place) { sums[place] = 0; });
    forEachProduct(operation, [&](const auto &x, const auto &w, const auto &y) {
      add(sums, operation, x, w, y);
    });
    for (const auto &[place, sum] : sums)
      out.set(place, sum);
    return int(simulated::status::Success);
  });
  return status::Success;
}

static Array at(const TensorDesc *desc, const void *pointer) {
  return {*desc, reinterpret_cast<Address>(pointer)};
}

template <typename T> static int make(T **made) {
  *made = new T();
  return status::Success;
}
template <typename T> static int remove(T *made) {
  delete made;
  return status::Success;
}
static int describe(TensorDesc *desc, int format, int type, int axes,
                    const int *sizes) {
  if (axes < 4)
    return status::BadParam;
  *desc = {format, type, std::vector<int>(sizes, sizes + axes)};
  return status::Success;
}

static constexpr int kWinograd = 6, kGradientTransform = 2;

extern "C" {

std::size_t cudnnGetVersion() { return simulated::getSetting("cudnn", 92400); }
const char *cudnnGetErrorString(int code) {
  return code == status::NotSupported ? "CUDNN_STATUS_NOT_SUPPORTED"
                                      : "CUDNN_STATUS of another kind";
}
int cudnnCreate(Handle **handle) { return make(handle); }
int cudnnDestroy(Handle *handle) { return remove(handle); }
int cudnnSetStream(Handle *handle, CUstream_st *stream) {
  handle->stream = stream;
  return status::Success;
}
int cudnnCreateTensorDescriptor(TensorDesc **made) { return make(made); }
int cudnnDestroyTensorDescriptor(TensorDesc *made) { return remove(made); }
int cudnnSetTensorNdDescriptorEx(TensorDesc *desc, int format, int type,
                                 int axes, const int *sizes) {
  return describe(desc, format, type, axes, sizes);
}
int cudnnCreateFilterDescriptor(FilterDesc **made) { return make(made); }
int cudnnDestroyFilterDescriptor(FilterDesc *made) { return remove(made); }
int cudnnSetFilterNdDescriptor(FilterDesc *desc, int type, int format, int axes,
                               const int *sizes) {
  return describe(desc, format, type, axes, sizes);
}
int cudnnCreateConvolutionDescriptor(ConvolutionDesc **made) {
  return make(made);
}
int cudnnDestroyConvolutionDescriptor(ConvolutionDesc *made) {
  return remove(made);
}
int cudnnSetConvolutionNdDescriptor(ConvolutionDesc *desc, int axes,
                                    const int *padding, const int *strides,
                                    const int *dilations, int mode, int type) {
  if (axes < 2 || mode != kCrossCorrelation || type != type::F32)
    return status::BadParam;
  desc->padding.assign(padding, padding + axes);
  desc->strides.assign(strides, strides + axes);
  desc->dilations.assign(dilations, dilations + axes);
  return status::Success;
}
int cudnnSetConvolutionGroupCount(ConvolutionDesc *desc, int groups) {
  desc->groups = groups;
  return status::Success;
}
int cudnnSetConvolutionMathType(ConvolutionDesc *desc, int math) {
  desc->math = math;
  return status::Success;
}

int cudnnGetConvolutionForwardAlgorithm_v7(Handle *, TensorDesc *x,
                                           FilterDesc *weight,
                                           ConvolutionDesc *desc, TensorDesc *y,
                                           int wanted, int *count,
                                           AlgorithmResult *results) {
  return list(x, weight, desc, y, wanted, count, results, kWinograd);
}
int cudnnGetConvolutionBackwardDataAlgorithm_v7(
    Handle *, FilterDesc *weight, TensorDesc *y, ConvolutionDesc *desc,
    TensorDesc *x, int wanted, int *count, AlgorithmResult *results) {
  return list(x, weight, desc, y, wanted, count, results, kGradientTransform);
}
int cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    Handle *, TensorDesc *x, TensorDesc *y, ConvolutionDesc *desc,
    FilterDesc *weight, int wanted, int *count, AlgorithmResult *results) {
  return list(x, weight, desc, y, wanted, count, results, kGradientTransform);
}

int cudnnGetConvolutionForwardWorkspaceSize(Handle *, TensorDesc *x,
                                            FilterDesc *weight,
                                            ConvolutionDesc *desc,
                                            TensorDesc *y, int,
                                            std::size_t *bytes) {
  return measure(x, weight, desc, y, bytes);
}
int cudnnGetConvolutionBackwardDataWorkspaceSize(Handle *, FilterDesc *weight,
                                                 TensorDesc *y,
                                                 ConvolutionDesc *desc,
                                                 TensorDesc *x, int algorithm,
                                                 std::size_t *bytes) {
  return measure(x, weight, desc, y, bytes);
}
int cudnnGetConvolutionBackwardFilterWorkspaceSize(Handle *, TensorDesc *x,
                                                   TensorDesc *y,
                                                   ConvolutionDesc *desc,
                                                   FilterDesc *weight, int,
                                                   std::size_t *bytes) {
  return measure(x, weight, desc, y, bytes);
}

int cudnnConvolutionForward(Handle *handle, const void *, TensorDesc *dx,
                            const void *x, FilterDesc *dw, const void *w,
                            ConvolutionDesc *desc, int algorithm,
                            void *workspace, std::size_t bytes, const void *,
                            TensorDesc *dy, void *y) {
  return enqueue(
      handle, {*desc, at(dx, x), at(dw, w), at(dy, y)}, at(dy, y), algorithm,
      workspace, bytes,
      [](auto &sums, const Operation &o, const auto &x, const auto &w,
         const auto &y) { sums[y] += o.x.get(x) * o.weight.get(w); });
}
int cudnnConvolutionBackwardData(Handle *handle, const void *, FilterDesc *dw,
                                 const void *w, TensorDesc *dy, const void *y,
                                 ConvolutionDesc *desc, int algorithm,
                                 void *workspace, std::size_t bytes,
                                 const void *, TensorDesc *dx, void *x) {
  return enqueue(
      handle, {*desc, at(dx, x), at(dw, w), at(dy, y)}, at(dx, x), algorithm,
      workspace, bytes,
      [](auto &sums, const Operation &o, const auto &x, const auto &w,
         const auto &y) { sums[x] += o.y.get(y) * o.weight.get(w); });
}
int cudnnConvolutionBackwardFilter(Handle *handle, const void *, TensorDesc *dx,
                                   const void *x, TensorDesc *dy, const void *y,
                                   ConvolutionDesc *desc, int algorithm,
                                   void *workspace, std::size_t bytes,
                                   const void *, FilterDesc *dw, void *w) {
  return enqueue(handle, {*desc, at(dx, x), at(dw, w), at(dy, y)}, at(dw, w),
                 algorithm, workspace, bytes,
                 [](auto &sums, const Operation &o, const auto &x,
                    const auto &w,
                    const auto &y) { sums[w] += o.x.get(x) * o.y.get(y); });
}

/// y += bias, with one value for each channel.
int cudnnAddTensor(Handle *handle, const void *, TensorDesc *db,
                   const void *bias, const void *, TensorDesc *dy, void *y) {
  Array from = at(db, bias), to = at(dy, y);
  if (from.desc.type != to.desc.type ||
      from.desc.sizes[1] != to.desc.sizes[1] ||
      from.countElements() != static_cast<std::size_t>(to.desc.sizes[1]))
    return status::NotSupported;
  simulated::enqueue(handle->stream, [=] {
    if (!from.isThere() || !to.isThere())
      return int(simulated::status::IllegalAddress);
    forEach(to.desc.sizes, [&](const std::vector<int> &place) {
      std::vector<int> channel(place.size(), 0);
      channel[1] = place[1];
      to.set(place, to.get(place) + from.get(channel));
    });
    return int(simulated::status::Success);
  });
  return status::Success;
}

} // extern "C"

// Checks that every function the runtime loads exists with its parameters.
#define CHECK(NAME, SYMBOL, PARAMETERS)                                        \
  static_assert(std::is_same_v<decltype(&SYMBOL), int(*) PARAMETERS>);
BINADE_CUDNN_FUNCTIONS(CHECK)
#undef CHECK
