//===- EmitProduct.cpp - matrix products as kernels of their own ----------===//
//
// For what cuBLASLt does not compute, or where it is not. A block of threads
// has a square tile of the result and goes through both operands in steps along
// what is summed: each step lies in shared memory, in f32, before it is
// multiplied. A thread has every 16th row and column of the tile. Sums are in
// f32, in the order of the elements, and rounded once.
//
//===----------------------------------------------------------------------===//

#include "EmitText.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::DType;

/// Threads along each side of a tile, and elements of a step.
static constexpr int64_t kSide = 16, kStep = 16;
/// Rows and columns of a thread, where tiles of as many are filled.
static constexpr int64_t kWideShare = 4;

static Type getType(MLIRContext *context, DType dtype) {
  switch (dtype) {
  case DType::BF16:
    return BFloat16Type::get(context);
  case DType::F16:
    return Float16Type::get(context);
  case DType::F8_E4M3:
    return Float8E4M3FNType::get(context);
  case DType::F8_E5M2:
    return Float8E5M2Type::get(context);
  default:
    return Float32Type::get(context);
  }
}

namespace {
class ProductEmitter {
public:
  ProductEmitter(ImplicitLocOpBuilder &b, const GpuProduct &product)
      : b(b), product(product),
        share(std::min(product.m, product.n) > kSide ? kWideShare : 1),
        tile(kSide * share), rowTiles(llvm::divideCeil(product.m, tile)),
        columnTiles(llvm::divideCeil(product.n, tile)) {}

  void emit(StringRef name);

private:
  struct Matrix {
    const GpuMatrix *shape;
    Value memory, start; ///< Of this block's product.
  };

  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value scale(Value x, int64_t factor) {
    return arith::MulIOp::create(b, x, index(factor));
  }
  std::pair<Value, Value> divide(Value x, int64_t by) {
    return {arith::DivUIOp::create(b, x, index(by)),
            arith::RemUIOp::create(b, x, index(by))};
  }
  /// Null where all are.
  Value isBelow(Value x, int64_t bound, int64_t most) {
    if (most <= bound)
      return {};
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, x, index(bound));
  }
  Value both(Value x, Value y) {
    return !x ? y : !y ? x : arith::AndIOp::create(b, x, y).getResult();
  }

  MemRefType getMemory(const GpuMatrix &matrix, int64_t rows, int64_t columns) {
    int64_t last = (rows - 1) * matrix.rows + (columns - 1) * matrix.columns;
    for (auto [size, stride] : llvm::zip(product.batch, matrix.batch))
      last += (size - 1) * stride;
    return MemRefType::get({last + 1}, getType(b.getContext(), matrix.dtype));
  }
  void findStarts(Value number);
  Value place(const Matrix &matrix, Value row, Value column) {
    Value at = add(matrix.start, scale(row, matrix.shape->rows));
    return add(at, scale(column, matrix.shape->columns));
  }
  Value load(const Matrix &matrix, Value row, Value column);
  void fetch(const Matrix &matrix, Value shared, bool isLhs, Value first,
             Value step);
  SmallVector<Value> multiply(Value left, Value right, ValueRange sums);
  void store(ValueRange sums);

  ImplicitLocOpBuilder &b;
  const GpuProduct &product;
  int64_t share, tile, rowTiles, columnTiles;
  Value thread, threadRow, threadColumn, firstRow, firstColumn;
  Matrix lhs, rhs, out;
  SmallVector<Value> factors; ///< Memory of scales.
  std::optional<Matrix> bias;
};
} // namespace

void ProductEmitter::findStarts(Value number) {
  SmallVector<Matrix *> matrices = {&lhs, &rhs, &out};
  for (Matrix *matrix : matrices)
    matrix->start = index(0);
  for (size_t axis = product.batch.size(); axis-- > 0;) {
    auto [rest, entry] = divide(number, product.batch[axis]);
    for (Matrix *matrix : matrices)
      matrix->start =
          add(matrix->start, scale(entry, matrix->shape->batch[axis]));
    number = rest;
  }
  if (bias)
    bias->start = index(0);
}

