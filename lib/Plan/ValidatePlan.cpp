//===- ValidatePlan.cpp - Everything that the runtime relies on -----------===//
// A plan comes from a file and is executed by address arithmetic, so all of
// its numbers are checked here, with arithmetic that notices overflow.
//===----------------------------------------------------------------------===//

#include "ViewBounds.h"
#include "binade/Container/Printable.h"
#include "binade/Plan/PlanJson.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <set>

using namespace binade;
using namespace binade::plan;

// More than any machine's address space; keeps all later sums in range.
static constexpr std::uint64_t maxBytes = std::uint64_t(1) << 47;

static bool isContractionType(DType type) {
  return type == DType::F32 || type == DType::BF16 || type == DType::F16;
}

namespace {
class Validator {
public:
  Validator(const Plan &plan, std::string_view where)
      : plan(plan), where(where) {}

  Result<void> run();

private:
  Error fail(std::string message) const {
    return Error{where, std::move(message), ExitCode::Rejected, part};
  }
  Result<void> checkLedger();
  Result<void> checkBuffer(const Buffer &buffer);
  Result<void> checkPort(const Port &port);
  Result<void> checkInit(const Port &port, const Buffer &buffer);
  Result<void> checkPortsAreDisjoint();
  Result<void> checkRecords(const std::vector<Record> &records,
                            const std::string &prefix);
  Result<void> check(const Loop &loop, const std::string &place);
  Result<void> check(const Launch &launch);
  Result<void> check(const Matmul &matmul);
  Result<void> check(const Convolution &convolution);
  Result<void> checkGeometry(const Convolution &convolution);
  Result<void> check(const Copy &copy);

  /// The view as an address, or with `sizes` as elements at `strides`.
  Result<void> checkView(const View &view, std::string_view what,
                         std::span<const std::int64_t> strides = {},
                         std::span<const std::int64_t> sizes = {});
  /// Sizes whose product can be counted, even where strides are 0.
  Result<void> checkWork(std::span<const std::int64_t> sizes);
  Result<void> checkStrided(const View &view, std::string_view what,
                            std::span<const std::int64_t> sizes);
  /// A strided view each element of which is written once.
  Result<void> checkWritten(const View &view, std::string_view what,
                            std::span<const std::int64_t> sizes);
  Result<void> checkApart(const View &view, std::string_view what);
  Result<void> checkDense(const View &view, std::string_view what,
                          std::span<const std::int64_t> sizes);
  Result<void> checkAddresses(const std::vector<View> &views,
                              std::string_view what);
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
  };
  std::optional<Parallel> parallel; ///< The parallel loop among them.
};
} // namespace

#define BINADE_CHECK(expression)                                               \
  if (Result<void> checked = (expression); !checked)                           \
  return checked

Result<void> Validator::run() {
  if (plan.threads > kMaxThreads)
    return fail(std::to_string(plan.threads) + " threads, more than " +
                std::to_string(kMaxThreads));
  if (plan.arenaBytes > maxBytes)
    return fail("an arena of " + std::to_string(plan.arenaBytes) + " bytes");
  for (const auto &[dim, size] : plan.dims)
    if (size < 1)
      return fail("dimension " + quote(dim) + " is " + std::to_string(size));
  BINADE_CHECK(checkLedger());
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    part = "buffer " + std::to_string(i) + " " + quote(plan.buffers[i].name);
    BINADE_CHECK(checkBuffer(plan.buffers[i]));
  }
  std::set<std::pair<Role, std::string_view>> names;
  std::set<std::string> savedNames;
  for (const Port &port : plan.ports) {
    part = std::string(name(port.role)) + " " + quote(port.name);
    if (!names.insert({port.role, port.name}).second)
      return fail("two ports of this role and name");
    if (isTrainingState(port.role) &&
        !savedNames.insert(stateName(port.role, port.name)).second)
      return fail(
          "two tensors of training state would be saved under the name " +
          quote(stateName(port.role, port.name)));
    BINADE_CHECK(checkPort(port));
  }
  BINADE_CHECK(checkPortsAreDisjoint());
  return checkRecords(plan.records, "record ");
}

Result<void> Validator::checkLedger() {
  std::uint64_t sum = 0;
  for (const auto &[category, bytes] : plan.ledger)
    if (__builtin_add_overflow(sum, bytes, &sum))
      return fail("the ledger overflows");
  if (sum != plan.arenaBytes)
    return fail("the ledger sums to " + std::to_string(sum) +
                " bytes, the arena has " + std::to_string(plan.arenaBytes));
  return {};
}

