//===- MeasureCeilings.cpp - Peak rates of the CPU ------------------------===//

#include "MeasureCeilings.h"
#include "../Execution/Arena.h"
#include "../Execution/FloatMode.h"
#include "../Execution/KernelObject.h"
#include "Contraction.h"
#include "binade/Container/Numbers.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <immintrin.h>
#include <limits>

using namespace binade;

/// Returns the shortest time of `repetitions` runs after a warm-up run.
static double measure(int repetitions, const std::function<void()> &work) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= repetitions; ++i) {
    auto start = std::chrono::steady_clock::now();
    work();
    std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - start;
    if (i > 0)
      best = std::min(best, time.count());
  }
  return best;
}

/// Repetitions for runs of milliseconds, and for short runs, which other
/// processes may interrupt.
static constexpr int kFew = 5, kMany = 50;

static std::string describe(double perSecond, const char *unit,
                            std::string how) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.1f %s: ", perSecond / 1e9, unit);
  return text + std::move(how);
}

static void measureCopy(Ceilings &ceilings, unsigned threads) {
  // More than the caches, but little compared with the memory of a step.
  constexpr std::uint64_t bytes = 64 << 20, block = 1 << 20;
  Result<Arena> memory = Arena::allocate(2 * bytes, "profile");
  if (!memory)
    return;
  std::byte *data = memory->data();
  double seconds = measure(kFew, [&] {
    ThreadTeam::get().parallelFor(
        threads, bytes / block, [&](std::int64_t i, unsigned) {
          std::memcpy(data + bytes + i * block, data + i * block, block);
        });
  });
  ceilings.bytesPerSecond = 2 * bytes / seconds;
  ceilings.sources.push_back(
      describe(ceilings.bytesPerSecond, "GB/s",
               "measured, a copy of " + formatBytes(bytes) + " on " +
                   std::to_string(threads) + " threads"));
}

// Enough independent chains of multiply-adds to hide their latency.
static constexpr int kChains = 12, kLinks = 1 << 12;

[[gnu::target("avx512f")]] static void chain512(float *out) {
  __m512 sums[kChains], factor = _mm512_set1_ps(0.5f);
  for (__m512 &sum : sums)
    sum = factor;
  for (int link = 0; link < kLinks; ++link)
    for (__m512 &sum : sums)
      sum = _mm512_fmadd_ps(sum, factor, factor);
  for (__m512 sum : sums)
    *out += _mm512_reduce_add_ps(sum);
}

[[gnu::target("avx2,fma")]] static void chain256(float *out) {
  __m256 sums[kChains], factor = _mm256_set1_ps(0.5f);
  for (__m256 &sum : sums)
    sum = factor;
  for (int link = 0; link < kLinks; ++link)
    for (__m256 &sum : sums)
      sum = _mm256_fmadd_ps(sum, factor, factor);
  for (__m256 sum : sums)
    *out += _mm256_cvtss_f32(sum);
}

static void measureMultiplyAdd(Ceilings &ceilings, unsigned threads) {
  std::span<const std::string_view> levels = supportedIsaLevels();
  if (levels.empty())
    return;
  bool isWide = levels.front() == "x86-64-v4";
  std::vector<double> seconds(threads);
  std::vector<float> sums(threads);
  ThreadTeam::get().parallelFor(
      threads, threads, [&](std::int64_t index, unsigned) {
        auto i = static_cast<std::size_t>(index);
        seconds[i] =
            measure(kMany, [&] { (isWide ? chain512 : chain256)(&sums[i]); });
      });
  const double lanes = isWide ? 16 : 8;
  double peak = 0;
  for (double each : seconds)
    peak += 2.0 * lanes * kChains * kLinks / each;
  ceilings.flopsPerSecond[DType::F32] = peak;
  ceilings.sources.push_back(describe(peak, "Gflop/s",
                                      "F32, measured, fused multiply-adds in "
                                      "registers on " +
                                          std::to_string(threads) +
                                          " threads"));
}

static void measureMatmul(Ceilings &ceilings, DType dtype, unsigned threads,
                          Contraction contraction) {
  constexpr std::int64_t size = 1024;
  std::vector<plan::Buffer> buffers(3);
  std::uint64_t bytes = 0;
  for (plan::Buffer &buffer : buffers) {
    buffer.dtype = dtype;
    buffer.shape = {size, size};
    buffer.offset = bytes;
    buffer.bytes = size * size * byteSize(dtype);
    bytes += buffer.bytes;
  }
  plan::Matmul matmul;
  matmul.m = matmul.n = matmul.k = size;
  matmul.lhs = {0, 0, {size, 1}, {}};
  matmul.rhs = {1, 0, {size, 1}, {}};
  matmul.out = {2, 0, {size, 1}, {}};
  plan::Record record{"product", matmul};
  LibraryUse use = queryLibrary(buffers, record, threads, contraction);
  Result<Arena> memory = Arena::allocate(bytes + use.scratchBytes, "profile");
  if (!memory)
    return;
  OpenMPThreads openMP(threads);
  auto operation = createContraction(record, {memory->data(), buffers}, threads,
                                     contraction);
  operation->setScratch(memory->data() + bytes);
  ExecutionContext context{&ThreadTeam::get(), threads, 0, {}};
  double seconds = measure(kFew, [&] { operation->run(context); });
  // If this type is computed in f32, the peak of f32 applies.
  double peak = std::max(costOf(record, buffers).flops / seconds,
                         ceilings.flopsPerSecond[DType::F32]);
  ceilings.flopsPerSecond[dtype] = peak;
  ceilings.sources.push_back(
      describe(peak, "Gflop/s",
               std::string(name(dtype)) +
                   ", measured, the higher of F32 and a matmul "
                   "of 1024 x 1024 x 1024 with " +
                   use.implementation));
}

Ceilings binade::measureCeilings(unsigned threads,
                                 const std::set<DType> &narrow,
                                 Contraction contraction) {
  IeeeMode mode;
  Ceilings ceilings;
  measureCopy(ceilings, threads);
  measureMultiplyAdd(ceilings, threads);
  for (DType dtype : narrow)
    measureMatmul(ceilings, dtype, threads, contraction);
  return ceilings;
}
