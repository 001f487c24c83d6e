//===- OneRecord.h - Runs one record on tensors of the test -----*- C++ -*-===//

#ifndef BINADE_TEST_UNITTESTS_RUNTIME_ONERECORD_H
#define BINADE_TEST_UNITTESTS_RUNTIME_ONERECORD_H

#include "binade/Container/FloatConversion.h"
#include "binade/Container/Philox.h"
#include "binade/Runtime/Program.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace binade {

/// Returns the formats for which oneDNN is fast on this CPU: bf16 needs
/// AVX-512.
inline std::vector<DType> fastTypes() {
  std::vector<DType> types = {DType::F32};
  bool isAllowed = true;
  // oneDNN reads both variables, which may restrict it to older instructions.
  for (const char *variable : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"})
    if (const char *value = std::getenv(variable)) {
      std::string_view isa = value;
      isAllowed &= isa.starts_with("AVX512") || isa.starts_with("AVX10") ||
                   isa == "ALL" || isa == "DEFAULT";
    }
  if (isAllowed && __builtin_cpu_supports("avx512bw"))
    types.push_back(DType::BF16);
  return types;
}

/// Builds a program with tensors `t0`, `t1`, ..., which the test fills and the
/// records of the plan read and write.
class Tensors {
public:
  /// Adds a tensor; returns the index of its buffer.
  std::uint32_t add(DType dtype, std::vector<std::int64_t> shape) {
    std::uint64_t bytes = byteSize(dtype);
    for (std::int64_t size : shape)
      bytes *= static_cast<std::uint64_t>(size);
    auto index = static_cast<std::uint32_t>(plan.buffers.size());
    plan.buffers.push_back({"t" + std::to_string(index), plan.arenaBytes, bytes,
                            dtype, std::move(shape),
                            plan::Category::Workspace});
    plan.ports.push_back(
        {plan::Role::Constant, "t" + std::to_string(index), index, {}, {}});
    plan.arenaBytes += (bytes + 63) / 64 * 64;
    return index;
  }

  Program load(Contraction contraction, unsigned threads) {
    plan.ledger = {{plan::Category::Workspace, plan.arenaBytes}};
    LoadOptions options;
    options.contraction = contraction;
    options.threads = threads;
    Bundle bundle;
    bundle.plan = plan;
    Result<Program> program =
        Program::load(std::move(bundle), "test", "", options);
    if (!program)
      throw std::runtime_error(render(program.error()));
    return *std::move(program);
  }

  Plan plan;
};

inline Tensor tensorOf(const Program &program, std::uint32_t tensor) {
  return *program.find(plan::Role::Constant, "t" + std::to_string(tensor));
}

/// Returns the value of element `index`.
inline double readElement(const Tensor &t, std::int64_t index) {
  auto i = static_cast<std::size_t>(index);
  if (t.dtype == DType::F32)
    return t.as<float>()[i];
  if (t.dtype == DType::BF16)
    return bf16ToFloat(t.as<std::uint16_t>()[i]);
  return f16ToFloat(t.as<std::uint16_t>()[i]);
}

/// Fills a tensor with random values in [-1, 1) of at most 8 bits, which are
/// exact in bf16 and f16. The values depend on the tensor's index.
inline void fillExactly(const Program &program, std::uint32_t tensor) {
  Tensor t = tensorOf(program, tensor);
  std::size_t count = t.bytes.size() / byteSize(t.dtype);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t word =
        philox({static_cast<std::uint32_t>(i), tensor, 0, 0}, {1, 2})[0];
    float value = static_cast<float>(static_cast<int>(word >> 24) - 128) / 128;
    if (t.dtype == DType::F32)
      t.as<float>()[i] = value;
    else if (t.dtype == DType::BF16)
      t.as<std::uint16_t>()[i] = floatToBF16(value);
    else
      t.as<std::uint16_t>()[i] = floatToF16(value);
  }
}

/// Fills an F32 tensor with values that need all 24 bits of the significand.
inline void fillFinely(const Program &program, std::uint32_t tensor) {
  Tensor t = tensorOf(program, tensor);
  for (std::size_t i = 0; i < t.as<float>().size(); ++i)
    t.as<float>()[i] =
        2 * philoxUniform(philox({static_cast<std::uint32_t>(i), tensor, 0, 0},
                                 {3, 4})[0]) -
        1;
}

/// Returns half a unit in the last place of `type` at `value`.
inline double halfUlp(DType type, double value) {
  int digits = type == DType::F32 ? 24 : type == DType::BF16 ? 8 : 11;
  int lowest = type == DType::F16 ? -24 : -149;
  int exponent;
  std::frexp(value, &exponent);
  return std::ldexp(0.5, std::max(exponent - digits, lowest));
}

/// Returns `value` after rounding to `type`.
inline double roundTo(DType type, float value) {
  if (type == DType::BF16)
    return bf16ToFloat(floatToBF16(value));
  if (type == DType::F16)
    return f16ToFloat(floatToF16(value));
  return value;
}

} // namespace binade

#endif // BINADE_TEST_UNITTESTS_RUNTIME_ONERECORD_H