Result<void> Validator::checkBuffer(const Buffer &buffer) {
  std::optional<std::int64_t> elements = countElements(buffer.shape);
  std::uint64_t size = byteSize(buffer.dtype), bytes;
  if (!elements || __builtin_mul_overflow(*elements, size, &bytes))
    return fail("negative or overflowing shape");
  if (bytes != buffer.bytes)
    return fail(std::to_string(buffer.bytes) + " bytes for a shape of " +
                std::to_string(bytes));
  std::uint64_t end;
  if (__builtin_add_overflow(buffer.offset, buffer.bytes, &end) ||
      end > plan.arenaBytes)
    return fail("offset " + std::to_string(buffer.offset) + " and " +
                std::to_string(buffer.bytes) + " bytes leave the arena of " +
                std::to_string(plan.arenaBytes));
  if (buffer.offset % size != 0)
    return fail("offset " + std::to_string(buffer.offset) +
                " is not a multiple of the element size");
  if (buffer.slot != 0 && (buffer.slot < buffer.bytes || buffer.slot % size))
    return fail("a slot of " + std::to_string(buffer.slot) + " bytes for " +
                std::to_string(buffer.bytes));
  return {};
}

/// Shape and type that the runtime itself reads and writes, or nothing.
static std::string_view expectedForm(const Port &port, const Buffer &buffer) {
  std::uint64_t elements = buffer.bytes / byteSize(buffer.dtype);
  switch (port.role) {
  case Role::Scaler:
    if (port.name == "scale" && (buffer.dtype != DType::F32 || elements != 1))
      return "one F32";
    return elements == 1 ? "" : "one element";
  case Role::Rng:
    return buffer.dtype == DType::I64 && elements == 2 ? "" : "two I64";
  case Role::Step:
    return buffer.dtype == DType::I64 && elements == 1 ? "" : "one I64";
  case Role::Hyper:
    return buffer.dtype == DType::F64 && elements == 1 ? "" : "one F64";
  case Role::Metric:
    return elements == 1 ? "" : "one element";
  default:
    return "";
  }
}

Result<void> Validator::checkPort(const Port &port) {
  if (port.buffer >= plan.buffers.size())
    return fail("buffer " + std::to_string(port.buffer) + " of " +
                std::to_string(plan.buffers.size()));
  const Buffer &buffer = plan.buffers[port.buffer];
  if (std::string_view form = expectedForm(port, buffer); !form.empty())
    return fail("expected " + std::string(form) + ", found " +
                std::to_string(buffer.bytes / byteSize(buffer.dtype)) + " " +
                std::string(name(buffer.dtype)));
  if (port.check) {
    if (port.role != Role::Batch ||
        (buffer.dtype != DType::I64 && buffer.dtype != DType::I32))
      return fail("only a batch input of I64 or I32 has a range");
    if (port.check->low >= port.check->high)
      return fail("empty range [" + std::to_string(port.check->low) + ", " +
                  std::to_string(port.check->high) + ")");
  }
  if (port.range) {
    if (port.role != Role::Hyper)
      return fail("only a hyper-parameter has a range of numbers");
    if (auto *fill = std::get_if<FillInit>(&port.init))
      if (std::string wrong =
              port.range->explainViolation("its initial value", fill->value);
          !wrong.empty())
        return fail(wrong);
  }
  return checkInit(port, buffer);
}

Result<void> Validator::checkInit(const Port &port, const Buffer &buffer) {
  if (auto *external = std::get_if<ExternalInit>(&port.init)) {
    if (external->file.empty() || external->bytes != buffer.bytes)
      return fail("external data of " + std::to_string(external->bytes) +
                  " bytes in file " + quote(external->file) + " for " +
                  std::to_string(buffer.bytes));
  } else if (auto *random = std::get_if<RandomInit>(&port.init)) {
    if (!isContractionType(buffer.dtype) || !std::isfinite(random->origin) ||
        !std::isfinite(random->scale) || random->scale < 0)
      return fail("random values need F32, BF16 or F16 and finite numbers");
  } else if (auto *fill = std::get_if<FillInit>(&port.init)) {
    bool integer = !isFloat(buffer.dtype);
    if (!std::isfinite(fill->value) ||
        (integer && (fill->value != std::nearbyint(fill->value) ||
                     std::abs(fill->value) > 0x1p53)))
      return fail("cannot be filled with its initial value");
  }
  return {};
}

