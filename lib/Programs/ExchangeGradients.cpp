//===- ExchangeGradients.cpp - Sums of gradients over a group -------------===//

#include "Results.h"
#include "binade/Container/ExchangeLayout.h"
#include "binade/IR/Build.h"
#include "binade/IR/DelayedScales.h"
#include "binade/IR/ExchangeOps.h"
#include "binade/IR/Movement.h"
#include "binade/Programs/Passes.h"
#include "mlir/Analysis/TopologicalSortUtils.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::binade {
#define GEN_PASS_DEF_EXCHANGEGRADIENTSPASS
#include "binade/Programs/Passes.h.inc"

/// Buckets of gradients by default: enough that most of the exchange can begin
/// before the backward pass ends, and not so large that the last is late.
static constexpr int64_t kBuckets = 8;
static constexpr int64_t kMaxBucketBytes = 25 << 20;

namespace {
class Exchanger {
public:
  Exchanger(func::FuncOp step, ExchangeFormat format, int64_t batches,
            int64_t bucketBytes)
      : step(step), format(format), batches(batches), bucketBytes(bucketBytes),
        b(step.getLoc(), step.getContext()) {}

  LogicalResult run() {
    bool isExact = format == ExchangeFormat::Exact;
    if (!isExact && batches > 1 && failed(accumulateGradients(step, batches)))
      return failure();
    if (isExact)
      step.walk([&](UnscaleFactorOp op) { op.setBatches(batches); });
    collectGradients();
    if (gradients.empty())
      return step.emitError(
          "has no gradients that ranks could exchange; run this "
          "pass before gradients are materialized");
    divideIntoBuckets();
    collectMagnitudes();
    if (isExact) {
      addSums();
      if (batches > 1)
        extractAccumulation();
    }
    build();
    return checkState();
  }

private:
  /// Lists the gradients in the order in which they are complete.
  void collectGradients();
  void divideIntoBuckets();
  /// Lists the magnitudes of delayed scales, on which ranks have to agree.
  void collectMagnitudes();
  /// Adds an argument with a fixed-point sum for each bucket.
  void addSums();
  /// Adds the program that adds the gradients of a batch to these.
  void extractAccumulation();
  void build();
  void replaceGradients(ExchangeOp exchange);
  /// Lets the updates draw random numbers from `last` instead of `rng`.
  void replaceRandom(Value rng, Value last);
  Value rebuild(Value value, IRMapping &mapping);
  /// Checks that no state depends on values of one rank.
  LogicalResult checkState();

  ArrayRef<Value> getBucket(unsigned index) const {
    int64_t first = 0;
    for (int64_t size : ArrayRef(buckets).take_front(index))
      first += size;
    return ArrayRef(gradients).slice(first, buckets[index]);
  }

  func::FuncOp step;
  ExchangeFormat format;
  int64_t batches, bucketBytes;
  ImplicitLocOpBuilder b;
  /// The gradients as f32, by the values that the optimizer reads.
  llvm::MapVector<Value, Value> wide;
  SmallVector<Value> gradients; ///< The f32 values in order.
  SmallVector<int64_t> buckets; ///< The number of gradients of each.
  SmallVector<Port> magnitudes; ///< Results with magnitudes.
  SmallVector<Value> sums;
};
} // namespace

static bool isBefore(Value l, Value r) {
  Operation *left = l.getDefiningOp(), *right = r.getDefiningOp();
  if (!left || !right)
    return !left && right;
  return left != right && left->isBeforeInBlock(right);
}

void Exchanger::collectGradients() {
  for (auto update : step.front().getOps<OptimizerUpdateOp>())
    wide.insert({update.getGradient(), Value()});
  for (auto &[gradient, value] : wide) {
    b.setInsertionPointAfterValue(gradient);
    b.setLoc(gradient.getLoc());
    value = buildCast(b, gradient, b.getF32Type());
    if (Operation *cast = value == gradient ? nullptr : value.getDefiningOp())
      setPhase(cast, Phase::Backward);
    gradients.push_back(value);
  }
  llvm::stable_sort(gradients, isBefore);
}

