//===- ValidateRecords.cpp - Validation of plan records -------------------===//
// Checks that every view stays in its buffer in every iteration, and that
// copies, matmuls and convolutions of concurrent iterations write disjoint
// elements. Accesses by kernels cannot be checked here.
//===----------------------------------------------------------------------===//

#include "ParallelWrites.h"
#include "Validate.h"
#include "ViewBounds.h"
#include "binade/Container/Printable.h"
#include <algorithm>
#include <array>
#include <map>
#include <string_view>

using namespace binade;
using namespace binade::plan;

namespace {
class RecordValidator {
public:
  RecordValidator(const Plan &plan, std::string_view where)
      : plan(plan), where(where) {}

  Result<void> checkRecords(const std::vector<Record> &records,
                            const std::string &prefix);

private:
  Error fail(std::string message) const {
    return Error{where, std::move(message), ExitCode::Rejected, part};
  }
  Result<void> check(const Loop &loop, const std::string &place);
  Result<void> check(const Launch &launch);
  /// Checks that the device kernels of a launch are one kernel for a single
  /// segment, or multi-tensor kernels, whose arguments are in a table.
  Result<void> checkLaunched(const Launch &launch);
  /// Checks the device kernel of a record other than a launch.
  Result<void> checkKernel(const std::string &name);
  Result<void> check(const Matmul &matmul);
  Result<void> checkBlock(const Matmul &matmul);
  Result<void> checkAccumulation(const Matmul &matmul);
  Result<void> checkTypes(const Matmul &matmul);
  Result<void> check(const Convolution &convolution);
  Result<void> checkGeometry(const Convolution &convolution);
  Result<void> check(const Attention &attention);
  /// Checks a tensor of attention; `multiplied` is the type of operands.
  Result<void> check(const Operand &operand, DType multiplied);
  Result<void> check(const Copy &copy);
  Result<void> check(const Exchange &exchange);
  /// Checks that operands stay in their buffers, and that parallel iterations
  /// write disjoint elements.
  Result<void> checkOperands(const std::vector<Operand> &operands);

  /// Checks a view as an address or, with `sizes`, as elements at `strides`.
  Result<void> checkView(const View &view, std::string_view what,
                         std::span<const std::int64_t> strides = {},
                         std::span<const std::int64_t> sizes = {});
  /// Checks that the number of elements does not overflow, even if strides are
  /// 0.
  Result<void> checkWork(std::span<const std::int64_t> sizes);
  Result<void> checkStrided(const View &view, std::string_view what,
                            std::span<const std::int64_t> sizes);
  /// Checks that each element of a strided view is written only once.
  Result<void> checkWritten(const View &view, std::string_view what,
                            std::span<const std::int64_t> sizes);
  /// Checks that a written view is disjoint in all iterations of the parallel
  /// loop.
  Result<void> checkDisjoint(const View &view, std::string_view what,
                             std::span<const std::int64_t> strides,
                             std::span<const std::int64_t> sizes);
  Result<void> checkDense(const View &view, std::string_view what,
                          std::span<const std::int64_t> sizes);
  DType typeOf(const View &view) const {
    return plan.buffers[view.buffer].dtype;
  }

  const Plan &plan;
  std::string where;
  std::string part;
  std::vector<std::int64_t> loops; ///< Counts of the loops around a record.
  struct Parallel {
    std::size_t depth;
    std::int64_t slots;
    ParallelWrites writes;
  };
  std::optional<Parallel> parallel; ///< The parallel loop among these.
};
} // namespace

Result<void> RecordValidator::checkRecords(const std::vector<Record> &records,
                                           const std::string &prefix) {
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Record &record = records[i];
    std::string place = prefix + std::to_string(i);
    part = place + " " + quote(record.label);
    if (auto *loop = std::get_if<Loop>(&record.body)) {
      BINADE_CHECK(check(*loop, place));
      continue;
    }
    BINADE_CHECK(std::visit(
        [&](const auto &body) -> Result<void> {
          if constexpr (requires { check(body); })
            return check(body);
          else
            return checkOperands(body.listOperands());
        },
        record.body));
    if (const std::string *kernel = findKernelName(record))
      BINADE_CHECK(checkKernel(*kernel));
  }
  return {};
}

