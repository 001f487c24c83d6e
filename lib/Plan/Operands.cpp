//===- Operands.cpp - Operands of plan records ----------------------------===//
// Validation, costs, device kernels, traces and verification use these lists,
// so that the operands of each kind of records are described only here.
//===----------------------------------------------------------------------===//

#include "binade/Container/ExchangeLayout.h"
#include "binade/Plan/Plan.h"
#include <algorithm>
#include <cmath>

using namespace binade;
using namespace binade::plan;

namespace {
class OperandList {
public:
  /// `batch` is prepended to the sizes of `add`.
  explicit OperandList(std::vector<std::int64_t> batch = {})
      : batch(std::move(batch)) {}

  void add(std::string name, Operand::Use use, const View &view,
           std::initializer_list<std::int64_t> inner) {
    std::vector<std::int64_t> sizes = batch;
    sizes.insert(sizes.end(), inner);
    operands.push_back({std::move(name), use, view, std::move(sizes)});
  }
  /// Adds a tensor whose strides are ignored because it is dense.
  void addDense(std::string name, Operand::Use use, const View &view,
                std::vector<std::int64_t> sizes) {
    operands.push_back({std::move(name), use, view, std::move(sizes), true});
  }
  void addMemory(const std::optional<View> &scratch,
                 const std::optional<View> &libraryScratch) {
    if (scratch)
      operands.push_back({"scratch", Operand::Scratch, *scratch});
    if (libraryScratch)
      operands.push_back(
          {"library_scratch", Operand::LibraryScratch, *libraryScratch});
  }
  /// Adds numbered operands of a kernel, which are only addresses.
  void addAll(std::string_view name, Operand::Use use,
              const std::vector<View> &views) {
    for (std::size_t i = 0; i < views.size(); ++i)
      operands.push_back(
          {std::string(name) + " " + std::to_string(i), use, views[i]});
  }

  std::vector<Operand> operands;

private:
  std::vector<std::int64_t> batch;
};
} // namespace

std::vector<Operand> Launch::listOperands() const {
  OperandList list;
  for (const Segment &segment : segments)
    list.addAll("operand", Operand::Kernel, segment.operands);
  list.addAll("finish operand", Operand::Finish, finishOperands);
  return list.operands;
}

std::vector<Operand> Matmul::listOperands() const {
  OperandList list(batch);
  list.add("lhs", Operand::Read, lhs, {m, k});
  list.add("rhs", Operand::Read, rhs, {k, n});
  list.add("out", Operand::Write, out, {m, n});
  if (bias)
    list.operands.push_back({"bias", Operand::Read, *bias, {n}});
  auto addScale = [&](std::string name, const std::optional<View> &scale,
                      std::vector<std::int64_t> sizes) {
    if (scale)
      list.operands.push_back(
          {std::move(name), Operand::Read, *scale, std::move(sizes), !block});
  };
  addScale("lhs_scale", lhsScale, getLhsScaleSizes());
  addScale("rhs_scale", rhsScale, getRhsScaleSizes());
  list.addMemory(scratch, libraryScratch);
  return list.operands;
}

std::vector<Operand> Convolution::listOperands() const {
  auto shape = [](std::int64_t outer, std::int64_t channels,
                  const std::vector<std::int64_t> &spatial) {
    std::vector<std::int64_t> sizes = {outer, channels};
    sizes.insert(sizes.end(), spatial.begin(), spatial.end());
    return sizes;
  };
  auto use = [&](Direction writer) {
    return direction == writer ? Operand::Write : Operand::Read;
  };
  // Channels-last tensors have the same number of elements.
  OperandList list;
  list.addDense("x", use(InputGrad), x, shape(batch, inChannels, input));
  list.addDense("weight", use(WeightGrad), weight,
                shape(outChannels, inChannels / groups, kernel));
  list.addDense("y", use(Forward), y, shape(batch, outChannels, output));
  if (bias)
    list.addDense("bias", Operand::Read, *bias, {outChannels});
  list.addMemory(scratch, libraryScratch);
  return list.operands;
}

std::vector<std::int64_t> Attention::getKeyBatch() const {
  std::vector<std::int64_t> sizes = batch;
  if (grouped && !sizes.empty())
    sizes.back() = 1;
  return sizes;
}

bool AttentionExtras::areNone() const {
  return biases.empty() && !mask && !dropout && softcap == 0 && !zeroHidden &&
         !zeroNan;
}

bool AttentionExtras::haveExactStatistic() const {
  return biases.empty() && (!mask || std::isinf(fill));
}