/// An element in f32.
Value ProductEmitter::load(const Matrix &matrix, Value row, Value column) {
  Value x =
      memref::LoadOp::create(b, matrix.memory, place(matrix, row, column));
  if (x.getType().isF32())
    return x;
  return arith::ExtFOp::create(b, b.getF32Type(), x);
}

/// A step of an operand: `tile` entries from `first` on, `kStep` of what is
/// summed from `step` on; 0 behind the ends. Neighbours in memory are those of
/// neighbouring threads.
void ProductEmitter::fetch(const Matrix &matrix, Value shared, bool isLhs,
                           Value first, Value step) {
  int64_t along = isLhs ? matrix.shape->rows : matrix.shape->columns;
  int64_t bound = isLhs ? product.m : product.n;
  int64_t padded = (isLhs ? rowTiles : columnTiles) * tile;
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
  for (int64_t part = 0; part < share; ++part) {
    Value number = add(thread, index(part * kSide * kSide));
    Value entry, term;
    if (along == 1)
      std::tie(term, entry) = divide(number, tile);
    else
      std::tie(entry, term) = divide(number, kStep);
    Value position = add(first, entry), summed = add(step, term);
    Value exists =
        both(isBelow(position, bound, padded),
             isBelow(summed, product.k, llvm::alignTo(product.k, kStep)));
    auto get = [&] {
      return isLhs ? load(matrix, position, summed)
                   : load(matrix, summed, position);
    };
    Value x;
    if (exists) {
      auto branch = scf::IfOp::create(b, b.getF32Type(), exists,
                                      /*withElseRegion=*/true);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(branch.thenBlock());
      scf::YieldOp::create(b, get());
      b.setInsertionPointToStart(branch.elseBlock());
      scf::YieldOp::create(b, zero);
      x = branch.getResult(0);
    } else {
      x = get();
    }
    memref::StoreOp::create(b, x, shared, add(scale(term, tile), entry));
  }
}

/// `sums` with the products of a step.
SmallVector<Value> ProductEmitter::multiply(Value left, Value right,
                                            ValueRange sums) {
  auto loop = scf::ForOp::create(b, index(0), index(kStep), index(1), sums);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value start = scale(loop.getInductionVar(), tile);
  auto loadAll = [&](Value shared, Value own) {
    SmallVector<Value> values;
    for (int64_t i = 0; i < share; ++i)
      values.push_back(memref::LoadOp::create(
          b, shared, add(add(start, own), index(i * kSide))));
    return values;
  };
  SmallVector<Value> x = loadAll(left, threadRow),
                     y = loadAll(right, threadColumn);
  SmallVector<Value> next;
  for (int64_t i = 0; i < share; ++i)
    for (int64_t j = 0; j < share; ++j)
      next.push_back(math::FmaOp::create(
          b, x[i], y[j], loop.getRegionIterArgs()[i * share + j]));
  scf::YieldOp::create(b, next);
  return llvm::to_vector_of<Value>(loop.getResults());
}

void ProductEmitter::store(ValueRange sums) {
  Type type = getType(b.getContext(), product.out.dtype);
  Value factor;
  for (Value memory : factors) {
    Value own = memref::LoadOp::create(b, memory, index(0));
    factor = factor ? arith::MulFOp::create(b, factor, own).getResult() : own;
  }
  for (int64_t i = 0; i < share; ++i)
    for (int64_t j = 0; j < share; ++j) {
      Value row = add(add(firstRow, threadRow), index(i * kSide));
      Value column = add(add(firstColumn, threadColumn), index(j * kSide));
      auto storeOne = [&] {
        Value sum = sums[i * share + j];
        if (factor)
          sum = arith::MulFOp::create(b, sum, factor);
        if (bias)
          sum = arith::AddFOp::create(b, sum, load(*bias, index(0), column));
        if (product.accumulate)
          sum = arith::AddFOp::create(b, sum, load(out, row, column));
        if (!type.isF32())
          sum = arith::TruncFOp::create(b, type, sum);
        memref::StoreOp::create(b, sum, out.memory, place(out, row, column));
      };
      Value exists = both(isBelow(row, product.m, rowTiles * tile),
                          isBelow(column, product.n, columnTiles * tile));
      if (!exists) {
        storeOne();
        continue;
      }
      auto branch = scf::IfOp::create(b, exists, /*withElseRegion=*/false);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(branch.thenYield());
      storeOne();
    }
}

