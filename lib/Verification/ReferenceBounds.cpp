//===- ReferenceBounds.cpp - how far a record may be off ------------------===//

#include "ReferenceBounds.h"
#include "binade/Container/Philox.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/Interface.h"
#include "binade/Reference/Interpreter.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;
using ::binade::Result;

//===----------------------------------------------------------------------===//
// What adds up
//===----------------------------------------------------------------------===//

/// Whether `kernel` sums once it is taken apart.
static bool sums(func::FuncOp kernel) {
  OwningOpRef<func::FuncOp> parts(kernel.clone());
  bool changed = true;
  while (changed) {
    changed = false;
    for (Operation &op :
         llvm::make_early_inc_range(parts->front().without_terminator())) {
      auto kernelOp = dyn_cast<KernelOpInterface>(op);
      if (!kernelOp)
        continue;
      ImplicitLocOpBuilder b(op.getLoc(), &op);
      FailureOr<SmallVector<Value>> values = kernelOp.decompose(b);
      if (failed(values))
        continue;
      op.replaceAllUsesWith(*values);
      op.erase();
      changed = true;
    }
  }
  return llvm::any_of(parts->front(),
                      llvm::IsaPred<ReduceSumOp, ReduceMeanOp, GatherGradOp,
                                    GradientStatisticsOp>);
}

