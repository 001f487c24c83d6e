//===- Emulation.cpp - Formats that a target emulates ---------------------===//

#include "binade/Pipelines/Emulation.h"
#include "binade/Codegen/CastCost.h"
#include "binade/IR/Movement.h"
#include "binade/Pipelines/Target.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::binade;

/// Whether `type` has fewer than 16 bits or is TF32, whose values are stored as
/// f32.
static bool isNarrow(Type type) {
  auto format = dyn_cast<FloatType>(type);
  return format && (format.getWidth() < 16 || isa<FloatTF32Type>(format));
}

namespace {
class EmulationFinder {
public:
  explicit EmulationFinder(const Target &target) : target(target) {}

  void visit(Operation *op);
  std::vector<EmulatedFormat> take() const {
    auto found = llvm::make_second_range(formats);
    return {found.begin(), found.end()};
  }

private:
  void addConversions(Operation *op);
  void addContractions(Operation *op);
  EmulatedFormat &get(Type format);

  const Target &target;
  llvm::MapVector<Type, EmulatedFormat> formats;
};
} // namespace

/// Returns the narrow formats of operands, results and attributes of `op`.
static SetVector<Type> findFormats(Operation *op) {
  SetVector<Type> found;
  auto add = [&](Type type) {
    if (Type element = getElementTypeOrSelf(type); isNarrow(element))
      found.insert(element);
  };
  for (Value value : op->getOperands())
    add(value.getType());
  for (Value value : op->getResults())
    add(value.getType());
  // Quantized values of fewer than 8 bits have the type i8; an attribute has
  // the format.
  op->getAttrDictionary().walk([&](Type type) { add(type); });
  return found;
}

EmulatedFormat &EmulationFinder::get(Type format) {
  auto [entry, isNew] = formats.try_emplace(format);
  if (isNew) {
    entry->second.type = format;
    if (cast<FloatType>(format).getWidth() < 16) {
      CastCost cost = getCastCost(cast<FloatType>(format));
      entry->second.instructions = std::max(cost.encode, cost.decode);
    }
  }
  return entry->second;
}

/// Returns the number of elements of `format` in an operand or result of `op`;
/// if none has this type, the size of the largest value.
static int64_t countElements(Operation *op, Type format) {
  int64_t largest = 0, own = 0;
  auto add = [&](Value value) {
    int64_t count = getNumElements(value);
    largest = std::max(largest, count);
    if (getElementTypeOrSelf(value.getType()) == format)
      own = std::max(own, count);
  };
  llvm::for_each(op->getOperands(), add);
  llvm::for_each(op->getResults(), add);
  return own ? own : largest;
}

/// Whether `op` reads or returns a wide float. Ops that only move quantized
/// values do not, and convert nothing.
static bool hasWideFloat(Operation *op) {
  auto isWide = [](Type type) {
    auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
    return element && !isNarrow(element);
  };
  return llvm::any_of(op->getOperandTypes(), isWide) ||
         llvm::any_of(op->getResultTypes(), isWide);
}

void EmulationFinder::addConversions(Operation *op) {
  if (!hasWideFloat(op))
    return;
  for (Type format : findFormats(op)) {
    if (target.converts(format, op))
      continue;
    EmulatedFormat &own = get(format);
    ++own.conversions;
    own.elements += countElements(op, format);
  }
}

void EmulationFinder::addContractions(Operation *op) {
  SetVector<Type> multiplied;
  for (Type format : findFormats(op))
    if (!target.converts(format, op))
      multiplied.insert(format);
  for (Value operand : op->getOperands()) {
    Type element = getElementTypeOrSelf(operand.getType());
    if (isa<FloatType>(element) && !isNarrow(element) &&
        !target.multiplies(element))
      multiplied.insert(element);
    if (Operation *decode = findBase(operand).getDefiningOp())
      for (Type format : findFormats(decode))
        if (!target.converts(format, decode))
          multiplied.insert(format);
  }
  for (Type format : multiplied)
    ++get(format).contractions;
}

