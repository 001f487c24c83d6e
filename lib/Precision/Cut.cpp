//===- Cut.cpp - Formats of least cost ------------------------------------===//
// Prices of ops and casts by the costs of a target; FormatCosts does the rest.
//===----------------------------------------------------------------------===//

#include "FormatCosts.h"
#include "binade/Precision/Assigner.h"
#include "mlir/IR/TypeUtilities.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

static int64_t countElements(Value value) {
  return cast<ShapedType>(value.getType()).getNumElements();
}

static Cost toCost(double seconds) {
  constexpr double kPicoseconds = 1e12;
  return std::llround(std::min(seconds * kPicoseconds, double(kForbidden) / 2));
}

namespace {
/// The problem of one graph.
class Pricing {
public:
  explicit Pricing(const PrecisionGraph &graph)
      : graph(graph), policy(graph.getPolicy()),
        formats(getFormatChoices(policy)), chosen(formats.size()) {
    for (unsigned i = 0, e = graph.getNodes().size(); i < e; ++i) {
      if (FloatType compute = graph.getNodes()[i].compute)
        addFormat(compute);
      if (FloatType settled = graph.getSettledFormat(i))
        addFormat(settled);
      for (const PrecisionInput &input : graph.getInputs(i))
        addFormat(cast<FloatType>(getElementTypeOrSelf(input.value.getType())));
    }
  }

  std::vector<Choice> solve() const {
    FormatCosts problem(formats.size(), chosen);
    for (unsigned i = 0, e = graph.getNodes().size(); i < e; ++i)
      problem.addNode(getPrices(i));
    for (FormatCosts::Value &value : getValues())
      problem.addValue(std::move(value));
    std::vector<Choice> choices;
    for (auto [node, format] : llvm::zip(graph.getNodes(), problem.minimize()))
      choices.push_back(
          {formats[format],
           isFree(node) ? "is cheapest so, with what it reads" : "",
           {}});
    return choices;
  }

private:
  void addFormat(FloatType format) {
    if (!llvm::is_contained(formats, format))
      formats.push_back(format);
  }

  unsigned getIndex(FloatType format) const {
    return llvm::find(formats, format) - formats.begin();
  }

  static bool isFree(const PrecisionNode &node) {
    return !node.compute && node.precisionClass != PrecisionClass::Deny &&
           node.precisionClass != PrecisionClass::Unlisted;
  }

  /// Formats that only pins have are as fast as the wide one.
  const FormatRates &getRates(FloatType format) const {
    const FormatRates *rates = policy.cut->target.find(format);
    return rates ? *rates : *policy.cut->target.find(policy.wide);
  }

  double getPenalty(FloatType format) const {
    for (const CutFormat &choice : policy.cut->formats)
      if (choice.format == format)
        return choice.penalty;
    return 0;
  }

  std::vector<Cost> getPrices(unsigned index) const {
    const PrecisionNode &node = graph.getNodes()[index];
    std::vector<Cost> prices(formats.size(), kForbidden);
    if (isFree(node))
      for (unsigned format = 0; format < chosen; ++format)
        prices[format] = getPrice(node, formats[format]);
    else
      prices[node.compute ? getIndex(node.compute) : 0] = 0;
    return prices;
  }

  Cost getPrice(const PrecisionNode &node, FloatType format) const {
    PrecisionOpInterface op = node.op;
    const FormatRates &rates = getRates(format);
    double seconds = countTraffic(op) / rates.elements;
    if (std::optional<int64_t> products = op.countProducts())
      seconds += *products / rates.products;
    if (node.precisionClass == PrecisionClass::Infer && format != policy.wide)
      seconds += getPenalty(format);
    if (isa<SaveOp>(*op) && !node.result) {
      constexpr double kGiB = 1 << 30;
      seconds += policy.cut->memory / kGiB *
                 llvm::divideCeil(format.getIntOrFloatBitWidth(), 8) *
                 countElements(op->getResult(0));
    }
    return toCost(seconds);
  }

  /// Elements that the op moves in the chosen format; views move none.
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

  /// Every value that a node reads, in the order of first reading.
  std::vector<FormatCosts::Value> getValues() const {
    std::vector<FormatCosts::Value> values;
    DenseMap<Value, unsigned> known;
    for (unsigned i = 0, e = graph.getNodes().size(); i < e; ++i)
      for (const PrecisionInput &input : graph.getInputs(i)) {
        auto [entry, isNew] = known.try_emplace(input.value, values.size());
        if (isNew)
          values.push_back(describe(input));
        std::vector<unsigned> &readers = values[entry->second].readers;
        if (readers.empty() || readers.back() != i)
          readers.push_back(i);
      }
    return values;
  }

  FormatCosts::Value describe(const PrecisionInput &input) const {
    FormatCosts::Value value;
    FloatType settled =
        input.producer
            ? graph.getSettledFormat(*input.producer)
            : cast<FloatType>(getElementTypeOrSelf(input.value.getType()));
    if (settled)
      value.format = getIndex(settled);
    else
      value.producer = input.producer;
    for (FloatType from : formats)
      for (FloatType to : formats)
        value.casts.push_back(
            from == to ? 0 : toCost(getCastTime(input.value, from, to)));
    return value;
  }

  /// A cast of what an op makes is written by that op's kernel; one of an
  /// argument is a kernel of its own.
  double getCastTime(Value value, FloatType from, FloatType to) const {
    double elements = countElements(value);
    double seconds = elements / getRates(to).elements;
    if (isa<BlockArgument>(value))
      seconds += policy.cut->target.launch + elements / getRates(from).elements;
    return seconds;
  }

  const PrecisionGraph &graph;
  const Policy &policy;
  /// Those to choose from, then those that are settled somewhere.
  SmallVector<FloatType> formats;
  unsigned chosen;
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