Result<void> RecordValidator::check(const Loop &loop,
                                    const std::string &place) {
  if (loop.count < 1 || loop.count > (std::int64_t(1) << 31))
    return fail("a loop of " + std::to_string(loop.count) + " iterations");
  if (loops.size() == kMaxLoopDepth)
    return fail("loops nested deeper than " + std::to_string(kMaxLoopDepth));
  if (loop.slots < 0 || loop.slots > kMaxSlots)
    return fail("a loop with " + std::to_string(loop.slots) + " slots");
  if (loop.slots > 0 && parallel)
    return fail("a parallel loop inside of another");
  if (loop.slots > 0)
    parallel = Parallel{loops.size(), loop.slots, {}};
  loops.push_back(loop.count);
  BINADE_CHECK(checkRecords(loop.body, place + "."));
  loops.pop_back();
  if (!parallel || parallel->depth != loops.size())
    return {};
  auto clash = parallel->writes.findConflict();
  parallel.reset();
  if (clash) {
    part = clash->second;
    return fail("may write in one iteration of a parallel loop what " +
                clash->first + " writes in another");
  }
  return {};
}

Result<void> RecordValidator::check(const Launch &launch) {
  auto legal = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '$';
  };
  auto isName = [&](const std::string &name) {
    return !name.empty() && name.size() <= 200 &&
           std::all_of(name.begin(), name.end(), legal);
  };
  if (!isName(launch.kernel))
    return fail("kernel name " + quote(launch.kernel));
  if (launch.segments.empty() || launch.grain < 1)
    return fail(std::to_string(launch.segments.size()) +
                " segments in blocks of " + std::to_string(launch.grain));
  std::int64_t items = 0;
  std::map<std::string_view, std::size_t> operands;
  for (const Segment &segment : launch.segments) {
    auto [known, isNew] =
        operands.try_emplace(segment.kernel, segment.operands.size());
    if (known->second != segment.operands.size())
      return fail("segments of one kernel differ in their number of operands");
    if (!segment.kernel.empty() && !isName(segment.kernel))
      return fail("kernel name " + quote(segment.kernel));
    if (segment.extent < 1 ||
        __builtin_add_overflow(items, segment.extent, &items) ||
        items > static_cast<std::int64_t>(maxBytes))
      return fail("a segment of " + std::to_string(segment.extent) + " items");
    if (segment.first < 0 || segment.first >= segment.extent ||
        segment.first % launch.grain != 0 || (segment.first && launch.finish))
      return fail("a segment from item " + std::to_string(segment.first) +
                  " on, expected a multiple of " +
                  std::to_string(launch.grain) + " below " +
                  std::to_string(segment.extent) + ", and no finish");
  }
  if (!launch.finish && !launch.finishOperands.empty())
    return fail("finish operands without a finish");
  BINADE_CHECK(checkLaunched(launch));
  return checkOperands(launch.listOperands());
}

Result<void> RecordValidator::checkLaunched(const Launch &launch) {
  auto isMultiTensor = [&](const std::string &name) {
    const DeviceKernel *kernel =
        plan.findDeviceKernel(name.empty() ? launch.kernel : name);
    return kernel ? std::optional(kernel->isMultiTensor()) : std::nullopt;
  };
  auto describe = [](bool many) {
    return many ? " for several tensors" : " for one set of operands";
  };
  std::optional<bool> first = isMultiTensor(launch.segments.front().kernel);
  if (!first)
    return {};
  if (launch.segments.size() > 1 && !*first)
    return fail("a launch of " + std::to_string(launch.segments.size()) +
                " segments, and a device kernel" + describe(false));
  for (const Segment &segment : launch.segments)
    if (isMultiTensor(segment.kernel).value_or(*first) != *first)
      return fail("device kernel " + quote(segment.kernel) + describe(!*first) +
                  " next to one" + describe(*first));
  if (launch.finish && isMultiTensor(launch.kernel).value_or(*first) != *first)
    return fail("device kernel " + quote(launch.kernel) + describe(!*first) +
                " ends a launch" + describe(*first));
  return {};
}

Result<void> RecordValidator::checkKernel(const std::string &name) {
  const DeviceKernel *kernel = plan.findDeviceKernel(name);
  if (kernel && kernel->isMultiTensor())
    return fail("device kernel " + quote(name) +
                " is a multi-tensor kernel, expected a launch record");
  return {};
}

Result<void> RecordValidator::check(const Matmul &matmul) {
  if (matmul.batch.size() > kMaxBatchAxes)
    return fail(std::to_string(matmul.batch.size()) + " batch axes");
  std::vector<std::int64_t> sizes = matmul.batch;
  auto with = [&](std::int64_t rows, std::int64_t columns) {
    std::vector<std::int64_t> all = sizes;
    all.insert(all.end(), {rows, columns});
    return all;
  };
  for (const auto &all : {with(matmul.m, matmul.k), with(matmul.k, matmul.n),
                          with(matmul.m, matmul.n)})
    BINADE_CHECK(checkWork(all));
  BINADE_CHECK(checkBlock(matmul));
  BINADE_CHECK(checkAccumulation(matmul));
  BINADE_CHECK(checkOperands(matmul.listOperands()));
  return checkTypes(matmul);
}

