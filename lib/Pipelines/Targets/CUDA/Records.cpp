//===- Records.cpp - CUDA kernels for plan records ------------------------===//

#include "Records.h"
#include <functional>
#include <numeric>

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;
using ::binade::Bundle;
using ::binade::Plan;

static GpuMatrix getMatrix(const Plan &plan, const plan::View &view,
                           size_t axes) {
  GpuMatrix matrix;
  matrix.dtype = plan.buffers[view.buffer].dtype;
  matrix.batch.assign(view.strides.begin(), view.strides.begin() + axes);
  matrix.rows = view.strides[axes];
  matrix.columns = view.strides[axes + 1];
  matrix.alignment = plan::findAlignment(plan.buffers, view);
  return matrix;
}

static std::optional<GpuScale> getScale(const std::optional<plan::View> &view) {
  if (!view)
    return std::nullopt;
  if (view->strides.empty())
    return GpuScale();
  return GpuScale{view->strides[0], view->strides[1]};
}

/// Returns the description of a matmul record by which its kernel is compiled;
/// strides and alignments are those of the plan.
static GpuMatmul getProduct(const Plan &plan, const plan::Matmul &matmul) {
  size_t axes = matmul.batch.size();
  GpuMatmul product;
  product.batch = matmul.batch;
  product.m = matmul.m;
  product.n = matmul.n;
  product.k = matmul.k;
  product.lhs = getMatrix(plan, matmul.lhs, axes);
  product.rhs = getMatrix(plan, matmul.rhs, axes);
  product.out = getMatrix(plan, matmul.out, axes);
  if (matmul.bias) {
    GpuMatrix &bias = product.bias.emplace();
    bias.dtype = plan.buffers[matmul.bias->buffer].dtype;
    bias.columns = matmul.bias->strides.front();
  }
  product.accumulate = matmul.accumulate;
  product.lhsScale = getScale(matmul.lhsScale);
  product.rhsScale = getScale(matmul.rhsScale);
  if (matmul.block)
    product.block = {matmul.block->m, matmul.block->n, matmul.block->k};
  product.workspace = matmul.scratch.has_value();
  return product;
}

static GpuConvolution getConvolution(const Plan &plan,
                                     const plan::Convolution &record) {
  auto typeOf = [&](const plan::View &view) {
    return plan.buffers[view.buffer].dtype;
  };
  GpuConvolution c;
  c.direction = static_cast<GpuConvolution::Direction>(record.direction);
  c.x = typeOf(record.x);
  c.weight = typeOf(record.weight);
  c.y = typeOf(record.y);
  if (record.bias)
    c.bias = typeOf(*record.bias);
  c.batch = record.batch;
  c.inChannels = record.inChannels;
  c.outChannels = record.outChannels;
  c.groups = record.groups;
  c.input = record.input;
  c.kernel = record.kernel;
  c.output = record.output;
  c.strides = record.strides;
  c.dilations = record.dilations;
  c.paddingLow = record.paddingLow;
  c.channelsLast = record.channelsLast;
  c.alignment = 16;
  for (const plan::Operand &operand : record.listOperands())
    if (operand.use != plan::Operand::LibraryScratch)
      c.alignment = std::gcd(c.alignment,
                             plan::findAlignment(plan.buffers, operand.view));
  c.workspace = record.scratch.has_value();
  return c;
}

/// Returns a bias, the gradient of one, or a mask.
static GpuAttention::Tensor getBroadcast(const Plan &plan,
                                         const plan::View &view) {
  GpuAttention::Tensor tensor;
  tensor.dtype = plan.buffers[view.buffer].dtype;
  tensor.batch.assign(view.strides.begin(), view.strides.end() - 2);
  tensor.rows = view.strides[view.strides.size() - 2];
  tensor.columns = view.strides.back();
  tensor.alignment = plan::findAlignment(plan.buffers, view);
  return tensor;
}

static GpuAttention::Extras getExtras(const Plan &plan,
                                      const plan::AttentionExtras &extras) {
  GpuAttention::Extras own;
  for (const plan::View &bias : extras.biases)
    own.biases.push_back(getBroadcast(plan, bias));
  if (extras.mask)
    own.mask = getBroadcast(plan, *extras.mask);
  if (extras.dropout)
    own.dropout = {extras.dropout->ratio, extras.dropout->stream};
  own.softcap = extras.softcap;
  own.fill = extras.fill;
  own.zeroHidden = extras.zeroHidden;
  own.zeroNan = extras.zeroNan;
  return own;
}