void Exchanger::divideIntoBuckets() {
  int64_t total = 0;
  for (Value gradient : gradients)
    total += getByteSize(gradient.getType());
  int64_t limit =
      bucketBytes ? bucketBytes
                  : std::clamp<int64_t>(total / kBuckets, 1, kMaxBucketBytes);
  int64_t bytes = limit;
  for (Value gradient : gradients) {
    if (bytes >= limit) {
      buckets.push_back(0);
      bytes = 0;
    }
    ++buckets.back();
    bytes += getByteSize(gradient.getType());
  }
}

void Exchanger::collectMagnitudes() {
  for (const Port &port : getResults(step, Role::Buffer))
    if (port.name.starts_with(kAmaxPrefix) ||
        port.name.starts_with(kAmaxHistoryPrefix))
      magnitudes.push_back(port);
}

void Exchanger::addSums() {
  SmallVector<NewArgument> arguments;
  for (unsigned index = 0; index < buckets.size(); ++index) {
    RankedTensorType type = ExchangeAddOp::getSumType(getBucket(index));
    arguments.push_back({"exchange/" + std::to_string(index), type,
                         step.getLoc(), b.getZeroAttr(type)});
  }
  sums = addArguments(step, Role::Accumulator, arguments);
}

void Exchanger::extractAccumulation() {
  IRMapping mapping;
  func::FuncOp function = copyStep(step, kAccumulationName, mapping);
  ImplicitLocOpBuilder own(step.getLoc(), step.getContext());
  own.setInsertionPoint(function.front().getTerminator());
  SmallVector<NewResult> results;
  for (unsigned index = 0; index < buckets.size(); ++index) {
    auto inside = llvm::map_to_vector(getBucket(index), [&](Value gradient) {
      return mapping.lookup(gradient);
    });
    auto add = ExchangeAddOp::create(own, sums[index].getType(),
                                     mapping.lookup(sums[index]), inside);
    setPhase(add, Phase::Backward);
    results.push_back({Role::Accumulator, "exchange/" + std::to_string(index),
                       add.getAfter()});
  }
  makeAccumulation(function, std::move(results), batches);
}

void Exchanger::build() {
  SmallVector<Value> amax;
  for (const Port &port : magnitudes)
    amax.push_back(getResultValue(step, port.index));
  std::optional<Port> rng = findArgument(step, Role::Rng, "rng");
  Value generator = rng ? Value(step.getArgument(rng->index)) : Value();
  SmallVector<Type> types;
  for (Value value : llvm::concat<Value>(gradients, amax))
    types.push_back(value.getType());
  if (generator)
    types.push_back(generator.getType());
  Value latest = gradients.front();
  for (Value value : llvm::concat<Value>(gradients, amax))
    if (isBefore(latest, value))
      latest = value;
  b.setInsertionPointAfterValue(latest);
  b.setLoc(step.getLoc());
  auto exchange = ExchangeOp::create(b, types, format, gradients, amax,
                                     generator, sums, buckets);
  setPhase(exchange, Phase::Backward);
  replaceGradients(exchange);
  for (auto [port, value] : llvm::zip(magnitudes, exchange.getLargest()))
    setResult(step, port.index, value);
  if (generator)
    replaceRandom(generator, exchange.getLast());
  // Ops of the optimizer may stand before gradients that they do not read.
  sortTopologically(&step.front());
}

void Exchanger::replaceGradients(ExchangeOp exchange) {
  llvm::DenseMap<Value, Value> summed;
  for (auto [gradient, value] : llvm::zip(gradients, exchange.getSummed()))
    summed[gradient] = value;
  Operation *terminator = step.front().getTerminator();
  for (auto &[gradient, value] : wide) {
    Value sum = summed[value];
    gradient.replaceUsesWithIf(sum, [&](OpOperand &use) {
      return use.getOwner() != terminator &&
             getPhase(use.getOwner()) == Phase::Optimizer;
    });
    for (const Port &port : getResults(step, Role::Gradient))
      if (getResultValue(step, port.index) == gradient)
        setResult(step, port.index, sum);
  }
}