Result<void> RecordValidator::checkBlock(const Matmul &matmul) {
  const std::optional<ScaleBlock> &block = matmul.block;
  if (!block)
    return {};
  if (block->m < 1 || block->n < 1 || block->k < 1)
    return fail("a block size of " + std::to_string(block->m) + ", " +
                std::to_string(block->n) + " and " + std::to_string(block->k));
  if (!matmul.lhsScale || !matmul.rhsScale || !matmul.batch.empty())
    return fail("block scales, expected scales of both sides and no batch "
                "axes");
  return {};
}

Result<void> RecordValidator::checkAccumulation(const Matmul &matmul) {
  const std::optional<Accumulation> &found = matmul.accumulation;
  if (!found)
    return {};
  if (!found->isValid())
    return fail("an accumulator of " + std::to_string(found->bits) +
                " bits, steps of " + std::to_string(found->step) + " and " +
                std::to_string(found->promote) + " products");
  if (!matmul.lhsScale || !matmul.rhsScale || matmul.accumulate ||
      !plan.chip.empty())
    return fail("an accumulator, expected scales of both sides, a result that "
                "is not added to, and a CPU");
  return {};
}

Result<void> RecordValidator::checkTypes(const Matmul &matmul) {
  bool hasFp8 = isFp8Type(typeOf(matmul.lhs));
  if (isFp8Type(typeOf(matmul.rhs)) != hasFp8)
    return fail("a matmul of " + std::string(name(typeOf(matmul.lhs))) +
                " and " + std::string(name(typeOf(matmul.rhs))) +
                ", expected FP8 on both sides or on none");
  for (const std::optional<View> *scale :
       {&matmul.lhsScale, &matmul.rhsScale}) {
    if (!*scale)
      continue;
    if (!hasFp8)
      return fail("a scale of operands of type " +
                  std::string(name(typeOf(matmul.lhs))) +
                  ", expected F8_E4M3 or F8_E5M2");
    if (typeOf(**scale) != DType::F32)
      return fail("a scale of type " + std::string(name(typeOf(**scale))) +
                  ", expected F32");
  }
  const View &bias = matmul.bias ? *matmul.bias : matmul.out;
  const View &lhs = hasFp8 ? matmul.out : matmul.lhs;
  const View &rhs = hasFp8 ? matmul.out : matmul.rhs;
  for (const View *view : {&lhs, &rhs, &matmul.out, &bias})
    if (!isContractionType(typeOf(*view)))
      return fail("operand of type " + std::string(name(typeOf(*view))) +
                  ", expected F32, BF16 or F16");
  return {};
}

Result<void> RecordValidator::checkGeometry(const Convolution &c) {
  std::size_t axes = c.input.size();
  if (axes < 1 || axes > kMaxSpatialAxes)
    return fail(std::to_string(axes) + " spatial axes");
  for (const auto *list : {&c.kernel, &c.output, &c.strides, &c.dilations,
                           &c.paddingLow, &c.paddingHigh})
    if (list->size() != axes)
      return fail("geometry of " + std::to_string(list->size()) + " axes for " +
                  std::to_string(axes));
  constexpr std::int64_t limit = std::int64_t(1) << 31;
  auto positive = [](std::int64_t n) { return n >= 1 && n <= limit; };
  if (!positive(c.groups) || !positive(c.batch) || !positive(c.inChannels) ||
      !positive(c.outChannels) || c.inChannels % c.groups != 0 ||
      c.outChannels % c.groups != 0)
    return fail("batch " + std::to_string(c.batch) + ", channels " +
                std::to_string(c.inChannels) + " and " +
                std::to_string(c.outChannels) + " in " +
                std::to_string(c.groups) + " groups");
  for (std::size_t d = 0; d < axes; ++d) {
    if (!positive(c.input[d]) || !positive(c.kernel[d]) ||
        !positive(c.output[d]) || !positive(c.strides[d]) ||
        !positive(c.dilations[d]) || c.paddingLow[d] < 0 ||
        c.paddingLow[d] > limit || c.paddingHigh[d] < 0 ||
        c.paddingHigh[d] > limit)
      return fail("geometry of axis " + std::to_string(d));
    std::int64_t window, span = c.input[d] + c.paddingLow[d] + c.paddingHigh[d];
    if (__builtin_mul_overflow(c.kernel[d] - 1, c.dilations[d], &window) ||
        span <= window || (span - window - 1) / c.strides[d] + 1 != c.output[d])
      return fail("axis " + std::to_string(d) + " of the output has " +
                  std::to_string(c.output[d]) +
                  " elements, which does not follow from the geometry");
  }
  return {};
}