Result<void> Validator::checkPortsAreDisjoint() {
  std::vector<const Port *> kept;
  for (const Port &port : plan.ports)
    if ((isTrainingState(port.role) || port.role == Role::Hyper ||
         port.role == Role::Constant) &&
        plan.buffers[port.buffer].bytes > 0)
      kept.push_back(&port);
  auto start = [&](const Port *port) {
    return plan.buffers[port->buffer].offset;
  };
  std::sort(kept.begin(), kept.end(),
            [&](const Port *a, const Port *b) { return start(a) < start(b); });
  for (std::size_t i = 1; i < kept.size(); ++i)
    if (start(kept[i - 1]) + plan.buffers[kept[i - 1]->buffer].bytes >
        start(kept[i])) {
      part = std::string(name(kept[i]->role)) + " " + quote(kept[i]->name);
      return fail("overlaps " + std::string(name(kept[i - 1]->role)) + " " +
                  quote(kept[i - 1]->name));
    }
  return {};
}

Result<void> Validator::checkRecords(const std::vector<Record> &records,
                                     const std::string &prefix) {
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Record &record = records[i];
    std::string place = prefix + std::to_string(i);
    part = place + " " + quote(record.label);
    if (auto *loop = std::get_if<Loop>(&record.body)) {
      BINADE_CHECK(check(*loop, place));
    } else if (auto *launch = std::get_if<Launch>(&record.body)) {
      BINADE_CHECK(check(*launch));
    } else if (auto *matmul = std::get_if<Matmul>(&record.body)) {
      BINADE_CHECK(check(*matmul));
    } else if (auto *convolution = std::get_if<Convolution>(&record.body)) {
      BINADE_CHECK(check(*convolution));
    } else {
      BINADE_CHECK(check(std::get<Copy>(record.body)));
    }
  }
  return {};
}

Result<void> Validator::check(const Loop &loop, const std::string &place) {
  if (loop.count < 1 || loop.count > (std::int64_t(1) << 31))
    return fail("a loop of " + std::to_string(loop.count) + " iterations");
  if (loops.size() == kMaxLoopDepth)
    return fail("loops nested deeper than " + std::to_string(kMaxLoopDepth));
  if (loop.slots < 0 || loop.slots > kMaxSlots)
    return fail("a loop with " + std::to_string(loop.slots) + " slots");
  if (loop.slots > 0 && parallel)
    return fail("a parallel loop inside of another");
  if (loop.slots > 0)
    parallel = Parallel{loops.size(), loop.slots};
  loops.push_back(loop.count);
  BINADE_CHECK(checkRecords(loop.body, place + "."));
  loops.pop_back();
  if (parallel && parallel->depth == loops.size())
    parallel.reset();
  return {};
}

Result<void> Validator::check(const Launch &launch) {
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
  for (const Segment &segment : launch.segments) {
    if (segment.operands.size() != launch.segments.front().operands.size())
      return fail("segments differ in their number of operands");
    if (!segment.kernel.empty() && !isName(segment.kernel))
      return fail("kernel name " + quote(segment.kernel));
    if (segment.extent < 1 ||
        __builtin_add_overflow(items, segment.extent, &items) ||
        items > static_cast<std::int64_t>(maxBytes))
      return fail("a segment of " + std::to_string(segment.extent) + " items");
    BINADE_CHECK(checkAddresses(segment.operands, "operand"));
  }
  if (!launch.finish && !launch.finishOperands.empty())
    return fail("operands for a finish that is not there");
  return checkAddresses(launch.finishOperands, "finish operand");
}

Result<void> Validator::check(const Matmul &matmul) {
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
  BINADE_CHECK(checkStrided(matmul.lhs, "lhs", with(matmul.m, matmul.k)));
  BINADE_CHECK(checkStrided(matmul.rhs, "rhs", with(matmul.k, matmul.n)));
  BINADE_CHECK(checkWritten(matmul.out, "out", with(matmul.m, matmul.n)));
  if (matmul.bias)
    BINADE_CHECK(checkStrided(*matmul.bias, "bias", std::array{matmul.n}));
  if (matmul.scratch)
    BINADE_CHECK(checkView(*matmul.scratch, "scratch"));
  for (const View *view : {&matmul.lhs, &matmul.rhs, &matmul.out,
                           matmul.bias ? &*matmul.bias : &matmul.out})
    if (!isContractionType(typeOf(*view)))
      return fail("operand of type " + std::string(name(typeOf(*view))) +
                  ", expected F32, BF16 or F16");
  return {};
}