std::vector<Operand> Attention::listOperands() const {
  OperandList list(batch);
  auto addOfKeys = [&, own = getKeyBatch()](std::string name, Operand::Use use,
                                            const View &view,
                                            std::int64_t columns) {
    std::vector<std::int64_t> sizes = own;
    sizes.insert(sizes.end(), {keys, columns});
    list.operands.push_back({std::move(name), use, view, std::move(sizes)});
  };
  Operand::Use result = gradients ? Operand::Read : Operand::Write;
  list.add("query", Operand::Read, query, {queries, depth});
  addOfKeys("key", Operand::Read, key, depth);
  addOfKeys("value", Operand::Read, value, width);
  list.add("y", result, y, {queries, width});
  list.add("lse", result, lse, {queries});
  if (gradients) {
    list.add("dy", Operand::Read, gradients->dy, {queries, width});
    list.add("dquery", Operand::Write, gradients->dquery, {queries, depth});
    addOfKeys("dkey", Operand::Write, gradients->dkey, depth);
    addOfKeys("dvalue", Operand::Write, gradients->dvalue, width);
  }
  auto addBroadcast = [&](std::string name, Operand::Use use,
                          const View &view) {
    list.add(std::move(name), use, view, {queries, keys});
    std::vector<std::int64_t> &sizes = list.operands.back().sizes;
    for (std::size_t d = 0; d < std::min(sizes.size(), view.strides.size());
         ++d)
      if (view.strides[d] == 0)
        sizes[d] = 1;
  };
  for (std::size_t i = 0; i < extras.biases.size(); ++i)
    addBroadcast("bias " + std::to_string(i), Operand::Read, extras.biases[i]);
  if (extras.mask)
    addBroadcast("mask", Operand::Read, *extras.mask);
  if (extras.dropout)
    list.operands.push_back(
        {"random state", Operand::Read, extras.dropout->state, {2}});
  if (gradients)
    for (const BiasGradient &dbias : gradients->dbiases)
      addBroadcast("dbias " + std::to_string(dbias.bias), Operand::Write,
                   dbias.view);
  list.addMemory(scratch, libraryScratch);
  return list.operands;
}

std::vector<Operand> Copy::listOperands() const {
  return {{"source", Operand::Read, from, sizes},
          {"destination", Operand::Write, to, sizes}};
}

std::vector<Operand> Loop::listOperands() const {
  std::vector<Operand> operands;
  for (const Record &record : body)
    for (Operand &operand : plan::listOperands(record))
      operands.push_back(std::move(operand));
  return operands;
}

std::vector<Operand> plan::listOperands(const Record &record) {
  return std::visit([](const auto &body) { return body.listOperands(); },
                    record.body);
}

std::vector<Operand> Exchange::listOperands() const {
  OperandList list;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    list.addDense("tensor " + std::to_string(i),
                  action == Add ? Operand::Read : Operand::Write, tensors[i],
                  {elements[i]});
  if (sums)
    list.addDense("sums", Operand::Write, *sums,
                  {ExchangeLayout(elements).getSumSize()});
  if (counter)
    list.addDense("counter", Operand::Write, *counter, {2});
  return list.operands;
}

std::string_view plan::getKind(const Record &record) {
  return std::visit([](const auto &body) { return body.kKind; }, record.body);
}

std::vector<View> plan::listKernelOperands(const Record &record) {
  std::vector<View> views;
  for (Operand &operand : listOperands(record))
    if (operand.use != Operand::LibraryScratch)
      views.push_back(std::move(operand.view));
  // Kernels of gradients read the output gradient first, then the other
  // operand, and write the third.
  if (auto *convolution = std::get_if<Convolution>(&record.body)) {
    if (convolution->direction == Convolution::InputGrad)
      std::swap(views[0], views[2]);
    if (convolution->direction == Convolution::WeightGrad)
      std::rotate(views.begin(), views.begin() + 2, views.begin() + 3);
  }
  return views;
}

//===----------------------------------------------------------------------===//
// Fields that several kinds have
//===----------------------------------------------------------------------===//

/// Returns the field of the record's body that `get` accesses, or null.
template <typename Field, typename Record, typename Get>
static Field *findField(Record &record, Get get) {
  return std::visit(
      [&](auto &body) -> Field * {
        if constexpr (requires { get(body); })
          return &get(body);
        else
          return nullptr;
      },
      record.body);
}

template <typename Field, typename Record>
static Field *findKernelNameOf(Record &record) {
  return findField<Field>(record,
                          [](auto &body) -> decltype((body.deviceKernel)) {
                            return body.deviceKernel;
                          });
}

template <typename Field, typename Record>
static Field *findScratchOf(Record &record) {
  return findField<Field>(record, [](auto &body) -> decltype((body.scratch)) {
    return body.scratch;
  });
}

const std::string *plan::findKernelName(const Record &record) {
  return findKernelNameOf<const std::string>(record);
}
std::string *plan::findKernelName(Record &record) {
  return findKernelNameOf<std::string>(record);
}
const std::optional<View> *plan::findScratch(const Record &record) {
  return findScratchOf<const std::optional<View>>(record);
}
std::optional<View> *plan::findScratch(Record &record) {
  return findScratchOf<std::optional<View>>(record);
}
std::optional<View> *plan::findLibraryScratch(Record &record) {
  return findField<std::optional<View>>(
      record, [](auto &body) -> decltype((body.libraryScratch)) {
        return body.libraryScratch;
      });
}
