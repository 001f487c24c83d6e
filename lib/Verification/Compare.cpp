//===- Compare.cpp - Bitwise comparison of elements -----------------------===//

#include "Compare.h"
#include "binade/Container/FloatConversion.h"
#include "binade/Reference/FloatFormat.h"
#include <bit>
#include <cmath>
#include <cstring>

using namespace mlir;
using namespace mlir::binade;
using ::binade::DType;

static const llvm::fltSemantics *getSemantics(DType dtype) {
  switch (dtype) {
  case DType::F64:
    return &APFloat::IEEEdouble();
  case DType::F32:
    return &APFloat::IEEEsingle();
  case DType::F16:
    return &APFloat::IEEEhalf();
  case DType::BF16:
    return &APFloat::BFloat();
  case DType::F8_E4M3:
    return &APFloat::Float8E4M3FN();
  case DType::F8_E5M2:
    return &APFloat::Float8E5M2();
  case DType::F8_E8M0:
    return &APFloat::Float8E8M0FNU();
  default:
    return nullptr;
  }
}

static uint64_t readBits(DType dtype, std::span<const std::byte> bytes,
                         int64_t index) {
  uint64_t bits = 0;
  size_t size = byteSize(dtype);
  std::memcpy(&bits, bytes.data() + index * size, size);
  return bits;
}

static bool isSigned(DType dtype) {
  return dtype == DType::I64 || dtype == DType::I32 || dtype == DType::I16 ||
         dtype == DType::I8;
}

static int64_t extend(DType dtype, uint64_t bits) {
  unsigned unused = 64 - 8 * byteSize(dtype);
  return static_cast<int64_t>(bits << unused) >> unused;
}

double mlir::binade::readElement(DType dtype, std::span<const std::byte> bytes,
                                 int64_t index) {
  uint64_t bits = readBits(dtype, bytes, index);
  switch (dtype) {
  case DType::F64:
    return std::bit_cast<double>(bits);
  case DType::F32:
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  case DType::F16:
    return ::binade::f16ToFloat(static_cast<uint16_t>(bits));
  case DType::BF16:
    return ::binade::bf16ToFloat(static_cast<uint16_t>(bits));
  default:
    break;
  }
  if (const llvm::fltSemantics *semantics = getSemantics(dtype))
    return FloatFormat(*semantics).decode(bits);
  return isSigned(dtype) ? static_cast<double>(extend(dtype, bits))
                         : static_cast<double>(bits);
}

/// Returns the position of a value in the ordered sequence of all values of
/// `dtype`, with 0 for zero.
static __int128 rank(DType dtype, uint64_t bits) {
  const llvm::fltSemantics *semantics = getSemantics(dtype);
  if (!semantics)
    return isSigned(dtype) ? __int128(extend(dtype, bits)) : __int128(bits);
  FloatFormat format(*semantics);
  uint64_t sign = format.hasSign ? uint64_t(1) << (format.width - 1) : 0;
  __int128 magnitude = bits & ~sign;
  return bits & sign ? -magnitude : magnitude;
}

double mlir::binade::countUlps(DType dtype, std::span<const std::byte> left,
                               std::span<const std::byte> right,
                               int64_t index) {
  if (std::isnan(readElement(dtype, left, index)) ||
      std::isnan(readElement(dtype, right, index)))
    return NAN;
  __int128 steps = rank(dtype, readBits(dtype, left, index)) -
                   rank(dtype, readBits(dtype, right, index));
  return std::fabs(static_cast<double>(steps));
}

double mlir::binade::getSpacing(DType dtype, double value) {
  return FloatFormat(*getSemantics(dtype)).getSpacing(value);
}

Bytes mlir::binade::roundToward(DType dtype, ArrayRef<double> values, bool up) {
  size_t size = byteSize(dtype);
  Bytes bytes(values.size() * size);
  for (auto [index, value] : llvm::enumerate(values)) {
    APFloat number(value);
    bool isChanged;
    number.convert(*getSemantics(dtype),
                   up ? APFloat::rmTowardPositive : APFloat::rmTowardNegative,
                   &isChanged);
    uint64_t bits = number.bitcastToAPInt().getZExtValue();
    std::memcpy(bytes.data() + index * size, &bits, size);
  }
  return bytes;
}

std::optional<Difference>
mlir::binade::compareBits(DType dtype, std::span<const std::byte> value,
                          std::span<const std::byte> expected) {
  if (std::memcmp(value.data(), expected.data(), value.size()) == 0)
    return std::nullopt;
  std::optional<Difference> first;
  bool hasManyNans = isFloat(dtype) && byteSize(dtype) > 1;
  auto count = static_cast<int64_t>(value.size() / byteSize(dtype));
  for (int64_t i = 0; i < count; ++i) {
    if (readBits(dtype, value, i) == readBits(dtype, expected, i))
      continue;
    double left = readElement(dtype, value, i);
    double right = readElement(dtype, expected, i);
    if (hasManyNans && std::isnan(left) && std::isnan(right))
      continue;
    if (!first) {
      first.emplace();
      first->dtype = dtype;
      first->element = i;
      first->value = left;
      first->expected = right;
      first->ulps = countUlps(dtype, value, expected, i);
      first->elements = count;
    }
    ++first->different;
  }
  return first;
}
