//===- OneDnnMatmul.cpp - Matmuls with oneDNN -----------------------------===//

#include "Contraction.h"
#include "OneDnn.h"
#include <algorithm>

using namespace binade;
using namespace binade::plan;

#if BINADE_WITH_ONEDNN

namespace {
class OneDnnMatmul : public Operation {
public:
  OneDnnMatmul(DnnPrimitive primitive,
               std::vector<std::pair<int, Address>> operands)
      : primitive(std::move(primitive)), operands(std::move(operands)) {}

  void run(const ExecutionContext &context) override {
    for (auto &[argument, address] : operands)
      if (!bound || !address.isFixed())
        primitive.set(argument, address.at(context.iteration));
    bound = true;
    primitive.execute();
  }
  std::uint64_t getScratchBytes() const override {
    return primitive.getScratchBytes();
  }
  void setScratch(std::byte *scratch) override {
    primitive.set(DNNL_ARG_SCRATCHPAD, scratch);
  }
  std::string getImplementation() const override {
    return "onednn " + primitive.getName();
  }

private:
  DnnPrimitive primitive;
  std::vector<std::pair<int, Address>> operands;
  bool bound = false;
};
} // namespace

/// Returns the layout of a view with axes `sizes`. Batch axes that are
/// broadcast get size 1.
static std::optional<dnnl_memory_desc_t>
describe(const View &view, std::vector<std::int64_t> sizes, DType type) {
  std::optional<dnnl_data_type_t> dnnType = toDnn(type);
  if (!dnnType)
    return std::nullopt;
  std::vector<std::int64_t> strides = view.strides;
  std::int64_t extent = 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (d + 2 < sizes.size() && strides[d] == 0)
      sizes[d] = 1;
    if (sizes[d] > 1)
      extent = std::max(extent, sizes[d] * strides[d]);
  }
  // The stride of an axis of size 1 is meaningless, but some implementations
  // depend on it.
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] == 1)
      strides[d] = d + 1 == sizes.size() ? 1 : extent;
  dnnl_memory_desc_t layout;
  if (OneDnn::get()->memory_desc_init_by_strides(
          &layout, static_cast<int>(sizes.size()), sizes.data(), *dnnType,
          strides.data()) != dnnl_success)
    return std::nullopt;
  return layout;
}

std::unique_ptr<Operation> binade::createOneDnnMatmul(const Matmul &matmul,
                                                      const Memory &memory) {
  const OneDnn *dnn = OneDnn::get();
  if (!dnn || matmul.lhsScale || matmul.rhsScale)
    return nullptr;
  auto layoutOf = [&](const View &view, std::int64_t rows,
                      std::int64_t columns) {
    std::vector<std::int64_t> sizes = matmul.batch;
    sizes.insert(sizes.end(), {rows, columns});
    return describe(view, std::move(sizes), memory.typeOf(view));
  };
  auto lhs = layoutOf(matmul.lhs, matmul.m, matmul.k);
  auto rhs = layoutOf(matmul.rhs, matmul.k, matmul.n);
  auto out = layoutOf(matmul.out, matmul.m, matmul.n);
  if (!lhs || !rhs || !out)
    return nullptr;
  std::optional<dnnl_memory_desc_t> bias;
  if (matmul.bias) {
    View row = *matmul.bias;
    row.strides.insert(row.strides.begin(), matmul.batch.size() + 1, 0);
    std::vector<std::int64_t> sizes(matmul.batch.size() + 1, 1);
    sizes.push_back(matmul.n);
    bias = describe(row, std::move(sizes), memory.typeOf(row));
    if (!bias)
      return nullptr;
  }
  dnnl_matmul_desc_t operation;
  if (dnn->matmul_desc_init(&operation, &*lhs, &*rhs, bias ? &*bias : nullptr,
                            &*out) != dnnl_success)
    return nullptr;
  std::optional<DnnPrimitive> primitive =
      DnnPrimitive::create(&operation, matmul.accumulate);
  if (!primitive)
    return nullptr;
  std::vector<std::pair<int, Address>> operands = {
      {DNNL_ARG_SRC, memory.addressOf(matmul.lhs)},
      {DNNL_ARG_WEIGHTS, memory.addressOf(matmul.rhs)},
      {DNNL_ARG_DST, memory.addressOf(matmul.out)}};
  primitive->add(DNNL_ARG_SRC, *lhs);
  primitive->add(DNNL_ARG_WEIGHTS, *rhs);
  primitive->add(DNNL_ARG_DST, *out);
  if (bias) {
    primitive->add(DNNL_ARG_BIAS, *bias);
    operands.emplace_back(DNNL_ARG_BIAS, memory.addressOf(*matmul.bias));
  }
  primitive->add(DNNL_ARG_SCRATCHPAD,
                 primitive->query(dnnl_query_scratchpad_md));
  return std::make_unique<OneDnnMatmul>(std::move(*primitive),
                                        std::move(operands));
}

#else

std::unique_ptr<Operation> binade::createOneDnnMatmul(const Matmul &,
                                                      const Memory &) {
  return nullptr;
}

#endif // BINADE_WITH_ONEDNN
