//===- Emitter.cpp - Loops, scopes and indices of kernels -----------------===//

#include "Emitter.h"
#include "RandomNumbers.h"
#include "binade/IR/Build.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::binade;

Type mlir::binade::getRegisterType(Type element) {
  auto integer = dyn_cast<IntegerType>(element);
  if (!integer || integer.getWidth() == 1)
    return element;
  return IntegerType::get(element.getContext(),
                          std::max(integer.getWidth(), 8u));
}

Type mlir::binade::getStorageType(Type element) {
  return element.getIntOrFloatBitWidth() < 8
             ? IntegerType::get(element.getContext(), 8)
             : getRegisterType(element);
}

Type mlir::binade::getComputeType(Type element) {
  bool isNarrow = isa<FloatType>(element) && !element.isF64();
  return isNarrow ? Float32Type::get(element.getContext())
                  : getRegisterType(element);
}

Emitter::Emitter(func::FuncOp kernel, ModuleOp formulas, ModuleOp module,
                 StringRef name, TypeRange buffers, unsigned numbers,
                 std::optional<GpuShape> shape)
    : kernel(kernel), b(kernel.getLoc(), kernel.getContext()), numbers(numbers),
      formulas(formulas), shape(shape) {
  if (shape) {
    startOnGpu(module, name, buffers);
    return;
  }
  SmallVector<Type> types(buffers);
  types.append(numbers, b.getIndexType());
  b.setInsertionPointToEnd(module.getBody());
  auto function = func::FuncOp::create(b, name, b.getFunctionType(types, {}));
  function.setPrivate();
  target = function;
  Block *entry = function.addEntryBlock();
  llvm::append_range(memories, entry->getArguments().drop_back(numbers));
  llvm::copy(entry->getArguments().take_back(numbers), this->numbers.begin());
  b.setInsertionPointToStart(entry);
  func::ReturnOp::create(b);
  push(entry, nullptr);
  vectorsPerIteration = chooseVectorsPerIteration(kernel);
}

Value Emitter::resultBuffer(unsigned index) {
  return buffer(kernel.getNumArguments() + index);
}

Value Emitter::workspace() {
  return buffer(kernel.getNumArguments() + kernel.getNumResults());
}

Value Emitter::argument(unsigned index) { return numbers[index]; }

//===----------------------------------------------------------------------===//
// Scopes
//===----------------------------------------------------------------------===//

void Emitter::push(Block *block, Operation *owner) {
  if (owner)
    scopes.back().before = owner;
  Operation *end =
      block->mightHaveTerminator() ? block->getTerminator() : nullptr;
  scopes.push_back({block, end, {}, {}, {}, {}});
  if (end)
    b.setInsertionPoint(end);
  else
    b.setInsertionPointToEnd(block);
}

void Emitter::pop() {
  scopes.pop_back();
  Scope &scope = scopes.back();
  scope.before = scope.block->mightHaveTerminator()
                     ? scope.block->getTerminator()
                     : nullptr;
  if (scope.before)
    b.setInsertionPoint(scope.before);
  else
    b.setInsertionPointToEnd(scope.block);
}

Emitter::At::At(Emitter &emitter, unsigned depth) : guard(emitter.b) {
  Scope &scope = emitter.scopes[depth];
  if (scope.before)
    emitter.b.setInsertionPoint(scope.before);
  else
    emitter.b.setInsertionPointToEnd(scope.block);
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

SmallVector<Value> Emitter::loop(Value begin, Value end, int64_t step,
                                 ValueRange carried, Body body) {
  auto forOp = scf::ForOp::create(b, begin, end, index(step), carried);
  push(forOp.getBody(), forOp);
  SmallVector<Value> next =
      body(forOp.getInductionVar(), forOp.getRegionIterArgs());
  if (!carried.empty())
    scf::YieldOp::create(b, next);
  pop();
  return llvm::to_vector_of<Value>(forOp.getResults());
}

SmallVector<Value>
Emitter::conditional(Value condition, ValueRange carried,
                     llvm::function_ref<SmallVector<Value>()> body) {
  auto ifOp = scf::IfOp::create(b, carried.getTypes(), condition,
                                /*withElseRegion=*/!carried.empty());
  push(ifOp.thenBlock(), ifOp);
  SmallVector<Value> next = body();
  if (!carried.empty())
    scf::YieldOp::create(b, next);
  pop();
  if (!carried.empty()) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(ifOp.elseBlock());
    scf::YieldOp::create(b, carried);
  }
  return llvm::to_vector_of<Value>(ifOp.getResults());
}

