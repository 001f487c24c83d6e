//===- Sweep.cpp - Runs a kernel over all inputs --------------------------===//

#include "Sweep.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <thread>

using namespace binade::test;

static constexpr uint64_t kPatterns = uint64_t(1) << 32;

std::vector<Variant> binade::test::allVariants() {
  return {{"16x", ""},        {"", ""},          {"4x", ""},
          {"8x", ""},         {"2x8x", ""},      {"32x", ""},
          {"16x", "haswell"}, {"8x", "haswell"}, {"", "haswell"}};
}

/// The patterns of one part of the sweep, in blocks of Kernel::size.
class Patterns {
public:
  Patterns(uint64_t stride, uint64_t part, uint64_t parts)
      : next(part * stride), step(parts * stride) {
    // 128 patterns on both sides of each boundary of a binade, of either sign.
    if (part == 0 && stride > 1)
      for (uint64_t boundary = 0; boundary <= kPatterns; boundary += 1 << 23)
        for (int64_t offset = -128; offset < 128; ++offset)
          boundaries.push_back(uint32_t(boundary + offset));
  }
  /// Fills the block; returns the number of patterns in it that are valid.
  int fill(std::array<uint32_t, Kernel::size> &block) {
    int count = 0;
    for (; count < Kernel::size && !boundaries.empty(); ++count) {
      block[count] = boundaries.back();
      boundaries.pop_back();
    }
    for (; count < Kernel::size && next < kPatterns; next += step)
      block[count++] = uint32_t(next);
    std::fill(block.begin() + count, block.end(), 0);
    return count;
  }

private:
  uint64_t next, step;
  std::vector<uint32_t> boundaries;
};

/// Runs `body(part, parts)` once per core.
template <typename Body> static void inParallel(Body body) {
  unsigned parts = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (unsigned part = 0; part < parts; ++part)
    threads.emplace_back([=] { body(part, parts); });
  for (std::thread &thread : threads)
    thread.join();
}

static void judge(Accuracy &accuracy, float x, float got, double exact) {
  ++accuracy.inputs;
  float nearest = static_cast<float>(exact);
  if (std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(nearest))
    return;
  if (std::isnan(got) && std::isnan(exact))
    return;
  // If the exact value is too small for f32, the zero must have its sign.
  if (std::isnan(got) || std::isnan(exact) || std::isinf(exact) ||
      std::signbit(got) != std::signbit(exact)) {
    if (accuracy.wrong++ == 0)
      accuracy.wrongAt = x;
    return;
  }
  // If one of the two overflows, extend the ulps of the largest binade.
  auto extended = [](float value) {
    return std::isinf(value) ? std::copysign(0x1p128, value) : double(value);
  };
  int exponent = std::max(std::ilogb(std::abs(exact)), -126);
  exponent = std::min(exponent, 127);
  double error = std::abs(extended(got) - exact) / std::ldexp(1, exponent - 23);
  if (error > accuracy.ulps)
    accuracy.ulps = error, accuracy.at = x;
}

static Accuracy merge(const std::vector<Accuracy> &parts) {
  Accuracy all;
  for (const Accuracy &part : parts) {
    if (part.ulps > all.ulps)
      all.ulps = part.ulps, all.at = part.at;
    if (all.wrong == 0)
      all.wrongAt = part.wrongAt;
    all.wrong += part.wrong;
    all.inputs += part.inputs;
  }
  return all;
}

Accuracy binade::test::measure(const Kernel &kernel,
                               double (*exact)(double, double), Sweep sweep,
                               float y) {
  std::vector<Accuracy> found(std::thread::hardware_concurrency() + 1);
  inParallel([&](unsigned part, unsigned parts) {
    Patterns patterns(uint64_t(sweep), part, parts);
    std::array<uint32_t, Kernel::size> x;
    std::array<float, Kernel::size> ys, r;
    ys.fill(y);
    while (int count = patterns.fill(x)) {
      kernel(x.data(), ys.data(), r.data());
      for (int i = 0; i < count; ++i) {
        float input = std::bit_cast<float>(x[i]);
        judge(found[part], input, r[i], exact(input, y));
      }
    }
  });
  return merge(found);
}

Accuracy binade::test::measure(const Kernel &kernel,
                               double (*exact)(double, double),
                               const std::vector<float> &x,
                               const std::vector<float> &y) {
  Accuracy found;
  std::array<float, Kernel::size> xs, ys, r;
  for (size_t begin = 0; begin < x.size(); begin += Kernel::size) {
    size_t count = std::min<size_t>(Kernel::size, x.size() - begin);
    std::copy_n(x.begin() + begin, count, xs.begin());
    std::copy_n(y.begin() + begin, count, ys.begin());
    kernel(xs.data(), ys.data(), r.data());
    for (size_t i = 0; i < count; ++i)
      judge(found, xs[i], r[i], exact(xs[i], ys[i]));
  }
  return found;
}