void EmulationFinder::visit(Operation *op) {
  auto decided = dyn_cast<PrecisionOpInterface>(op);
  if (decided && decided.countMacs())
    addContractions(op);
  else
    addConversions(op);
}

/// Returns a target, or the CPU if no target has this name, which is reported
/// elsewhere.
static std::unique_ptr<Target> findTargetOrCpu(StringRef name) {
  std::unique_ptr<Target> target = findTarget(name);
  return target ? std::move(target) : findTarget("");
}

std::vector<EmulatedFormat>
mlir::binade::findEmulatedFormats(func::FuncOp step, StringRef target) {
  std::unique_ptr<Target> found = findTargetOrCpu(target);
  EmulationFinder finder(*found);
  step.walk([&](Operation *op) { finder.visit(op); });
  return finder.take();
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

static std::string count(int64_t number, StringRef what) {
  return (Twine(number) + " " + what + (number == 1 ? "" : "s")).str();
}

static std::string describe(const EmulatedFormat &format) {
  std::string text = llvm::formatv("{0}:", format.type);
  if (format.conversions > 0)
    text += llvm::formatv(" {0}, of {1} in a step",
                          count(format.conversions, "conversion"),
                          count(format.elements, "element"));
  if (format.instructions > 0)
    text += llvm::formatv(", {0} instructions each", format.instructions);
  if (format.contractions > 0)
    text += llvm::formatv("{0} {1}, in a wider format",
                          format.conversions > 0 ? ";" : "",
                          count(format.contractions, "contraction"));
  return text;
}

/// Returns a time in the largest of ms, us and ns in which it is at least 1.
static std::string formatTime(double seconds) {
  constexpr double kPrefix = 1e3;
  double number = seconds * kPrefix;
  const char *unit = "ms";
  for (const char *smaller : {"us", "ns"})
    if (number < 1) {
      number *= kPrefix;
      unit = smaller;
    }
  return llvm::formatv("{0:f1} {1}", number, unit);
}

/// Predicts the cost of the conversions, assuming that nothing else limits the
/// kernels.
static std::string predict(ArrayRef<EmulatedFormat> formats, StringRef target) {
  double instructions = 0;
  for (const EmulatedFormat &format : formats)
    instructions += double(format.elements) * format.instructions;
  std::optional<Target::Throughput> rate =
      findTargetOrCpu(target)->getThroughput();
  if (!rate)
    return llvm::formatv("predicted cost: at most {0:e2} instructions a step",
                         instructions);
  return llvm::formatv("predicted cost: at most {0:e2} instructions a step, "
                       "{1} on {2}",
                       instructions, formatTime(instructions / rate->perSecond),
                       rate->device);
}

LogicalResult mlir::binade::reportEmulation(func::FuncOp step, StringRef target,
                                            bool isStrict) {
  if (target.empty() && !isStrict)
    return success();
  std::vector<EmulatedFormat> formats = findEmulatedFormats(step, target);
  if (formats.empty())
    return success();
  std::string names = llvm::join(
      llvm::map_range(formats,
                      [](const EmulatedFormat &format) -> std::string {
                        return llvm::formatv("{0}", format.type);
                      }),
      ", ");
  auto module = step->getParentOfType<ModuleOp>();
  InFlightDiagnostic diag =
      isStrict ? module.emitError() : module.emitWarning();
  diag << (target.empty() ? "a CPU" : target) << " has no instructions for "
       << names << ": " << (isStrict ? "refused by --strict" : "emulated");
  for (const EmulatedFormat &format : formats)
    diag.attachNote() << describe(format);
  diag.attachNote() << predict(formats, target);
  if (isStrict)
    diag.attachNote()
        << "without --strict the step is compiled and computes the same values";
  return failure(isStrict);
}