static GpuAttention getAttention(const Plan &plan,
                                 const plan::Attention &attention) {
  GpuAttention a;
  a.format = plan.buffers[attention.query.buffer].dtype;
  a.batch = attention.batch;
  a.queries = attention.queries;
  a.keys = attention.keys;
  a.depth = attention.depth;
  a.width = attention.width;
  a.scale = attention.scale;
  a.causal = attention.causal;
  a.grouped = attention.grouped;
  a.extras = getExtras(plan, attention.extras);
  size_t axes = attention.batch.size(), count = attention.gradients ? 9 : 5;
  std::vector<plan::Operand> operands = attention.listOperands();
  for (const plan::Operand &tensor : ArrayRef(operands).take_front(count)) {
    const plan::View &view = tensor.view;
    auto rows = view.strides.begin() + axes;
    GpuAttention::Tensor &own = a.tensors.emplace_back();
    own = {plan.buffers[view.buffer].dtype,
           {view.strides.begin(), rows},
           *rows,
           plan::findAlignment(plan.buffers, view)};
    for (size_t axis = 0; axis < axes; ++axis)
      if (tensor.sizes[axis] != attention.batch[axis])
        own.batch[axis] = 0;
  }
  if (attention.gradients)
    for (const auto &[bias, view] : attention.gradients->dbiases)
      a.biasGradients.push_back(
          {static_cast<size_t>(bias), getBroadcast(plan, view)});
  return a;
}

static GpuCopy getCopy(const Plan &plan, const plan::Copy &copy) {
  auto bytes =
      static_cast<int64_t>(byteSize(plan.buffers[copy.from.buffer].dtype));
  return {bytes, copy.sizes, copy.from.strides, copy.to.strides};
}

uint64_t mlir::binade::queryDeviceScratch(const plan::Record &record,
                                          const Plan &plan) {
  if (auto *matmul = std::get_if<plan::Matmul>(&record.body))
    return getWorkspaceBytes(getProduct(plan, *matmul));
  if (auto *convolution = std::get_if<plan::Convolution>(&record.body))
    return getWorkspaceBytes(getConvolution(plan, *convolution));
  if (auto *attention = std::get_if<plan::Attention>(&record.body))
    return getWorkspaceBytes(getAttention(plan, *attention));
  return 0;
}

/// Returns the number of elements that the record writes.
static uint64_t countResults(const plan::Record &record, const Plan &plan) {
  uint64_t count = 0;
  if (auto *matmul = std::get_if<plan::Matmul>(&record.body)) {
    count = matmul->m * matmul->n;
    for (int64_t size : matmul->batch)
      count *= size;
  } else if (std::holds_alternative<plan::Convolution>(record.body)) {
    for (const plan::Operand &operand : plan::listOperands(record)) {
      const plan::Buffer &buffer = plan.buffers[operand.view.buffer];
      if (operand.isWritten())
        count = buffer.bytes / byteSize(buffer.dtype);
    }
  }
  return count;
}

/// Returns the numbers of equal parts into which the runtime can divide
/// `attention`, in ascending order: by samples, then by groups of heads.
static SmallVector<int64_t> listParts(const plan::Attention &attention) {
  SmallVector<int64_t> parts = {1};
  int64_t outer = 1;
  // Heads that share keys and values stay together.
  for (int64_t size : ArrayRef(attention.batch).drop_back(attention.grouped)) {
    for (int64_t part = 2; part <= size; ++part)
      if (size % part == 0)
        parts.push_back(outer * part);
    outer *= size;
  }
  return parts;
}

/// Returns sizes of the workspace for the gradients of attention by cuDNN, in
/// ascending order: those for fewer parts, which take less time, follow. The
/// first is for as many parts as take at most an eighth more time than one, or
/// for more if only their workspace is at most `kMaxBytes`. Returns none if the
/// bundle's kernels, which need no workspace, are as fast.
static std::vector<uint64_t> listGradientBytes(const plan::Attention &attention,
                                               const GpuCosts &costs) {
  constexpr uint64_t kMaxBytes = uint64_t(1152) << 20, kFixed = 1024;
  constexpr double kLonger = 1.125;
  AttentionShape shape{.heads = llvm::product_of(attention.batch),
                       .queries = attention.queries,
                       .keys = attention.keys,
                       .depth = attention.depth,
                       .width = attention.width,
                       .causal = attention.causal,
                       .grouped = attention.grouped};
  uint64_t bytesOfAllHeads = shape.countWorkspaceBytes();
  double byKernels = costs.predictKernelGradients(shape),
         maxSeconds = kLonger * costs.predictLibraryGradients(shape, 1);
  std::vector<uint64_t> sizes;
  for (int64_t parts : listParts(attention)) {
    double seconds = costs.predictLibraryGradients(shape, parts);
    bool isEnough = !sizes.empty() && sizes.front() <= kMaxBytes;
    if (seconds >= byKernels || (isEnough && seconds > maxSeconds))
      break;
    uint64_t bytes = llvm::divideCeil(bytesOfAllHeads, parts) + kFixed;
    sizes.insert(sizes.begin(), bytes);
  }
  if (sizes.empty() || sizes.front() > kMaxBytes)
    return {};
  return sizes;
}

