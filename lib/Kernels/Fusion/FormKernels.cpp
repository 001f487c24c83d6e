//===- FormKernels.cpp - Group ops into kernels and outline them ----------===//

#include "Grouping.h"
#include "binade/IR/Build.h"
#include "binade/IR/MissingFunction.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Names.h"
#include "binade/IR/Release.h"
#include "binade/IR/Watch.h"
#include "binade/Kernels/Kernels.h"
#include "binade/Kernels/Passes.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::binade {
#define GEN_PASS_DEF_FORMKERNELSPASS
#include "binade/Kernels/Passes.h.inc"

/// Elements of the vector for which the IR of a multi-tensor kernel is written.
static constexpr int64_t kMultiTensorVector = 16;

std::string getKernelKey(func::FuncOp kernel) {
  std::string key;
  llvm::raw_string_ostream stream(key);
  func::FuncOp copy = kernel.clone();
  copy.setName("kernel");
  copy->print(stream, OpPrintingFlags().useLocalScope().enableDebugInfo(false));
  copy->erase();
  return key;
}

/// Reshapes scalar parameters, gradients and states of a multi-tensor op to one
/// element: values of rank 0 in such a kernel are shared by all tensors.
static void liftNumbers(Operation *op) {
  auto update = dyn_cast<OptimizerUpdateOp>(op);
  if (!update && !isa<GradientStatisticsOp>(op))
    return;
  ImplicitLocOpBuilder b(op->getLoc(), op);
  auto reshape = [&](Value x, ArrayRef<int64_t> shape) {
    Value view = buildReshape(b, x, shape);
    setPhase(view.getDefiningOp(), getPhase(op));
    return view;
  };
  auto isNumber = [](Value x) {
    return cast<RankedTensorType>(x.getType()).getRank() == 0;
  };
  unsigned tensors =
      update ? 2 + update.getStates().size() : op->getNumOperands();
  for (OpOperand &operand : op->getOpOperands().take_front(tensors))
    if (isNumber(operand.get()))
      operand.set(reshape(operand.get(), {1}));
  if (!update)
    return;
  b.setInsertionPointAfter(op);
  for (Value result : op->getResults())
    if (isNumber(result)) {
      result.setType(cast<RankedTensorType>(result.getType()).clone({1}));
      Value number = reshape(result, {});
      result.replaceAllUsesExcept(number, number.getDefiningOp());
    }
}

namespace {
/// Moves fusion groups to kernels and launches these.
class Outliner {
public:
  explicit Outliner(func::FuncOp step)
      : module(step->getParentOfType<ModuleOp>()),
        b(step.getLoc(), step.getContext()) {}

  /// Forms the kernels of `block` and of the blocks in its ops' regions.
  void run(Block &block) {
    Block *outer = std::exchange(body, &block);
    for (const FusionGroup &group : groupOps(block)) {
      if (group.schedule == Schedule::View ||
          group.schedule == Schedule::Library) {
        for (Region &region : group.ops.front()->getRegions())
          for (Block &inner : region)
            run(inner);
        group.ops.front()->moveBefore(end());
      } else if (group.schedule == Schedule::MultiTensor)
        launchMultiTensor(group);
      else
        launch(group);
    }
    eraseDead();
    body = outer;
  }

private:
  Operation *end() { return body->getTerminator(); }

  //===--------------------------------------------------------------------===//
  // One kernel
  //===--------------------------------------------------------------------===//

  /// Builds the function of a kernel: arguments in the order of their use, and
  /// a copy of each op. In a multi-tensor kernel, vectors replace the tensors.
  struct Body {
    Body(Location loc, bool isMultiTensor = false)
        : isMultiTensor(isMultiTensor), b(loc, loc.getContext()),
          function(
              func::FuncOp::create(loc, "kernel", b.getFunctionType({}, {}))) {
      function.setPrivate();
      b.setInsertionPointToStart(function.addEntryBlock());
    }

    /// Returns `value` inside the kernel: an argument, or the copy of a
    /// recomputed op.
    Value get(Value value) {
      if (Value known = inside.lookupOrNull(value))
        return known;
      Operation *producer = value.getDefiningOp();
      if (isMultiTensor ? isRecomputedInMultiTensor(producer)
                        : isRecomputed(producer)) {
        clone(producer);
        return inside.lookup(value);
      }
      inputs.push_back(value);
      Value argument =
          function.front().addArgument(getType(value), value.getLoc());
      inside.map(value, argument);
      return argument;
    }

    Operation *clone(Operation *op) { return clone(op, op->getOperands()); }

    Operation *clone(Operation *op, OperandRange operands) {
      for (Value operand : operands)
        get(operand);
      Operation *copy = b.clone(*op, inside);
      copy->removeAttr(kPhaseAttr);
      copy->removeAttr(kEveryAttr);
      copy->removeAttr(kReleaseAttr);
      copy->removeAttr(kRecomputedAttr);
      if (auto decided = dyn_cast<PrecisionOpInterface>(copy))
        decided.setPrecisionAttr({}); // The types contain the decision.
      if (auto update = dyn_cast<OptimizerUpdateOp>(copy))
        update.removeStorageAttr();
      if (operands.size() != op->getNumOperands())
        copy->setOperands(llvm::map_to_vector(
            operands, [&](Value x) { return inside.lookup(x); }));
      for (Value result : copy->getResults())
        result.setType(getType(result));
      return copy;
    }

    Type getType(Value value) const {
      auto type = cast<RankedTensorType>(value.getType());
      return isMultiTensor && type.getRank() > 0
                 ? type.clone({kMultiTensorVector})
                 : type;
    }

