//===- Cut.cpp - The assigner that minimizes run time ---------------------===//
//
// Computes the cost of each op and cast in each format from the rates of the
// target. FormatCosts finds the cheapest formats.
//
//===----------------------------------------------------------------------===//

#include "FormatCosts.h"
#include "binade/IR/QuantizedOperands.h"
#include "binade/Precision/Assigner.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace mlir::binade;

static int64_t countElements(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

static Cost toCost(double seconds) {
  constexpr double kPicoseconds = 1e12;
  return std::llround(std::min(seconds * kPicoseconds, double(kForbidden) / 2));
}

namespace {
/// The optimization problem of one graph.
class Pricing {
public:
  explicit Pricing(const PrecisionGraph &graph)
      : graph(graph), policy(graph.getPolicy()),
        formats(getFormatChoices(policy)), chosen(formats.size()) {
    addQuantizedChoice();
    for (const PrecisionNode &node : graph.getNodes()) {
      addFormat(node.compute);
      addFormat(node.settled);
    }
    forEachInput([&](unsigned, const PrecisionInput &input) {
      if (!input.producer)
        addFormat(graph.getStoredFormat(input.value));
    });
    // Other formats, such as those of pins, count as fast as the wide one.
    const TargetCosts &target = policy.cut->target;
    const FormatRates &wide = *target.find(policy.wide);
    for (FloatType format : formats) {
      const FormatRates *found = target.find(format);
      rates.push_back(found ? *found : wide);
      rates.back().products =
          discardNoise(rates.back().products, wide.products);
      rates.back().elements =
          discardNoise(rates.back().elements, wide.elements);
    }
  }

  std::vector<Choice> solve() const {
    FormatCosts problem(formats.size(), chosen);
    problem.reserve(graph.getNodes().size(), graph.getNumValues());
    std::vector<Cost> prices;
    for (unsigned i = 0, e = graph.getNodes().size(); i < e; ++i) {
      findPrices(i, prices);
      problem.addNode(prices);
    }
    addValues(problem);
    addQuantizations(problem);
    std::vector<Choice> choices;
    choices.reserve(graph.getNodes().size());
    for (auto [node, format] : llvm::zip(graph.getNodes(), problem.minimize()))
      choices.push_back(
          {formats[format],
           isFree(node) ? "is cheapest in this format, casts included" : "",
           {},
           /*quantizes=*/!quantized || isQuantized(format) || !isFree(node)});
    return choices;
  }

private:
  /// If the time to quantize is known, adds the narrow format again, for
  /// contractions that quantize their operands.
  void addQuantizedChoice() {
    if (!graph.quantizesOperands() || policy.cut->target.quantized.empty())
      return;
    FloatType narrow =
        llvm::is_contained(formats, policy.narrow) ? policy.narrow : formats[1];
    if (narrow == policy.wide)
      return;
    quantized = chosen++;
    formats.push_back(narrow);
  }
  bool isQuantized(unsigned format) const { return quantized == format; }

  /// Whether a rule asks for a quantized operand of the node, and the choice is
  /// free.
  bool mayQuantize(const PrecisionNode &node) const {
    PrecisionOpInterface op = node.op;
    return quantized &&
           llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
             return bool(getQuantizedFormat(node, operand));
           });
  }

  /// Returns the wide format's rate if `rate` exceeds it by less than the noise
  /// of measurements, else `rate`.
  static double discardNoise(double rate, double wide) {
    constexpr double kNoise = 0.1;
    return rate > wide && rate < (1 + kNoise) * wide ? wide : rate;
  }

  void addFormat(FloatType format) {
    if (format && !llvm::is_contained(formats, format))
      formats.push_back(format);
  }

  unsigned getIndex(FloatType format) const {
    return llvm::find(formats, format) - formats.begin();
  }

  static bool isFree(const PrecisionNode &node) {
    return !node.compute && node.precisionClass != PrecisionClass::Deny &&
           node.precisionClass != PrecisionClass::Unlisted;
  }

  double getPenalty(FloatType format) const {
    for (const CutFormat &choice : policy.cut->formats)
      if (choice.format == format)
        return choice.penalty;
    return 0;
  }

  void findPrices(unsigned index, std::vector<Cost> &prices) const {
    const PrecisionNode &node = graph.getNodes()[index];
    prices.assign(formats.size(), kForbidden);
    bool quantizes = mayQuantize(node);
    if (!isFree(node)) {
      bool isSettled = quantizes && node.compute == formats[*quantized];
      prices[isSettled      ? *quantized
             : node.compute ? getIndex(node.compute)
                            : 0] = 0;
      return;
    }
    PrecisionOpInterface op = node.op;
    double traffic = countTraffic(op);
    std::optional<int64_t> products = op.countMacs();
    bool isSaved = isa<SaveOp>(*op) && !node.result;
    for (unsigned i = 0; i < chosen; ++i) {
      if (!node.fits(formats[i]) || (isQuantized(i) && !quantizes))
        continue;
      double seconds = traffic / rates[i].elements;
      if (products)
        seconds += isQuantized(i) ? predictQuantized(node, *products)
                                  : predictProducts(op, *products, i);
      if (node.precisionClass == PrecisionClass::Infer && i > 0)
        seconds += getPenalty(formats[i]);
      if (isSaved)
        seconds += getSavedCost(op->getResult(0), formats[i]);
      prices[i] = toCost(seconds);
    }
  }

  /// Returns the seconds of the multiply-adds of `op` in a format. A GPU has a
  /// prediction for each shape.
  double predictProducts(PrecisionOpInterface op, int64_t macs,
                         unsigned format) const {
    const GpuCosts *gpu = policy.cut->target.gpu;
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!gpu || !type || type.getRank() == 0 || type.getNumElements() == 0)
      return macs / rates[format].products;
    MatmulShape shape =
        MatmulShape::get(type.getNumElements(), type.getShape().back(), macs);
    shape.bytes = shape.outBytes =
        llvm::divideCeil(formats[format].getIntOrFloatBitWidth(), 8);
    return gpu->predictMatmul(shape);
  }

  /// Returns the seconds in which a contraction dequantizes and multiplies
  /// quantized operands.
  double predictQuantized(const PrecisionNode &node, int64_t macs) const {
    PrecisionOpInterface op = node.op;
    double seconds = 0, rate = HUGE_VAL;
    for (OpOperand &operand : op->getOpOperands())
      if (QuantizedAttr format = getQuantizedFormat(node, operand)) {
        const QuantizedRates &found = *policy.cut->target.find(format);
        seconds += countElements(operand.get()) / found.dequantize;
        rate = std::min(rate, found.products);
      }
    return seconds + macs / discardNoise(rate, rates[*quantized].products);
  }

  /// Returns the cost, in seconds, of the memory of a value saved for backward.
  double getSavedCost(Value value, FloatType format) const {
    constexpr double kGiB = 1 << 30;
    return policy.cut->memory / kGiB *
           llvm::divideCeil(format.getIntOrFloatBitWidth(), 8) *
           countElements(value);
  }

  /// Returns the number of elements that the op reads and writes in the chosen
  /// format; 0 for views.
  static double countTraffic(PrecisionOpInterface op) {
    auto kernel = dyn_cast<KernelOpInterface>(op.getOperation());
    if (!kernel || kernel.getSchedule() == Schedule::View)
      return 0;
    double elements = 0;
    for (OpOperand &operand : op->getOpOperands())
      if (op.getOperandFormat(operand.getOperandNumber()) == FormatRole::Chosen)
        elements += countElements(operand.get());
    for (OpResult result : op->getResults())
      if (op.getResultFormat(result.getResultNumber()) == FormatRole::Chosen)
        elements += countElements(result);
    return elements;
  }

  template <typename Visit> void forEachInput(Visit visit) const {
    for (unsigned i = 0, e = graph.getNodes().size(); i < e; ++i)
      for (const PrecisionInput &input : graph.getInputs(i))
        visit(i, input);
  }

  /// Adds every value that a node reads.
  void addValues(FormatCosts &problem) const {
    std::vector<const PrecisionInput *> values(graph.getNumValues());
    std::vector<unsigned> first(values.size() + 1);
    forEachInput([&](unsigned, const PrecisionInput &input) {
      values[input.number] = &input;
      ++first[input.number + 1];
    });
    std::partial_sum(first.begin(), first.end(), first.begin());
    std::vector<unsigned> readers(first.back()), end(first);
    forEachInput([&](unsigned reader, const PrecisionInput &input) {
      unsigned &next = end[input.number];
      if (next == first[input.number] || readers[next - 1] != reader)
        readers[next++] = reader;
    });
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i])
        addValue(problem, *values[i],
                 ArrayRef(readers).slice(first[i], end[i] - first[i]));
  }

  void addValue(FormatCosts &problem, const PrecisionInput &input,
                ArrayRef<unsigned> readers) const {
    FloatType settled = input.producer
                            ? graph.getNodes()[*input.producer].settled
                            : graph.getStoredFormat(input.value);
    double elements = countElements(input.value);
    // The kernel of a producer also writes casts of its result; the cast of an
    // argument is a kernel of its own.
    bool isOwnKernel = isa<BlockArgument>(input.value);
    bool isReadNarrow = isReadUnquantized(input.value, readers);
    SmallVector<Cost> casts;
    for (unsigned from = 0; from < formats.size(); ++from)
      for (unsigned to = 0; to < formats.size(); ++to) {
        double seconds = elements / rates[to].elements;
        if (isOwnKernel)
          seconds +=
              policy.cut->target.launch + elements / rates[from].elements;
        bool costsNothing =
            formats[from] == formats[to] || (isQuantized(to) && !isReadNarrow);
        casts.push_back(costsNothing ? 0 : toCost(seconds));
      }
    problem.addValue(settled ? std::nullopt : input.producer,
                     settled ? getIndex(settled) : 0, readers, casts);
  }

  /// Whether a contraction that may quantize its operands reads `value` without
  /// quantizing it.
  bool isReadUnquantized(Value value, ArrayRef<unsigned> readers) const {
    return quantized && llvm::any_of(readers, [&](unsigned reader) {
             const PrecisionNode &node = graph.getNodes()[reader];
             PrecisionOpInterface op = node.op;
             return mayQuantize(node) &&
                    llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
                      return operand.get() == value &&
                             !getQuantizedFormat(node, operand);
                    });
           });
  }

  /// Adds every value that contractions may quantize, once for each format. It
  /// is quantized if one of them does so, at the same cost from any format. A
  /// value and its saved copy share the quantized tensor.
  void addQuantizations(FormatCosts &problem) const {
    if (!quantized)
      return;
    llvm::MapVector<std::pair<Value, QuantizedAttr>, SmallVector<unsigned>>
        readers;
    for (auto [index, node] : llvm::enumerate(graph.getNodes())) {
      PrecisionOpInterface op = node.op;
      for (OpOperand &operand : op->getOpOperands())
        if (QuantizedAttr format = getQuantizedFormat(node, operand)) {
          Value value = operand.get();
          while (auto save = value.getDefiningOp<SaveOp>())
            value = save.getX();
          auto &list = readers[{value, orientScales(operand, format)}];
          if (list.empty() || list.back() != index)
            list.push_back(index);
        }
    }
    const TargetCosts &target = policy.cut->target;
    for (const auto &[key, list] : readers) {
      double elements = countElements(key.first);
      std::vector<Cost> casts(formats.size() * formats.size());
      for (unsigned from = 0; from < formats.size(); ++from)
        if (!isQuantized(from))
          casts[from * formats.size() + *quantized] = toCost(
              target.launch + elements / target.find(key.second)->quantize);
      problem.addValue(std::nullopt, /*format=*/0, list, casts);
    }
  }

  const PrecisionGraph &graph;
  const Policy &policy;
  /// The formats to choose from, then those that are fixed somewhere.
  SmallVector<FloatType> formats;
  unsigned chosen;
  /// The choice in `formats` of contractions with quantized operands.
  std::optional<unsigned> quantized;
  SmallVector<FormatRates> rates;
};

class Cut : public Assigner {
public:
  std::vector<Choice> assign(const PrecisionGraph &graph) const override {
    return Pricing(graph).solve();
  }
};
} // namespace

std::unique_ptr<Assigner> mlir::binade::createCut() {
  return std::make_unique<Cut>();
}