std::vector<uint64_t>
mlir::binade::queryLibraryScratch(const plan::Record &record, const Plan &plan,
                                  const GpuCosts *costs) {
  constexpr uint64_t kForward = 1024, kMax = 32 << 20, kParts = 8;
  auto *attention = std::get_if<plan::Attention>(&record.body);
  if (!attention) {
    uint64_t partial = kParts * sizeof(float) * countResults(record, plan);
    return {std::min(kMax, partial)};
  }
  if (!attention->extras.areNone()) // cuDNN is not asked.
    return {};
  if (!attention->gradients)
    return {kForward};
  return costs ? listGradientBytes(*attention, *costs)
               : std::vector<uint64_t>();
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Lowers the alignments of `kernel` to those of `operands`, so that they hold
/// for all records that share it.
static void lowerAlignments(const Plan &all, ArrayRef<plan::View> operands,
                            plan::DeviceKernel &kernel) {
  for (auto [index, view] : llvm::enumerate(operands)) {
    int64_t alignment = plan::findAlignment(all.buffers, view);
    if (alignment >= kernel.getAlignment(index))
      continue;
    kernel.alignments.resize(operands.size(), plan::kDeviceAlignment);
    kernel.alignments[index] = alignment;
  }
}

/// Compiles a device kernel, called `name` and a number, for each record of
/// type `Body` in the plan, and sets its name in the record. Records with equal
/// descriptions by `describe` share a kernel.
template <typename Body, typename Wanted>
static LogicalResult
compileAll(Location location, const CudaOptions &cuda, Bundle &bundle,
           const AddKernels &add, StringRef name,
           Wanted (*describe)(const Plan &, const Body &),
           FailureOr<CompiledGpuKernels> (*compile)(Location, ArrayRef<Wanted>,
                                                    const CudaOptions &)) {
  Plan &all = bundle.plan;
  std::vector<Wanted> wanted;
  SmallVector<std::pair<plan::Record *, size_t>> users;
  std::function<void(std::vector<plan::Record> &)> collect =
      [&](std::vector<plan::Record> &records) {
        for (plan::Record &record : records) {
          if (auto *loop = std::get_if<plan::Loop>(&record.body))
            collect(loop->body);
          const auto *body = std::get_if<Body>(&record.body);
          if (!body)
            continue;
          Wanted own = describe(all, *body);
          auto known = llvm::find(wanted, own);
          users.push_back({&record, known - wanted.begin()});
          if (known == wanted.end())
            wanted.push_back(std::move(own));
        }
      };
  for (auto *records : all.getLists())
    collect(*records);
  if (wanted.empty())
    return success();
  FailureOr<CompiledGpuKernels> compiled = compile(location, wanted, cuda);
  if (failed(compiled))
    return failure();
  for (auto [index, made] : llvm::enumerate(compiled->kernels))
    made.info.symbol = (name + "_" + Twine(index)).str();
  size_t first = all.deviceKernels.size();
  if (failed(add(*compiled)))
    return failure();
  for (auto [record, index] : users) {
    plan::DeviceKernel &made = all.deviceKernels[first + index];
    *plan::findKernelName(*record) = made.name;
    lowerAlignments(all, plan::listKernelOperands(*record), made);
  }
  return success();
}

LogicalResult mlir::binade::compileDeviceRecords(Location location,
                                                 const CudaOptions &cuda,
                                                 Bundle &bundle,
                                                 const AddKernels &add) {
  auto compile = [&](StringRef name, auto describe, auto compileWanted) {
    return compileAll(location, cuda, bundle, add, name, describe,
                      compileWanted);
  };
  if (failed(compile("product", getProduct, compileGpuMatmuls)) ||
      failed(compile("convolution", getConvolution, compileGpuConvolutions)) ||
      failed(compile("attention", getAttention, compileGpuAttentions)))
    return failure();
  return compile("copy", getCopy, compileGpuCopies);
}