    void finish(ValueRange results, Schedule schedule) {
      func::ReturnOp::create(b, results);
      function.setType(b.getFunctionType(function.front().getArgumentTypes(),
                                         results.getTypes()));
      function->setAttr(kKernelAttr,
                        ScheduleAttr::get(b.getContext(), schedule));
    }

    bool isMultiTensor;
    ImplicitLocOpBuilder b;
    func::FuncOp function;
    IRMapping inside;
    SmallVector<Value> inputs;
  };

  /// Adds the kernel, unless an equal one exists, and returns its symbol.
  Attribute intern(func::FuncOp kernel, StringRef name) {
    auto [entry, isNew] = kernels.try_emplace(getKernelKey(kernel));
    if (!isNew) {
      kernel->erase();
      return entry->second;
    }
    kernel.setName((name + "_" + Twine(kernels.size() - 1)).str());
    module.getBody()->push_back(kernel);
    return entry->second = FlatSymbolRefAttr::get(kernel.getNameAttr());
  }

  Location getLocation(const FusionGroup &group) {
    SmallVector<Location> locations;
    for (Operation *op : group.ops)
      locations.push_back(op->getLoc());
    return FusedLoc::get(module.getContext(), locations);
  }

  /// Replaces the results of `group` that others read by those of a launch.
  void replace(const FusionGroup &group, ArrayRef<Attribute> kernels,
               ArrayRef<Value> inputs, SmallVector<Value> results) {
    llvm::SmallPtrSet<Operation *, 8> members(group.ops.begin(),
                                              group.ops.end());
    b.setLoc(getLocation(group));
    b.setInsertionPoint(end());
    auto call = LaunchOp::create(b, TypeRange(ValueRange(results)),
                                 b.getArrayAttr(kernels), inputs);
    setPhase(call, group.phase);
    if (group.every.value_or(1) > 1)
      call->setAttr(kEveryAttr, b.getI64IntegerAttr(*group.every));
    for (auto [before, after] : llvm::zip(results, call.getResults())) {
      // Ops that are recomputed from it keep their operand, because no kernel
      // contains them.
      bool isCopied = isRecomputed(before.getDefiningOp());
      before.replaceUsesWithIf(after, [&](OpOperand &use) {
        Operation *user = use.getOwner();
        return isRecomputed(user) ? !isCopied : !members.contains(user);
      });
    }
  }

  using Members = llvm::SmallPtrSet<Operation *, 8>;

  /// Whether ops other than members read `value`. Recomputed ops belong to
  /// their readers; if a member is one, only kernels recompute it.
  static bool isReadOutside(Value value, const Members &members,
                            bool onlyByKernels = false) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      if (isRecomputed(user))
        return llvm::any_of(user->getResults(), [&](Value result) {
          return isReadOutside(result, members,
                               onlyByKernels || members.contains(user));
        });
      return !members.contains(user) && (!onlyByKernels || isKernel(user));
    });
  }

  void launch(const FusionGroup &group) {
    Members members(group.ops.begin(), group.ops.end());
    Body body(getLocation(group));
    for (Operation *op : group.ops)
      body.clone(op);
    SmallVector<Value> outside, results;
    for (Operation *op : group.ops)
      for (Value result : op->getResults())
        if (isReadOutside(result, members)) {
          outside.push_back(result);
          results.push_back(body.inside.lookup(result));
        }
    if (outside.empty())
      return body.function->erase();
    body.finish(results, group.schedule);
    replace(group, intern(body.function, nameByOps(body.function)), body.inputs,
            outside);
  }

  /// Launches a multi-tensor group; each op becomes one or more segments.
  void launchMultiTensor(const FusionGroup &group) {
    SmallVector<Attribute> kernels;
    SmallVector<Value> inputs, results, shared;
    for (Operation *op : group.ops) {
      unsigned segments = cast<KernelOpInterface>(op).getSegments();
      unsigned count = op->getNumOperands() / segments;
      for (unsigned segment = 0; segment < segments; ++segment) {
        Body body(op->getLoc(), /*isMultiTensor=*/true);
        Operation *copy =
            body.clone(op, op->getOperands().slice(segment * count, count));
        body.finish(copy->getResults(), group.schedule);
        kernels.push_back(intern(body.function, op->getName().stripDialect()));
        llvm::append_range(inputs, body.inputs);
      }
      for (Value result : op->getResults())
        (isScalar(result) ? shared : results).push_back(result);
    }
    llvm::append_range(results, shared);
    replace(group, kernels, inputs, results);
  }

  static bool isScalar(Value value) {
    return cast<RankedTensorType>(value.getType()).getRank() == 0;
  }

  void eraseDead() {
    SmallVector<Operation *> ops =
        llvm::to_vector(llvm::make_pointer_range(body->without_terminator()));
    for (Operation *op : llvm::reverse(ops))
      if (isOpTriviallyDead(op))
        op->erase();
  }

  ModuleOp module;
  ImplicitLocOpBuilder b;
  Block *body = nullptr; ///< The block being outlined.
  llvm::StringMap<FlatSymbolRefAttr> kernels;
};

struct FormKernelsPass : impl::FormKernelsPassBase<FormKernelsPass> {
  void runOnOperation() override {
    SmallVector<func::FuncOp> programs = getPrograms(getOperation());
    if (programs.empty()) {
      emitMissingFunction(getOperation(), kStepName, "to form kernels of");
      return signalPassFailure();
    }
    // All programs share their kernels.
    Outliner outliner(programs.front());
    for (func::FuncOp program : programs) {
      program.walk(liftNumbers);
      outliner.run(program.front());
    }
  }
};
} // namespace
} // namespace mlir::binade