Result<void> Validator::checkGeometry(const Convolution &c) {
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

Result<void> Validator::check(const Convolution &c) {
  BINADE_CHECK(checkGeometry(c));
  std::vector<std::int64_t> x = {c.batch, c.inChannels};
  std::vector<std::int64_t> y = {c.batch, c.outChannels};
  std::vector<std::int64_t> weight = {c.outChannels, c.inChannels / c.groups};
  x.insert(x.end(), c.input.begin(), c.input.end());
  y.insert(y.end(), c.output.begin(), c.output.end());
  weight.insert(weight.end(), c.kernel.begin(), c.kernel.end());
  BINADE_CHECK(checkDense(c.x, "x", x));
  BINADE_CHECK(checkDense(c.weight, "weight", weight));
  BINADE_CHECK(checkDense(c.y, "y", y));
  const View *written[] = {&c.y, &c.x, &c.weight}; // By direction.
  BINADE_CHECK(checkApart(*written[c.direction], "the result"));
  if (c.bias) {
    if (c.direction != Convolution::Forward)
      return fail("only a forward convolution has a bias");
    BINADE_CHECK(checkDense(*c.bias, "bias", std::array{c.outChannels}));
  }
  if (c.scratch)
    BINADE_CHECK(checkView(*c.scratch, "scratch"));
  for (const View *view : {&c.x, &c.weight, &c.y, c.bias ? &*c.bias : &c.x})
    if (!isContractionType(typeOf(*view)))
      return fail("operand of type " + std::string(name(typeOf(*view))) +
                  ", expected F32, BF16 or F16");
  return {};
}

Result<void> Validator::check(const Copy &copy) {
  if (copy.sizes.size() > kMaxCopyAxes)
    return fail("a copy over " + std::to_string(copy.sizes.size()) + " axes");
  BINADE_CHECK(checkWork(copy.sizes));
  BINADE_CHECK(checkStrided(copy.from, "source", copy.sizes));
  BINADE_CHECK(checkWritten(copy.to, "destination", copy.sizes));
  if (typeOf(copy.from) != typeOf(copy.to))
    return fail("a copy from " + std::string(name(typeOf(copy.from))) + " to " +
                std::string(name(typeOf(copy.to))));
  return {};
}

Result<void> Validator::checkWork(std::span<const std::int64_t> sizes) {
  std::optional<std::int64_t> elements = countElements(sizes);
  if (!elements || *elements > static_cast<std::int64_t>(maxBytes))
    return fail("negative or overflowing sizes");
  return {};
}

Result<void> Validator::checkStrided(const View &view, std::string_view what,
                                     std::span<const std::int64_t> sizes) {
  if (view.strides.size() != sizes.size())
    return fail(std::string(what) + " has " +
                std::to_string(view.strides.size()) + " strides for " +
                std::to_string(sizes.size()) + " axes");
  return checkView(view, what, view.strides, sizes);
}

Result<void> Validator::checkWritten(const View &view, std::string_view what,
                                     std::span<const std::int64_t> sizes) {
  BINADE_CHECK(checkStrided(view, what, sizes));
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] > 1 && view.strides[d] == 0)
      return fail(std::string(what) + " writes one element " +
                  std::to_string(sizes[d]) + " times along axis " +
                  std::to_string(d));
  return checkApart(view, what);
}

/// A written view that moves with the iteration of the parallel loop, if any.
Result<void> Validator::checkApart(const View &view, std::string_view what) {
  if (parallel && plan.buffers[view.buffer].slot == 0 &&
      (view.steps.size() <= parallel->depth ||
       view.steps[parallel->depth] == 0))
    return fail(std::string(what) +
                " is written by all iterations of a parallel loop");
  return {};
}

Result<void> Validator::checkDense(const View &view, std::string_view what,
                                   std::span<const std::int64_t> sizes) {
  std::optional<std::int64_t> elements = countElements(sizes);
  if (!elements)
    return fail(std::string(what) + " overflows");
  return checkView(view, what, std::array{std::int64_t(1)},
                   std::array{*elements});
}

Result<void> Validator::checkAddresses(const std::vector<View> &views,
                                       std::string_view what) {
  for (std::size_t i = 0; i < views.size(); ++i)
    BINADE_CHECK(
        checkView(views[i], std::string(what) + " " + std::to_string(i)));
  return {};
}

Result<void> Validator::checkView(const View &view, std::string_view what,
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
  // The address of an empty buffer is legal, its elements are not.
  if (*last >= elements && !(sizes.empty() && *last == 0))
    return fail(std::string(what) + " reaches element " +
                std::to_string(*last) + " of buffer " + quote(buffer.name) +
                ", which has " + std::to_string(elements));
  return {};
}

#undef BINADE_CHECK

Result<void> binade::validate(const Plan &plan, std::string_view where) {
  return Validator(plan, where).run();
}