Result<void> RecordValidator::check(const Convolution &c) {
  BINADE_CHECK(checkGeometry(c));
  if (c.bias && c.direction != Convolution::Forward)
    return fail("only a forward convolution has a bias");
  BINADE_CHECK(checkOperands(c.listOperands()));
  for (const View *view : {&c.x, &c.weight, &c.y, c.bias ? &*c.bias : &c.x})
    if (!isContractionType(typeOf(*view)))
      return fail("operand of type " + std::string(name(typeOf(*view))) +
                  ", expected F32, BF16 or F16");
  return {};
}

Result<void> RecordValidator::check(const Attention &a) {
  if (a.batch.size() > kMaxBatchAxes)
    return fail(std::to_string(a.batch.size()) + " batch axes");
  if (std::string fault = findFault(a); !fault.empty())
    return fail(std::move(fault));
  for (std::int64_t columns : {a.depth, a.width}) {
    std::vector<std::int64_t> products = a.batch;
    products.insert(products.end(), {a.queries, a.keys, columns});
    BINADE_CHECK(checkWork(products));
  }
  std::vector<Operand> operands = a.listOperands();
  BINADE_CHECK(checkOperands(operands));
  for (const Operand &operand : operands)
    if (operand.isTensor())
      BINADE_CHECK(check(operand, typeOf(a.query)));
  return {};
}

Result<void> RecordValidator::check(const Operand &tensor, DType multiplied) {
  DType type = typeOf(tensor.view);
  auto expect = [&](std::string_view expected) {
    return fail(tensor.name + " of type " + std::string(name(type)) +
                ", expected " + std::string(expected));
  };
  if (tensor.name == "lse")
    return type == DType::F32 ? Result<void>() : expect("F32");
  if (tensor.name == "mask")
    return type == DType::BOOL ? Result<void>() : expect("BOOL");
  if (tensor.name == "random state")
    return type == DType::I64 ? Result<void>() : expect("I64");
  if (!isContractionType(type))
    return expect("F32, BF16 or F16");
  if (tensor.name.starts_with("bias ") || tensor.name.starts_with("dbias "))
    return {};
  bool isMultiplied = !tensor.isWritten() && tensor.name != "y";
  if (isMultiplied && type != multiplied)
    return expect(name(multiplied));
  if (tensor.view.strides.back() != 1)
    return fail(tensor.name + " has columns that are " +
                std::to_string(tensor.view.strides.back()) +
                " elements apart, expected 1");
  return {};
}

Result<void> RecordValidator::check(const Copy &copy) {
  if (copy.sizes.size() > kMaxCopyAxes)
    return fail("a copy over " + std::to_string(copy.sizes.size()) + " axes");
  BINADE_CHECK(checkWork(copy.sizes));
  BINADE_CHECK(checkOperands(copy.listOperands()));
  if (typeOf(copy.from) != typeOf(copy.to))
    return fail("a copy from " + std::string(name(typeOf(copy.from))) + " to " +
                std::string(name(typeOf(copy.to))));
  return {};
}

Result<void> RecordValidator::check(const Exchange &exchange) {
  if (!loops.empty())
    return fail("an exchange inside of a loop");
  if (std::string fault = findShapeFault(exchange); !fault.empty())
    return fail(std::move(fault));
  BINADE_CHECK(checkOperands(exchange.listOperands()));
  if (std::string fault = findMemoryFault(plan, exchange); !fault.empty())
    return fail(std::move(fault));
  return {};
}

Result<void>
RecordValidator::checkOperands(const std::vector<Operand> &operands) {
  for (const Operand &operand : operands) {
    const auto &[what, use, view, sizes, isDense] = operand;
    BINADE_CHECK(!operand.isTensor()   ? checkView(view, what)
                 : isDense             ? checkDense(view, what, sizes)
                 : operand.isWritten() ? checkWritten(view, what, sizes)
                                       : checkStrided(view, what, sizes));
    if (isDense && operand.isWritten())
      BINADE_CHECK(checkDisjoint(view, "the result",
                                 std::array{std::int64_t(1)},
                                 std::array{*countElements(sizes)}));
  }
  return {};
}

