//===- LowerTableLookups.cpp - Small tables in vector registers -----------===//

#include "binade/Target/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"

namespace mlir::binade {
#define GEN_PASS_DEF_LOWERTABLELOOKUPSPASS
#include "binade/Target/Passes.h.inc"

static constexpr int64_t kElementBits = 32;

/// The most entries for which permutations take less time than a gather.
static int64_t getMaxEntries(unsigned bits) { return bits == 512 ? 256 : 16; }

/// Returns the elements of the constant that `gather` reads; null if it reads
/// other memory.
static DenseElementsAttr getTable(vector::GatherOp gather) {
  auto address = gather.getBase().getDefiningOp<memref::GetGlobalOp>();
  if (!address)
    return {};
  auto global = SymbolTable::lookupNearestSymbolFrom<memref::GlobalOp>(
      address, address.getNameAttr());
  if (!global || !global.getConstant())
    return {};
  return dyn_cast_or_null<DenseElementsAttr>(global.getConstantInitValue());
}

static bool isTrue(Value mask) {
  if (auto broadcast = mask.getDefiningOp<vector::BroadcastOp>())
    mask = broadcast.getSource();
  return matchPattern(mask, m_One());
}

namespace {
/// Looks up f32 elements of `table` with permutations of registers of `bits`.
struct RegisterTable {
  ImplicitLocOpBuilder &b;
  SmallVector<float> table;
  unsigned bits;

  int64_t lanes() const { return bits / kElementBits; }

  Value permute(StringRef intrinsic, ValueRange operands) {
    auto type = VectorType::get({lanes()}, b.getF32Type());
    return LLVM::CallIntrinsicOp::create(b, type, b.getStringAttr(intrinsic),
                                         operands)
        .getResult(0);
  }

  Value constant(int64_t first) {
    auto type = VectorType::get({lanes()}, b.getF32Type());
    return arith::ConstantOp::create(
        b, DenseElementsAttr::get(type, ArrayRef(table).slice(first, lanes())));
  }

  /// Returns entry `first` + `index` modulo `count` for each lane.
  Value lookUp(int64_t first, int64_t count, Value index) {
    if (count == lanes())
      return bits == 512
                 ? permute("llvm.x86.avx512.permvar.sf.512",
                           {constant(first), index})
                 : permute("llvm.x86.avx2.permps", {constant(first), index});
    if (bits == 512 && count == 2 * lanes())
      return permute("llvm.x86.avx512.vpermi2var.ps.512",
                     {constant(first), index, constant(first + lanes())});
    int64_t half = count / 2;
    Value low = lookUp(first, half, index);
    Value high = lookUp(first + half, half, index);
    auto splat = [&](int32_t number) -> Value {
      return arith::ConstantOp::create(
          b, DenseElementsAttr::get(cast<VectorType>(index.getType()),
                                    b.getI32IntegerAttr(number)));
    };
    Value bit = arith::AndIOp::create(b, index, splat(half));
    Value isHigh =
        arith::CmpIOp::create(b, arith::CmpIPredicate::ne, bit, splat(0));
    return arith::SelectOp::create(b, isHigh, high, low);
  }

  /// Returns the entries at all lanes of `index`, of which there are a multiple
  /// of `lanes()`.
  Value lookUpAll(Value index) {
    auto type = cast<VectorType>(index.getType());
    int64_t count = table.size();
    if (type.getNumElements() == lanes())
      return lookUp(0, count, index);
    VectorType result = type.clone(b.getF32Type());
    Value all = arith::ConstantOp::create(b, b.getZeroAttr(result));
    for (int64_t lane = 0; lane < type.getNumElements(); lane += lanes()) {
      Value part = vector::ExtractStridedSliceOp::create(
          b, index, ArrayRef(lane), ArrayRef(lanes()), ArrayRef<int64_t>(1));
      all = vector::InsertStridedSliceOp::create(
          b, lookUp(0, count, part), all, ArrayRef(lane), ArrayRef<int64_t>(1));
    }
    return all;
  }
};

struct LowerTableLookupsPass
    : impl::LowerTableLookupsPassBase<LowerTableLookupsPass> {
  using LowerTableLookupsPassBase::LowerTableLookupsPassBase;

  bool isSuitable(vector::GatherOp gather, DenseElementsAttr table) {
    int64_t lanes = bits / kElementBits, entries = table.size();
    VectorType index = gather.getIndexVectorType();
    return table.getElementType().isF32() && llvm::isPowerOf2_64(entries) &&
           entries >= lanes && entries <= getMaxEntries(bits) &&
           index.getElementType().isInteger(kElementBits) &&
           index.getRank() == 1 && index.getNumElements() % lanes == 0 &&
           isTrue(gather.getMask()) &&
           llvm::all_of(gather.getOffsets(), [](Value offset) {
             return matchPattern(offset, m_Zero());
           });
  }

  void runOnOperation() override {
    if (bits != 256 && bits != 512) {
      getOperation()->emitError("expected 256 or 512 for option 'bits', got ")
          << bits.getValue();
      return signalPassFailure();
    }
    getOperation()->walk([&](vector::GatherOp gather) {
      DenseElementsAttr table = getTable(gather);
      if (!table || !isSuitable(gather, table))
        return;
      ImplicitLocOpBuilder b(gather.getLoc(), gather);
      RegisterTable registers{b, SmallVector<float>(table.getValues<float>()),
                              bits};
      gather.replaceAllUsesWith(registers.lookUpAll(gather.getIndices()));
      gather.erase();
    });
  }
};
} // namespace
} // namespace mlir::binade