SmallVector<Value> Emitter::columns(int64_t count, ValueRange carried,
                                    Columns body) {
  int64_t whole = count / width * width, tail = count % width;
  SmallVector<Value> values(carried);
  if (whole > 0)
    values = wholeColumns(index(0), index(whole), whole, whole, values, body);
  if (tail > 0)
    values = whereFirst(values, [&](ValueRange now) {
      laneCount = tail;
      return body(space.lanes(tail) + Offset(whole), now);
    });
  laneCount = 1;
  return values;
}

SmallVector<Value> Emitter::columnBlock(Value begin, int64_t size,
                                        int64_t count, ValueRange carried,
                                        Columns body) {
  if (size >= count)
    return columns(count, carried, body);
  assert(size % width == 0 && "a block must have whole vectors");
  int64_t whole = count / width * width, tail = count % width;
  Value last = arith::AddIOp::create(b, begin, index(size));
  Value end = arith::MinUIOp::create(b, last, index(whole));
  SmallVector<Value> values =
      wholeColumns(begin, end, size, whole, carried, body);
  if (tail > 0) {
    Value isLast =
        arith::CmpIOp::create(b, arith::CmpIPredicate::uge, last, index(count));
    values = conditional(isLast, values, [&] {
      return whereFirst(values, [&](ValueRange now) {
        laneCount = tail;
        return body(space.lanes(tail) + Offset(whole), now);
      });
    });
  }
  laneCount = 1;
  return values;
}

/// Emits a loop over [begin, end) in full vectors, where end <= `whole` and
/// `begin` is a multiple of `size`.
SmallVector<Value> Emitter::wholeColumns(Value begin, Value end, int64_t size,
                                         int64_t whole, ValueRange carried,
                                         Columns body) {
  llvm::SaveAndRestore perThread(team.isPerThread, true);
  int64_t vectors = vectorsPerIteration;
  if (size % (vectors * width) != 0 || whole % (vectors * width) != 0)
    vectors = 1;
  int64_t step = vectors * width;
  if (team.member) {
    step *= team.size;
    Value first = arith::MulIOp::create(b, team.member, index(width));
    begin = arith::AddIOp::create(b, begin, first);
  }
  laneCount = width;
  int64_t columns = vectors * width;
  return loop(begin, end, step, carried, [&](Value column, ValueRange now) {
    Offset first =
        space.counter(column, whole / columns, depth(), columns) * columns +
        space.lanes(width);
    SmallVector<Value> values(now);
    for (int64_t vector = 0; vector < vectors; ++vector) {
      llvm::SaveAndRestore left(vectorsLeft, vectors - vector);
      values = body(first + Offset(vector * width), values);
    }
    return values;
  });
}

SmallVector<Value> Emitter::dynamicColumns(Value begin, Value end,
                                           int64_t extent, ValueRange carried,
                                           Columns body) {
  Value count = arith::SubIOp::create(b, end, begin);
  Value tail = arith::RemUIOp::create(b, count, index(width));
  Value whole = arith::SubIOp::create(b, end, tail);
  llvm::SaveAndRestore perThread(team.isPerThread, true);
  SmallVector<Value> values(carried);
  auto columns = [&](Value from, Value to, int64_t lanes) {
    laneCount = lanes;
    int64_t step = lanes;
    if (team.member && lanes == width) {
      Value first = arith::MulIOp::create(b, team.member, index(lanes));
      from = arith::AddIOp::create(b, from, first);
      step *= team.size;
    } else if (team.member) {
      // Only the first thread processes these: two 4-bit elements may share a
      // byte.
      Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                            team.member, index(0));
      from = arith::SelectOp::create(b, isFirst, from, to);
    }
    values = loop(from, to, step, values, [&](Value column, ValueRange now) {
      Offset counter = space.counter(column, llvm::divideCeil(extent, lanes),
                                     depth(), lanes) *
                       lanes;
      return body(counter + space.lanes(lanes), now);
    });
  };
  columns(begin, whole, width);
  columns(whole, end, 1);
  laneCount = 1;
  return values;
}

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