/// Counts the patterns for which `differs` returns true; sets `at` to one of
/// them.
template <typename Run>
static uint64_t countWhere(uint64_t stride, Run differs, uint32_t &at) {
  std::vector<uint64_t> counts(std::thread::hardware_concurrency() + 1);
  std::vector<uint32_t> firsts(counts.size());
  inParallel([&](unsigned part, unsigned parts) {
    Patterns patterns(stride, part, parts);
    std::array<uint32_t, Kernel::size> x;
    while (int count = patterns.fill(x))
      differs(x, count, [&](int i) {
        if (counts[part]++ == 0)
          firsts[part] = x[i];
      });
  });
  uint64_t total = 0;
  for (size_t part = 0; part < counts.size(); ++part) {
    if (total == 0)
      at = firsts[part];
    total += counts[part];
  }
  return total;
}

static bool isNaN(uint32_t pattern) {
  return (pattern & 0x7fffffff) > 0x7f800000;
}

/// Stores the results of `expected` for the ascending patterns [first, last] in
/// `r`. Rounding is monotone: if both ends of a run have the same result, so do
/// all values between them. NaNs are converted one by one.
template <typename Code>
static void expectRun(const uint32_t *first, const uint32_t *last, Code low,
                      Code high, Code (*expected)(uint32_t), Code *r) {
  if (low == high && !isNaN(*first) && !isNaN(*last)) {
    std::fill(r, r + (last - first + 1), low);
    return;
  }
  if (last - first <= 1) {
    r[0] = low;
    r[last - first] = high;
    return;
  }
  auto half = (last - first) / 2;
  Code middle = expected(first[half]);
  expectRun(first, first + half, low, middle, expected, r);
  expectRun(first + half, last, middle, high, expected, r + half);
}

template <typename Code>
static uint64_t countWrongCodes(const Kernel &kernel,
                                Code (*expected)(uint32_t), Sweep sweep,
                                uint32_t &at) {
  return countWhere(
      uint64_t(sweep),
      [&](const auto &x, int count, auto report) {
        std::array<Code, Kernel::size> r, wanted;
        kernel(x.data(), x.data(), r.data());
        if (std::is_sorted(x.begin(), x.begin() + count))
          expectRun(&x[0], &x[count - 1], expected(x[0]),
                    expected(x[count - 1]), expected, wanted.data());
        else
          std::transform(x.begin(), x.begin() + count, wanted.begin(),
                         expected);
        if (std::memcmp(r.data(), wanted.data(), count * sizeof(r[0])) == 0)
          return;
        for (int i = 0; i < count; ++i)
          if (r[i] != wanted[i])
            report(i);
      },
      at);
}

uint64_t binade::test::countMismatches(const Kernel &kernel,
                                       uint16_t (*expected)(uint32_t),
                                       Sweep sweep, uint32_t &at) {
  return countWrongCodes(kernel, expected, sweep, at);
}

uint64_t binade::test::countMismatches(const Kernel &kernel,
                                       uint8_t (*expected)(uint32_t),
                                       Sweep sweep, uint32_t &at) {
  return countWrongCodes(kernel, expected, sweep, at);
}

uint64_t binade::test::countDifferences(const Kernel &one, const Kernel &other,
                                        float y, int resultBytes,
                                        uint32_t &at) {
  return countWhere(
      10 * uint64_t(Sweep::Part),
      [&](const auto &x, int count, auto report) {
        std::array<float, Kernel::size> ys, r, s;
        ys.fill(y);
        one(x.data(), ys.data(), r.data());
        other(x.data(), ys.data(), s.data());
        auto *a = reinterpret_cast<const char *>(r.data());
        auto *b = reinterpret_cast<const char *>(s.data());
        for (int i = 0; i < count; ++i)
          if (std::memcmp(a + i * resultBytes, b + i * resultBytes,
                          resultBytes) != 0)
            report(i);
      },
      at);
}

/// Returns the shortest time of one call in ns.
static double fastest(const Kernel &kernel, const std::vector<float> &x) {
  std::vector<float> y(Kernel::size, 2.7f), r(Kernel::size);
  double best = INFINITY;
  for (int repeat = 0; repeat < 2000; ++repeat) {
    auto begin = std::chrono::steady_clock::now();
    kernel(x.data(), y.data(), r.data());
    std::chrono::duration<double, std::nano> spent =
        std::chrono::steady_clock::now() - begin;
    best = std::min(best, spent.count());
  }
  return best;
}

void binade::test::printSpeeds(const std::string &op, const std::string &r,
                               float low, float high) {
  std::vector<float> x(Kernel::size);
  for (int i = 0; i < Kernel::size; ++i)
    x[i] = low + (high - low) * float(i) / Kernel::size;
  for (const Variant &variant :
       {Variant{"16x", ""}, Variant{"8x", "haswell"}}) {
    Kernel kernel(op, "f32", r, variant);
    std::printf("  <%sf32> %s: %.2f elements per ns\n", variant.shape.c_str(),
                variant.cpu.c_str(), Kernel::size / fastest(kernel, x));
  }
}