void ProductEmitter::emit(StringRef name) {
  SmallVector<Type> types = {getMemory(product.lhs, product.m, product.k),
                             getMemory(product.rhs, product.k, product.n),
                             getMemory(product.out, product.m, product.n)};
  unsigned countFactors = product.hasLhsScale + product.hasRhsScale;
  types.append(countFactors, MemRefType::get({1}, b.getF32Type()));
  if (product.bias) {
    int64_t last = (product.n - 1) * product.bias->columns;
    types.push_back(MemRefType::get(
        {last + 1}, getType(b.getContext(), product.bias->dtype)));
  }
  auto function = gpu::GPUFuncOp::create(b, name, b.getFunctionType(types, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  int64_t batches = 1;
  for (int64_t size : product.batch)
    batches *= size;
  auto blocks = static_cast<int32_t>(batches * rowTiles * columnTiles);
  function.setKnownGridSizeAttr(b.getDenseI32ArrayAttr({blocks, 1, 1}));
  function.setKnownBlockSizeAttr(
      b.getDenseI32ArrayAttr({int32_t(kSide * kSide), 1, 1}));
  auto space =
      gpu::AddressSpaceAttr::get(b.getContext(), gpu::AddressSpace::Workgroup);
  auto step = MemRefType::get({kStep * tile}, b.getF32Type(),
                              MemRefLayoutAttrInterface(), space);
  Value left = function.addWorkgroupAttribution(step, b.getLoc());
  Value right = function.addWorkgroupAttribution(step, b.getLoc());

  b.setInsertionPointToStart(&function.getBody().front());
  lhs = {&product.lhs, function.getArgument(0), {}};
  rhs = {&product.rhs, function.getArgument(1), {}};
  out = {&product.out, function.getArgument(2), {}};
  for (unsigned i = 0; i < countFactors; ++i)
    factors.push_back(function.getArgument(3 + i));
  if (product.bias)
    bias = {&*product.bias, function.getArgument(3 + countFactors), {}};
  thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  std::tie(threadRow, threadColumn) = divide(thread, kSide);
  auto [number, within] = divide(gpu::BlockIdOp::create(b, gpu::Dimension::x),
                                 rowTiles * columnTiles);
  auto [rowTile, columnTile] = divide(within, columnTiles);
  firstRow = scale(rowTile, tile);
  firstColumn = scale(columnTile, tile);
  findStarts(number);

  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
  SmallVector<Value> sums(share * share, zero);
  auto loop =
      scf::ForOp::create(b, index(0), index(product.k), index(kStep), sums);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    fetch(lhs, left, /*isLhs=*/true, firstRow, loop.getInductionVar());
    fetch(rhs, right, /*isLhs=*/false, firstColumn, loop.getInductionVar());
    gpu::BarrierOp::create(b);
    SmallVector<Value> next = multiply(left, right, loop.getRegionIterArgs());
    gpu::BarrierOp::create(b);
    scf::YieldOp::create(b, next);
  }
  store(loop.getResults());
  gpu::ReturnOp::create(b);
}

std::string mlir::binade::printProduct(const GpuProduct &product,
                                       StringRef name) {
  return printKernelModule(
      [&](ImplicitLocOpBuilder &b) { ProductEmitter(b, product).emit(name); });
}
