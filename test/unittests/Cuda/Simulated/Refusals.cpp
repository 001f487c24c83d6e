//===- Refusals.cpp - Matmuls that cuBLASLt refuses on Hopper -------------===//
// After the tables of cublasLtMatmul in NVIDIA's manual.
//===----------------------------------------------------------------------===//

#include "Product.h"

using namespace simulated;

static bool areTypesKnown(const Operands &x) {
  bool isTf32 = x.desc.compute == compute::FastTf32;
  if (isFp8(x.a.type) || isFp8(x.b.type)) {
    if (!isFp8(x.a.type) || !isFp8(x.b.type) || isTf32)
      return false;
    bool isE4m3 = x.a.type == type::E4M3 && x.b.type == type::E4M3;
    bool isE5m2 = x.a.type == type::E5M2 && x.b.type == type::E5M2;
    if (isE5m2 || (isE4m3 && x.d.type == type::E5M2))
      return false;
    return isFp8(x.d.type) ? x.c.type == type::BF16 || x.c.type == type::F16
                           : x.c.type == x.d.type;
  }
  if (x.a.type != x.b.type || x.c.type != x.d.type)
    return false;
  if (isTf32 && x.a.type != type::F32)
    return false;
  return x.d.type == x.a.type || x.d.type == type::F32;
}

static bool isBiasKnown(const Operands &x) {
  if (!x.hasBias())
    return true;
  int expected = x.d.type;
  if (isFp8(x.a.type))
    expected = isFp8(x.d.type)         ? x.c.type
               : x.d.type == type::F32 ? int(type::BF16)
                                       : x.d.type;
  return static_cast<int>(x.desc.get(desc::BiasDataType, type::F32)) ==
         expected;
}

static bool isFp8Possible(const Operands &x) {
  if (getSetting("capability", 90) < 89)
    return false;
  if (!x.isTransposed(desc::TransA) || x.isTransposed(desc::TransB))
    return false;
  auto isMultiple = [](std::int64_t elements, int type) {
    return elements * getByteSize(type) % 16 == 0;
  };
  if (x.getM() % 16 || x.getK() % 16 || !isMultiple(x.a.ld, x.a.type) ||
      !isMultiple(x.b.ld, x.b.type) || !isMultiple(x.d.ld, x.d.type))
    return false;
  auto modeA = x.desc.get(desc::AScaleMode),
       modeB = x.desc.get(desc::BScaleMode);
  if (modeA == scale::Scalar && modeB == scale::Scalar)
    return true;
  // Block scales: at least one operand has scales of vectors, and both operands
  // have scales.
  return getSetting("capability", 90) == 90 && modeA != scale::Scalar &&
         modeB != scale::Scalar &&
         (modeA == scale::Vec128 || modeB == scale::Vec128) &&
         !isFp8(x.d.type) && x.getM() % 4 == 0 && x.getN() % 4 == 0 &&
         !x.desc.get(desc::FastAccumulation) &&
         x.desc.get(desc::AScalePointer) && x.desc.get(desc::BScalePointer);
}

bool simulated::isPossible(const Operands &x) {
  if (getSetting("refuse", 0))
    return false;
  std::uint64_t rowsB = x.isTransposed(desc::TransB) ? x.b.columns : x.b.rows;
  std::uint64_t rowsA = x.isTransposed(desc::TransA) ? x.a.columns : x.a.rows;
  if (rowsB != x.getK() || rowsA != x.getM() || !areTypesKnown(x) ||
      !isBiasKnown(x))
    return false;
  if (x.hasAux() &&
      (x.desc.get(desc::AuxLd) % 8 || x.desc.get(desc::AuxLd) < x.getM()))
    return false;
  bool isBGrad = x.getEpilogue() >= epilogue::BGradA;
  if (isFp8(x.a.type))
    return isFp8Possible(x) && !isBGrad;
  return x.desc.get(desc::AScaleMode) == scale::Scalar &&
         x.desc.get(desc::BScaleMode) == scale::Scalar;
}
