//===- ReferenceBounds.cpp - Error bounds of records ----------------------===//

#include "ReferenceBounds.h"
#include "ExactSums.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/Interface.h"
#include "binade/Reference/FloatFormat.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;
using ::binade::Result;

//===----------------------------------------------------------------------===//
// Kernels with sums
//===----------------------------------------------------------------------===//

/// Whether `kernel` contains sums after its ops are decomposed.
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
  return llvm::any_of(parts->front(), [](Operation &op) {
    auto primitive = dyn_cast<KernelOpInterface>(op);
    return primitive && primitive.sumsElements();
  });
}

/// Whether `judge` knows records of this kind. Those of other kinds have the
/// same bits on every target.
static bool isJudged(const plan::Record &record) {
  return std::visit(
      [](const auto &body) {
        return requires(ModuleOp source, const Execution &execution) {
          judge(source, body, execution);
        };
      },
      record.body);
}

bool mlir::binade::mayDiffer(ModuleOp source, const plan::Record &record) {
  if (auto *launch = std::get_if<plan::Launch>(&record.body))
    return llvm::any_of(launch->segments, [&](const plan::Segment &segment) {
      return sums(findKernel(source, *launch, segment));
    });
  return isJudged(record) && !std::holds_alternative<plan::Copy>(record.body);
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

namespace {
/// A function that computes the same as a launch.
struct LaunchFunction {
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  /// The access of each argument and of each result.
  SmallVector<size_t> arguments, results;
};
} // namespace

/// Builds the function of a launch: the kernel itself, or a function that
/// launches several kernels, or one for several sets of operands.
static LaunchFunction buildFunction(ModuleOp source, const plan::Launch &launch,
                                    ArrayRef<RecordAccess> accesses) {
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
      bool isShared = isMultiTensorKernel(kernel) &&
                      cast<RankedTensorType>(type).getRank() == 0;
      if (!isShared)
        own.push_back(access);
      else if (index == 0)
        shared.push_back(access);
      ++access;
    }
  }
  built.results = llvm::to_vector(llvm::concat<size_t>(own, shared));
  if (kernels.size() == 1 && !isMultiTensorKernel(kernels.front())) {
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

static FailureOr<TensorRef> readTensor(const RecordAccess &access,
                                       const Bytes &bytes) {
  FailureOr<Tensor> tensor = Tensor::fromBytes(
      access.type,
      {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
  if (failed(tensor))
    return failure();
  return std::make_shared<const Tensor>(std::move(*tensor));
}

/// Raises bounds to the spacing of values. The reference samples the effect of
/// errors in a kernel on its results, and a sample may miss that an error
/// changes the last rounding.
static Tensor allowOneSpacing(const Tensor &value, const Tensor &bound) {
  Tensor widened = bound;
  auto element = dyn_cast<FloatType>(value.getType().getElementType());
  if (!element)
    return widened;
  FloatFormat format(element.getFloatSemantics());
  for (int64_t i = 0, count = value.getNumElements(); i < count; ++i)
    widened[i] = std::fmax(bound[i], format.getSpacing(value[i]));
  return widened;
}

Result<Judgement> mlir::binade::judge(ModuleOp source,
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
      return fail("reads bytes that are not valid values of its type");
    inputs[name] = *tensor;
  }
  EvaluationOptions options;
  options.bounds = true;
  DiagnosticCollector diagnostics(source.getContext());
  FailureOr<Outputs> expected =
      evaluate(*built.module, built.function.getName(), inputs, options);
  if (failed(expected))
    return diagnostics.takeError("", "a kernel cannot be evaluated");
  bool isExact = llvm::all_of(expected->bounds, [](const auto &bound) {
    return llvm::all_of(bound.second->getFloats(),
                        [](double error) { return error == 0.0; });
  });
  Judgement judgement;
  for (auto [name, access] :
       llvm::zip(getResultNames(built.function), built.results)) {
    FailureOr<TensorRef> value =
        readTensor(execution.accesses[access], execution.after[access]);
    if (failed(value))
      return fail("writes bytes that are not valid values of its type");
    const Tensor &wanted = *expected->values[name];
    TensorRef bound = expected->bounds[name];
    Tensor widened = isExact ? *bound : allowOneSpacing(wanted, *bound);
    if (execution.onBound)
      for (int64_t i = 0; i < wanted.getNumElements(); ++i)
        execution.onBound(access, i, wanted.getNumber(i), widened[i]);
    Deviation deviation = compare(**value, wanted, &widened);
    judgement.add(access, execution.accesses[access].dtype, deviation,
                  (*value)->getNumber(deviation.index),
                  wanted.getNumber(deviation.index));
  }
  return judgement;
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Returns the destination after the copy.
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

Result<Judgement> mlir::binade::judge(ModuleOp, const plan::Copy &copy,
                                      const Execution &execution) {
  Judgement judgement;
  judgement.difference =
      compareBits(execution.accesses[1].dtype, execution.after[1],
                  copyElements(copy, execution));
  judgement.access = 1;
  if (judgement.difference) {
    judgement.ratio = INFINITY;
    judgement.difference->what = "other bits than the source of the copy";
  }
  return judgement;
}

Result<Judgement> mlir::binade::judge(ModuleOp source,
                                      const Execution &execution) {
  return std::visit(
      [&](const auto &body) -> Result<Judgement> {
        if constexpr (requires { judge(source, body, execution); })
          return judge(source, body, execution);
        else if constexpr (std::is_same_v<decltype(body),
                                          const plan::Exchange &>)
          return Judgement(); // What it computes depends on other ranks.
        else
          llvm_unreachable("records of this kind do not differ");
      },
      execution.record.body);
}
