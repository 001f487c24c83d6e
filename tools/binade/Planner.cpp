//===- Planner.cpp - How much memory a step takes -------------------------===//

#include "Planner.h"
#include "Stack.h"
#include "binade/Container/Printable.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/Interface.h"
#include "binade/IR/ParseModule.h"
#include "binade/Pipelines/FindPhase.h"
#include "mlir/AsmParser/AsmParser.h"
#include <algorithm>
#include <bit>
#include <cmath>

using namespace mlir;
using namespace mlir::binade;
using ::binade::Plan;
using ::binade::Result;

Planner::Planner(std::string path, ImportOptions import, CompileOptions options)
    : path(std::move(path)), import(std::move(import)),
      options(std::move(options)),
      context(makeRegistry(), MLIRContext::Threading::DISABLED) {
  context.loadAllAvailableDialects();
}

/// Parses an imported module, whose dimensions are fixed.
FailureOr<OwningOpRef<ModuleOp>> Planner::parse() {
  auto parsed = parseModuleFile(path, context);
  if (!parsed)
    return emitError(getPartLoc(&context, ::binade::printable(path), ""))
           << parsed.error().message;
  if (findPhase(**parsed) != CompilerPhase::Import)
    return emitError((*parsed)->getLoc())
           << "expected a module that 'binade import' wrote";
  return std::move(*parsed);
}

/// Imports the model; completes the given sizes with the model's own.
FailureOr<OwningOpRef<ModuleOp>> Planner::load(Sizes &sizes) {
  ImportOptions own = import;
  for (const auto &[name, size] : sizes.dims)
    own.dims[name] = size;
  ImportReport report;
  auto module = StringRef(path).ends_with(".mlir")
                    ? parse()
                    : importModel(path, own, &context, &report);
  if (failed(module))
    return failure();
  sizes.dims = std::move(report.dims);
  auto forward = (*module)->lookupSymbol<func::FuncOp>(kForwardName);
  if (!forward) // An imported backward pass has a fixed depth.
    return module;
  for (const Stack &stack : findStacks(forward))
    if (auto [size, isNew] = sizes.depths.insert({stack.name, stack.depth});
        !isNew)
      setDepth(forward, stack.name, size->second);
  return module;
}

FailureOr<ModuleOp> Planner::getStep(const Sizes &sizes,
                                     const CompileOptions &options) {
  OwningOpRef<ModuleOp> &step = steps[{sizes, options.releaseGradients}];
  if (step)
    return *step;
  Sizes own = sizes;
  FailureOr<OwningOpRef<ModuleOp>> module = load(own);
  if (failed(module) || failed(runPhases(**module, CompilerPhase::Import,
                                         CompilerPhase::Optimizer, options)))
    return failure();
  step = std::move(*module);
  return *step;
}

FailureOr<Plan> Planner::plan(ModuleOp step, const CompileOptions &options) {
  OwningOpRef<ModuleOp> module(step.clone());
  if (failed(runPhases(*module, CompilerPhase::Optimizer,
                       CompilerPhase::Kernels, options)))
    return failure();
  return planModule(*module, options);
}

Result<Sizes> Planner::getSizes() {
  DiagnosticCollector diagnostics(&context);
  Sizes sizes;
  if (failed(load(sizes)))
    return diagnostics.takeError(::binade::printable(path),
                                 "cannot be imported");
  return sizes;
}

Result<Plan> Planner::plan(const Variant &variant, const Sizes &sizes) {
  DiagnosticCollector diagnostics(&context);
  CompileOptions own = options;
  own.policy = variant.policy;
  own.states = {variant.states};
  own.releaseGradients = variant.releasesGradients;
  FailureOr<ModuleOp> step = getStep(sizes, own);
  FailureOr<Plan> made =
      failed(step) ? FailureOr<Plan>(failure()) : plan(*step, own);
  if (failed(made))
    return diagnostics.takeError(::binade::printable(path),
                                 "cannot be planned");
  return std::move(*made);
}

//===----------------------------------------------------------------------===//
// The largest
//===----------------------------------------------------------------------===//

/// Extrapolates the two largest known sizes linearly; returns the size at which
/// the line reaches `budget`.
static std::optional<std::int64_t>
follow(const std::map<std::int64_t, std::uint64_t> &known,
       std::uint64_t budget) {
  if (known.size() < 2)
    return std::nullopt;
  auto last = std::prev(known.end()), before = std::prev(last);
  double slope = (static_cast<double>(last->second) -
                  static_cast<double>(before->second)) /
                 static_cast<double>(last->first - before->first);
  double reach =
      (static_cast<double>(budget) - static_cast<double>(last->second)) / slope;
  double line = std::floor(static_cast<double>(last->first) + reach);
  if (!(slope > 0) || !(line < 0x1p50) || line < 1)
    return std::nullopt;
  return static_cast<std::int64_t>(line);
}

namespace {
class Search {
public:
  using Measure = std::function<Result<std::uint64_t>(std::int64_t)>;
  Search(const Measure &measure, std::uint64_t budget, Largest given,
         std::int64_t most)
      : measure(measure), budget(budget), given(given.size), most(most) {
    known[given.size] = given.bytes;
    if (given.bytes <= budget)
      found = std::move(given);
  }

  void bisect();
  void climb();
  Largest take();

private:
  bool fits(std::int64_t n);

  const Measure &measure;
  std::uint64_t budget;
  std::int64_t given, most;
  std::map<std::int64_t, std::uint64_t> known; ///< Bytes of each legal size.
  Largest found;
};
} // namespace

bool Search::fits(std::int64_t n) {
  if (n > most)
    return false;
  if (auto before = known.find(n);
      before != known.end() && before->second > budget)
    return false;
  Result<std::uint64_t> bytes = measure(n);
  if (!bytes) {
    found.limit = bytes.error().message;
    return false;
  }
  known[n] = *bytes;
  if (*bytes > budget)
    return false;
  found.size = n;
  found.bytes = *bytes;
  return true;
}

/// Extrapolates linearly from known sizes, then bisects the remaining range.
void Search::bisect() {
  constexpr int kFollowed = 8;
  std::int64_t high = found.size ? most + 1 : given; // Does not fit.
  for (int round = 0; found.size + 1 < high; ++round) {
    std::int64_t next =
        high > most ? 2 * found.size : found.size + (high - found.size) / 2;
    if (auto line = round < kFollowed ? follow(known, budget) : std::nullopt)
      next = *line + round % 2;
    next = std::clamp(next, found.size + 1, high - 1);
    if (!fits(next))
      high = next;
  }
}

/// Tries multiples of powers of two above the largest size that fits.
void Search::climb() {
  auto unit = std::bit_floor(static_cast<std::uint64_t>(found.size)) / 4;
  for (std::int64_t step = unit; step > 0; step /= 2)
    while (fits((found.size / step + 1) * step)) {
    }
}

Largest Search::take() {
  if (auto above = known.upper_bound(found.size);
      above != known.end() && above->second > budget)
    found.limit.clear();
  if (found.size == most)
    found.limit = "not tried";
  return std::move(found);
}

Largest
findLargest(const std::function<Result<std::uint64_t>(std::int64_t)> &measure,
            std::uint64_t budget, Largest given, std::int64_t most,
            bool isUneven) {
  Search search(measure, budget, std::move(given), most);
  search.bisect();
  if (isUneven)
    search.climb();
  return search.take();
}