Value Exchanger::rebuild(Value value, IRMapping &mapping) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (!op || op->hasTrait<OpTrait::ConstantLike>())
    return value;
  bool hasChanged = false;
  for (Value operand : op->getOperands())
    hasChanged |= rebuild(operand, mapping) != operand;
  if (!hasChanged)
    return value;
  Operation *copy = b.clone(*op, mapping);
  setPhase(copy, Phase::Optimizer);
  return mapping.lookup(value);
}

void Exchanger::replaceRandom(Value rng, Value last) {
  IRMapping mapping;
  mapping.map(rng, last);
  auto replace = [&](MutableOperandRange operands) {
    for (OpOperand &operand : operands)
      operand.set(rebuild(operand.get(), mapping));
  };
  for (auto update :
       llvm::to_vector(step.front().getOps<OptimizerUpdateOp>())) {
    b.setInsertionPoint(update);
    replace(update.getRandomMutable());
  }
  b.setInsertionPoint(step.front().getTerminator());
  for (const Port &port : getResults(step, Role::Rng))
    setResult(step, port.index,
              rebuild(getResultValue(step, port.index), mapping));
}

LogicalResult Exchanger::checkState() {
  llvm::DenseSet<Value> local;
  for (BlockArgument argument : step.getArguments())
    if (std::optional<Port> port = getArgument(step, argument.getArgNumber());
        port && (port->role == Role::Batch || port->role == Role::Rng ||
                 port->role == Role::Accumulator))
      local.insert(argument);
  for (Operation &op : step.front().without_terminator())
    if (!isa<ExchangeOp>(op) &&
        llvm::any_of(op.getOperands(),
                     [&](Value value) { return local.contains(value); }))
      local.insert(op.result_begin(), op.result_end());
  for (Role role : {Role::Parameter, Role::State, Role::Scaler, Role::Step})
    for (const Port &port : getResults(step, role))
      if (local.contains(getResultValue(step, port.index)))
        return step.emitError()
               << stringifyRole(role) << " '" << port.name
               << "' would differ between the ranks of a group, because it "
                  "depends on values that they do not exchange; use a policy "
                  "without 'underflow' and 'per_tensor' of "
                  "'loss_scale', and an optimizer that reads only gradients";
  return success();
}

namespace {
struct ExchangeGradientsPass
    : impl::ExchangeGradientsPassBase<ExchangeGradientsPass> {
  using Base::Base;

  /// Returns the format to use; nothing after an error.
  std::optional<ExchangeFormat> findFormat() {
    std::string word = format;
    if (word == "policy") {
      auto chosen = getOperation()->getAttrOfType<StringAttr>(kExchangeAttr);
      word = chosen ? chosen.str() : "f32";
    }
    std::optional<ExchangeFormat> found = symbolizeExchangeFormat(word);
    if (!found)
      getOperation().emitError("expected an exchange in f32, bf16, e4m3, exact "
                               "or policy, got '")
          << word << "'";
    return found;
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>(kStepName);
    if (!step || !step.front().getOps<ExchangeOp>().empty())
      return;
    std::optional<ExchangeFormat> chosen = findFormat();
    if (!chosen || failed(checkBatches(module, *chosen)) ||
        failed(Exchanger(step, *chosen, batches, bucketBytes).run()))
      signalPassFailure();
  }

  LogicalResult checkBatches(ModuleOp module, ExchangeFormat chosen) {
    constexpr int64_t most = ::binade::ExchangeLayout::kMaxBatches;
    int64_t count = batches;
    if (count < 1)
      return module.emitError("expected at least one batch per step, got ")
             << count;
    if (chosen == ExchangeFormat::Exact && count > most)
      return module.emitError("an exact sum has at most ")
             << most << " batches, got " << count;
    if (module.lookupSymbol(kAccumulationName))
      return module.emitError("accumulates gradients already, so that ranks "
                              "cannot exchange them");
    return success();
  }
};
} // namespace
} // namespace mlir::binade