bool mlir::binade::mayDiffer(ModuleOp source, const plan::Record &record) {
  if (auto *launch = std::get_if<plan::Launch>(&record.body))
    return llvm::any_of(launch->segments, [&](const plan::Segment &segment) {
      return sums(findKernel(source, *launch, segment));
    });
  return !std::holds_alternative<plan::Copy>(record.body);
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

namespace {
/// What a launch computes as a function of its own.
struct LaunchFunction {
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  /// Of which access each argument and each result is.
  SmallVector<size_t> arguments, results;
};
} // namespace

/// A kernel is its own function. One over many tensors is launched by one.
static LaunchFunction buildFunction(ModuleOp source, const plan::Launch &launch,
                                    ArrayRef<Access> accesses) {
  LaunchFunction built;
  built.module = ModuleOp::create(source.getLoc());
  SmallVector<func::FuncOp> kernels;
  for (const plan::Segment &segment : launch.segments)
    kernels.push_back(findKernel(source, launch, segment));
  for (Operation &op : source.getOps())
    if (!op.hasAttr(kKernelAttr) || llvm::is_contained(kernels, &op))
      built.module->push_back(op.clone());
  SmallVector<size_t> own, shared;
  size_t access = 0;
  for (auto [index, kernel] : llvm::enumerate(kernels)) {
    for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
      built.arguments.push_back(access++);
    for (Type type : kernel.getResultTypes()) {
      bool isShared =
          isOverMany(kernel) && cast<RankedTensorType>(type).getRank() == 0;
      if (!isShared)
        own.push_back(access);
      else if (index == 0)
        shared.push_back(access);
      ++access;
    }
  }
  built.results = llvm::to_vector(llvm::concat<size_t>(own, shared));
  if (!isOverMany(kernels.front())) {
    built.function =
        built.module->lookupSymbol<func::FuncOp>(kernels.front().getName());
    return built;
  }
  auto getTypes = [&](ArrayRef<size_t> which) {
    return llvm::map_to_vector(
        which, [&](size_t i) -> Type { return accesses[i].type; });
  };
  ImplicitLocOpBuilder b(source.getLoc(), source.getContext());
  b.setInsertionPointToEnd(built.module->getBody());
  SmallVector<Type> results = getTypes(built.results);
  built.function = func::FuncOp::create(
      b, "launch", b.getFunctionType(getTypes(built.arguments), results));
  b.setInsertionPointToStart(built.function.addEntryBlock());
  auto symbols =
      llvm::map_to_vector(kernels, [&](func::FuncOp kernel) -> Attribute {
        return FlatSymbolRefAttr::get(kernel.getNameAttr());
      });
  auto op = LaunchOp::create(b, results, b.getArrayAttr(symbols),
                             built.function.getArguments());
  func::ReturnOp::create(b, op.getResults());
  return built;
}

static FailureOr<TensorRef> readTensor(const Access &access,
                                       const Bytes &bytes) {
  FailureOr<Tensor> tensor = Tensor::fromBytes(
      access.type,
      {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
  if (failed(tensor))
    return failure();
  return std::make_shared<const Tensor>(std::move(*tensor));
}

/// Takes `deviation` into account where it is the worst so far.
static void add(Judgement &judgement, size_t index, const Access &access,
                const Deviation &deviation, double value, double expected) {
  if (deviation.ratio <= judgement.ratio)
    return;
  judgement.ratio = deviation.ratio;
  if (deviation.ratio <= 1.0)
    return;
  Difference &difference = judgement.difference.emplace();
  judgement.access = index;
  difference.what = "beyond the bound of the reference";
  difference.dtype = access.dtype;
  difference.element = deviation.index;
  difference.value = value;
  difference.expected = expected;
  difference.bound = deviation.bound;
}

static Result<Judgement> judgeLaunch(ModuleOp source,
                                     const plan::Launch &launch,
                                     const Execution &execution) {
  LaunchFunction built = buildFunction(source, launch, execution.accesses);
  auto fail = [&](const char *what) {
    return ::binade::Error{"",
                           "record '" + execution.record.label + "' " + what};
  };
  NamedTensors inputs;
  for (auto [name, access] :
       llvm::zip(getArgumentNames(built.function), built.arguments)) {
    FailureOr<TensorRef> tensor =
        readTensor(execution.accesses[access], execution.before[access]);
    if (failed(tensor))
      return fail("reads bytes that are no value of its type");
    inputs[name] = *tensor;
  }
  EvaluationOptions options;
  options.bounds = true;
  DiagnosticCollector diagnostics(source.getContext());
  FailureOr<Outputs> expected =
      evaluate(*built.module, built.function.getName(), inputs, options);
  if (failed(expected))
    return diagnostics.takeError("", "a kernel cannot be evaluated");
  Judgement judgement;
  for (auto [name, access] :
       llvm::zip(getResultNames(built.function), built.results)) {
    FailureOr<TensorRef> value =
        readTensor(execution.accesses[access], execution.after[access]);
    if (failed(value))
      return fail("leaves bytes that are no value of its type");
    const Tensor &wanted = *expected->values[name];
    Deviation deviation =
        compare(**value, wanted, expected->bounds[name].get());
    add(judgement, access, execution.accesses[access], deviation,
        (*value)->getNumber(deviation.index),
        wanted.getNumber(deviation.index));
  }
  return judgement;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

namespace {
/// The exact elements of a product.
class ExactProduct {
public:
  ExactProduct(const plan::Matmul &matmul, const Execution &execution)
      : matmul(matmul), execution(execution) {}

  int64_t countElements() const {
    int64_t count = matmul.m * matmul.n;
    for (int64_t size : matmul.batch)
      count *= size;
    return count;
  }

  /// Compares element `number` of the result, counted row by row.
  void compare(int64_t number, Judgement &judgement) const {
    int64_t j = number % matmul.n, i = number / matmul.n % matmul.m;
    std::vector<int64_t> index = getBatch(number / (matmul.n * matmul.m));
    int64_t left = getOffset(matmul.lhs, index, i, 0);
    int64_t right = getOffset(matmul.rhs, index, 0, j);
    size_t rows = matmul.batch.size();
    double sum = 0, magnitude = 0;
    auto addTerm = [&](double term) {
      sum += term;
      magnitude += std::fabs(term);
    };
    for (int64_t l = 0; l < matmul.k; ++l)
      addTerm(readBefore(Lhs, left + l * matmul.lhs.strides[rows + 1]) *
              readBefore(Rhs, right + l * matmul.rhs.strides[rows]));
    double scale = readScale();
    sum *= scale;
    magnitude *= std::fabs(scale);
    int64_t out = getOffset(matmul.out, index, i, j);
    if (matmul.bias)
      addTerm(readBefore(Bias, j * matmul.bias->strides.front()));
    if (matmul.accumulate)
      addTerm(readBefore(Out, out));
    int64_t terms = matmul.k + matmul.bias.has_value() + matmul.accumulate +
                    matmul.lhsScale.has_value() + matmul.rhsScale.has_value();
    // As the reference has it for products, whose sums are f32.
    double error = 0x1p-24 * getSumConstant(terms) * magnitude;
    const Access &access = execution.accesses[Out];
    double bound = error + getSpacing(access.dtype, std::fabs(sum) + error);
    double value = readElement(access.dtype, execution.after[Out], out);
    Deviation deviation = judge(value, sum, bound);
    deviation.index = out;
    add(judgement, Out, access, deviation, value, sum);
  }

private:
  /// Of `listAccesses`. Scales follow the bias, or stand there without one.
  enum Operand { Lhs, Rhs, Out, Bias };

  /// What both scales multiply the sum by.
  double readScale() const {
    size_t first = Bias + matmul.bias.has_value();
    double scale = 1;
    for (size_t i = first; i < execution.accesses.size(); ++i)
      scale *= readElement(execution.accesses[i].dtype, execution.before[i], 0);
    return scale;
  }

  /// Numbers that overflow have no bound: an infinity agrees with one.
  static Deviation judge(double value, double expected, double bound) {
    Deviation deviation;
    deviation.bound = bound;
    deviation.difference = std::fabs(value - expected);
    if (!std::isfinite(expected) || std::isnan(bound) || std::isinf(bound))
      deviation.ratio = std::isfinite(value) ? INFINITY : 0.0;
    else
      deviation.ratio =
          deviation.difference == 0.0 ? 0.0 : deviation.difference / bound;
    if (std::isnan(deviation.ratio))
      deviation.ratio = INFINITY;
    return deviation;
  }

  std::vector<int64_t> getBatch(int64_t number) const {
    std::vector<int64_t> index(matmul.batch.size());
    for (size_t axis = index.size(); axis-- > 0;) {
      index[axis] = number % matmul.batch[axis];
      number /= matmul.batch[axis];
    }
    return index;
  }

  static int64_t getOffset(const plan::View &view, ArrayRef<int64_t> batch,
                           int64_t row, int64_t column) {
    int64_t offset = row * view.strides[batch.size()] +
                     column * view.strides[batch.size() + 1];
    for (auto [stride, index] : llvm::zip(view.strides, batch))
      offset += stride * index;
    return offset;
  }

  double readBefore(Operand operand, int64_t element) const {
    return readElement(execution.accesses[operand].dtype,
                       execution.before[operand], element);
  }

  const plan::Matmul &matmul;
  const Execution &execution;
};
} // namespace

/// All elements, or as many as take about a second.
static Judgement judgeProduct(const plan::Matmul &matmul,
                              const Execution &execution) {
  constexpr int64_t kMostTerms = 1 << 24, kFewestElements = 1024;
  ExactProduct product(matmul, execution);
  int64_t count = product.countElements();
  int64_t most =
      std::max(kFewestElements, kMostTerms / std::max<int64_t>(matmul.k, 1));
  Judgement judgement;
  if (count <= most) {
    for (int64_t number = 0; number < count; ++number)
      product.compare(number, judgement);
    return judgement;
  }
  for (int64_t i = 0; i < most; ++i) {
    auto [low, high, c, d] =
        ::binade::philox({static_cast<uint32_t>(i), 0, 0, 0}, {});
    uint64_t random = uint64_t(high) << 32 | low;
    product.compare(static_cast<int64_t>(random % count), judgement);
  }
  return judgement;
}

//===----------------------------------------------------------------------===//
// Copies, and the choice
//===----------------------------------------------------------------------===//

/// What was there, with the elements of the copy in place.
static Bytes copyElements(const plan::Copy &copy, const Execution &execution) {
  const Bytes &from = execution.before[0];
  Bytes to = execution.before[1];
  size_t size = byteSize(execution.accesses[1].dtype);
  std::vector<int64_t> index(copy.sizes.size());
  int64_t count = 1;
  for (int64_t axis : copy.sizes)
    count *= axis;
  for (int64_t number = 0; number < count; ++number) {
    int64_t rest = number, source = 0, target = 0;
    for (size_t axis = copy.sizes.size(); axis-- > 0;) {
      int64_t i = rest % copy.sizes[axis];
      rest /= copy.sizes[axis];
      source += i * copy.from.strides[axis];
      target += i * copy.to.strides[axis];
    }
    std::copy_n(from.begin() + source * size, size, to.begin() + target * size);
  }
  return to;
}

static Judgement judgeCopy(const plan::Copy &copy, const Execution &execution) {
  Judgement judgement;
  judgement.difference =
      compareBits(execution.accesses[1].dtype, execution.after[1],
                  copyElements(copy, execution));
  judgement.access = 1;
  if (judgement.difference) {
    judgement.ratio = INFINITY;
    judgement.difference->what = "no copy";
  }
  return judgement;
}

Result<std::optional<Judgement>>
mlir::binade::judge(ModuleOp source, const Execution &execution) {
  const auto &body = execution.record.body;
  if (auto *matmul = std::get_if<plan::Matmul>(&body))
    return std::optional(judgeProduct(*matmul, execution));
  if (auto *copy = std::get_if<plan::Copy>(&body))
    return std::optional(judgeCopy(*copy, execution));
  auto *launch = std::get_if<plan::Launch>(&body);
  if (!launch)
    return std::optional<Judgement>();
  Result<Judgement> judged = judgeLaunch(source, *launch, execution);
  if (!judged)
    return judged.takeError();
  return std::optional(*std::move(judged));
}