Value Emitter::index(int64_t value) {
  return arith::ConstantIndexOp::create(b, value);
}

/// Returns the sum of the terms that are equal for all lanes.
Value Emitter::number(const Offset &offset) {
  Offset uniform(offset.constant);
  for (auto term : offset.terms)
    if (!term.first->variesOverLanes)
      uniform.terms.push_back(term);
  // Constants are defined outside of all loops, where outer sums can use them
  // too.
  unsigned where = uniform.terms.empty() ? 0 : uniform.depth();
  auto [entry, isNew] = scopes[where].numbers.try_emplace(uniform);
  if (!isNew)
    return entry->second;
  if (uniform.terms.empty()) {
    At at(*this, 0);
    return entry->second = index(uniform.constant);
  }
  // The terms that are known in an outer loop are added there.
  Offset outer(uniform.constant);
  for (auto term : uniform.terms)
    if (term.first->depth < where)
      outer.terms.push_back(term);
  bool hasOuter = outer.constant != 0 || !outer.terms.empty();
  Value sum = hasOuter ? number(outer) : Value();
  At at(*this, where);
  for (auto [variable, coefficient] : uniform.terms) {
    if (variable->depth < where)
      continue;
    Value term;
    int64_t factor = coefficient;
    if (coefficient % variable->step == 0) {
      term = variable->kind == Variable::Kind::Counter
                 ? variable->value
                 : variableValue(variable, /*asLanes=*/false);
      factor = coefficient / variable->step;
    } else {
      term = variableValue(variable, /*asLanes=*/false);
    }
    if (factor != 1)
      term = arith::MulIOp::create(b, term, index(factor));
    sum = sum ? arith::AddIOp::create(b, sum, term).getResult() : term;
  }
  scopes[where].numbers[uniform] = sum;
  return sum;
}

/// Returns the value of a variable, an index or one index per lane.
Value Emitter::variableValue(const Variable *variable, bool asLanes) {
  auto of = [&] {
    return asLanes ? perLane(variable->of) : number(variable->of);
  };
  auto like = [&](int64_t value) {
    Value constant = index(value);
    return asLanes ? broadcast(constant) : constant;
  };
  switch (variable->kind) {
  case Variable::Kind::Counter:
    if (variable->step == 1)
      return variable->value;
    return arith::DivUIOp::create(b, variable->value, index(variable->step));
  case Variable::Kind::Lane:
    return vector::StepOp::create(
        b, VectorType::get({variable->extent}, b.getIndexType()));
  case Variable::Kind::Quotient:
    return arith::DivUIOp::create(b, of(), like(variable->by));
  case Variable::Kind::Remainder:
    return arith::RemUIOp::create(b, of(), like(variable->by));
  case Variable::Kind::Shifted: {
    Value moved = arith::SubIOp::create(b, of(), like(variable->by));
    Value low = arith::MaxSIOp::create(b, moved, like(0));
    return arith::MinSIOp::create(b, low, like(variable->extent - 1));
  }
  case Variable::Kind::Loaded:
    return variable->value;
  }
  llvm_unreachable("covered switch");
}

Value Emitter::perLane(const Offset &offset) {
  Value sum = broadcast(number(offset));
  for (auto [variable, coefficient] : offset.terms) {
    if (!variable->variesOverLanes)
      continue;
    Value term = variableValue(variable, /*asLanes=*/true);
    if (coefficient != 1)
      term = arith::MulIOp::create(b, term, broadcast(index(coefficient)));
    sum = arith::AddIOp::create(b, sum, term);
  }
  return sum;
}