Result<void> RecordValidator::checkWork(std::span<const std::int64_t> sizes) {
  std::optional<std::int64_t> elements = countElements(sizes);
  if (!elements || *elements > static_cast<std::int64_t>(maxBytes))
    return fail("negative or overflowing sizes");
  return {};
}

Result<void>
RecordValidator::checkStrided(const View &view, std::string_view what,
                              std::span<const std::int64_t> sizes) {
  if (view.strides.size() != sizes.size())
    return fail(std::string(what) + " has " +
                std::to_string(view.strides.size()) + " strides for " +
                std::to_string(sizes.size()) + " axes");
  return checkView(view, what, view.strides, sizes);
}

Result<void>
RecordValidator::checkWritten(const View &view, std::string_view what,
                              std::span<const std::int64_t> sizes) {
  BINADE_CHECK(checkStrided(view, what, sizes));
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] > 1 && view.strides[d] == 0)
      return fail(std::string(what) + " writes one element " +
                  std::to_string(sizes[d]) + " times along axis " +
                  std::to_string(d));
  return checkDisjoint(view, what, view.strides, sizes);
}

Result<void>
RecordValidator::checkDisjoint(const View &view, std::string_view what,
                               std::span<const std::int64_t> strides,
                               std::span<const std::int64_t> sizes) {
  const Buffer &buffer = plan.buffers[view.buffer];
  if (!parallel || buffer.slot != 0)
    return {};
  if (!isDisjointByIteration(view, strides, sizes, loops, parallel->depth))
    return fail(std::string(what) +
                " has elements that several iterations of a parallel loop "
                "write");
  parallel->writes.add(buffer, view, strides, sizes, loops, parallel->depth,
                       part);
  return {};
}

Result<void> RecordValidator::checkDense(const View &view,
                                         std::string_view what,
                                         std::span<const std::int64_t> sizes) {
  std::optional<std::int64_t> elements = countElements(sizes);
  if (!elements)
    return fail(std::string(what) + " overflows");
  return checkView(view, what, std::array{std::int64_t(1)},
                   std::array{*elements});
}

Result<void> RecordValidator::checkView(const View &view, std::string_view what,
                                        std::span<const std::int64_t> strides,
                                        std::span<const std::int64_t> sizes) {
  if (view.buffer >= plan.buffers.size())
    return fail(std::string(what) + " is in buffer " +
                std::to_string(view.buffer) + " of " +
                std::to_string(plan.buffers.size()));
  const Buffer &buffer = plan.buffers[view.buffer];
  std::uint64_t beyond;
  if (parallel &&
      (__builtin_mul_overflow(buffer.slot, parallel->slots - 1, &beyond) ||
       beyond > plan.arenaBytes - buffer.offset - buffer.bytes))
    return fail(std::string(what) + " is in buffer " + quote(buffer.name) +
                ", whose slot " + std::to_string(parallel->slots) +
                " leaves the arena of " + std::to_string(plan.arenaBytes));
  std::int64_t elements =
      static_cast<std::int64_t>(buffer.bytes / byteSize(buffer.dtype));
  if (std::any_of(sizes.begin(), sizes.end(),
                  [](std::int64_t size) { return size < 1; }))
    return fail(std::string(what) + " has an axis of less than one element");
  std::optional<std::int64_t> last = lastElement(view, strides, sizes, loops);
  if (!last)
    return fail(std::string(what) + " has a negative or overflowing offset, "
                                    "stride or step, or more steps than loops");
  if (buffer.shard && !sizes.empty())
    return fail(std::string(what) + " is in buffer " + quote(buffer.name) +
                ", a shard of a tensor, which only launches access");
  // The address of an empty buffer may be used, but not its elements.
  if (*last >= elements && !(sizes.empty() && *last == 0))
    return fail(std::string(what) + " reaches element " +
                std::to_string(*last) + " of buffer " + quote(buffer.name) +
                ", which has " + std::to_string(elements));
  return {};
}

Result<void> plan::validateRecords(const Plan &plan, std::string_view where) {
  BINADE_CHECK(validateExchanges(plan, where));
  RecordValidator validator(plan, where);
  BINADE_CHECK(validator.checkRecords(plan.records, "record "));
  BINADE_CHECK(
      validator.checkRecords(plan.accumulation, "accumulation record "));
  BINADE_CHECK(validator.checkRecords(plan.evaluation, "evaluation record "));
  return validator.checkRecords(plan.observation, "observation record ");
}
