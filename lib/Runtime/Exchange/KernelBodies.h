//===- KernelBodies.h - Encoding of exchanged gradients ---------*- C++ -*-===//
// Included by KernelsAvx2.cpp and KernelsAvx512.cpp. Loops over the elements of
// a block have no branches, so that the compiler vectorizes them.
//===----------------------------------------------------------------------===//

static constexpr std::int64_t kBlock = ExchangeLayout::kBlock;
static constexpr std::int32_t kDigitBits = ExchangeLayout::kDigitBits;
static constexpr std::uint32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;

static std::uint32_t bitsOf(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

/// Returns the largest magnitude as bits: NaN > infinity > any number.
static std::uint32_t findLargest(const float *values, std::int64_t count) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i)
    largest = std::max(largest, bitsOf(values[i]) & kMagnitude);
  return largest;
}

/// Returns the number of a block whose largest magnitude is `bits`: that of the
/// digit of its highest bit, minus 1; at least 1.
static std::int32_t numberOf(std::uint32_t bits) {
  if (bits == 0)
    return 0;
  if (bits >= kInfinity)
    return kNotFinite;
  auto exponent = static_cast<std::int32_t>(bits >> 23);
  return std::max((std::max(exponent, 1) + 22) / kDigitBits - 1, 1);
}

/// Position of the lowest bit that a block keeps, counted from 2^-149.
static std::int32_t lowestBit(std::int32_t number) {
  return kDigitBits * (number - 1);
}

/// Moves the digits of a block to those that a larger `number` keeps.
static void raise(const Sums &sums, std::int64_t block, std::int64_t size,
                  std::int32_t number) {
  std::int32_t old = std::exchange(sums.numbers[block], number);
  if (old == 0)
    return;
  std::int64_t by =
      number == kNotFinite
          ? ExchangeLayout::kDigits
          : std::min<std::int64_t>(number - old, ExchangeLayout::kDigits);
  std::int64_t first = block * kBlock;
  for (std::int64_t digit = ExchangeLayout::kDigits - 1; digit >= 0; --digit) {
    std::int32_t *to = sums.digits[digit] + first;
    if (digit >= by)
      std::copy_n(sums.digits[digit - by] + first, size, to);
    else
      std::fill_n(to, size, 0);
  }
}

/// Counts the values of a block that are not finite.
static void countNotFinite(const Sums &sums, std::int64_t position,
                           const float *values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t bits = bitsOf(values[i]);
    sums.digits[0][position + i] += (bits & kMagnitude) > kInfinity;
    sums.digits[1][position + i] += bits == kInfinity;
    sums.digits[2][position + i] += bits == (kInfinity | 0x80000000);
  }
}

/// Adds values to the digits of a block whose number is not less than theirs.
static void addDigits(const Sums &sums, std::int64_t position,
                      const float *values, std::int64_t count,
                      std::int32_t lowest) {
  std::int32_t *high = sums.digits[0] + position,
               *middle = sums.digits[1] + position,
               *low = sums.digits[2] + position;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t bits = bitsOf(values[i]), exponent = (bits >> 23) & 0xff;
    bool isNormal = exponent != 0;
    std::uint32_t significand =
        (bits & 0x7fffff) | (std::uint32_t(isNormal) << 23);
    // The significand times 2^shift, in units of the lowest bit.
    std::int32_t shift =
        static_cast<std::int32_t>(exponent - isNormal) - lowest;
    auto place = [&](std::int32_t by) {
      std::uint32_t up = std::uint32_t(std::clamp(by, 0, 31)),
                    down = std::uint32_t(std::clamp(-by, 0, 31));
      return static_cast<std::int32_t>(((significand << up) >> down) & 0xffff);
    };
    auto sign = static_cast<std::int32_t>(bits) >> 31;
    auto sign0 = [&](std::int32_t digit) { return (digit ^ sign) - sign; };
    high[i] += sign0(place(shift - 2 * kDigitBits));
    middle[i] += sign0(place(shift - kDigitBits));
    low[i] += sign0(place(shift));
  }
}

static void add(const Sums &sums, std::int64_t position, const float *values,
                std::int64_t count) {
  while (count > 0) {
    std::int64_t block = position / kBlock,
                 part = std::min(count, (block + 1) * kBlock - position);
    std::int32_t number = numberOf(findLargest(values, part));
    if (number > sums.numbers[block])
      raise(sums, block, std::min(kBlock, sums.size - block * kBlock), number);
    std::int32_t kept = sums.numbers[block];
    if (kept == kNotFinite)
      countNotFinite(sums, position, values, part);
    else if (number > 0)
      addDigits(sums, position, values, part, lowestBit(kept));
    position += part;
    values += part;
    count -= part;
  }
}

static void pack(const Sums &sums, const std::int32_t *numbers,
                 std::int64_t begin, std::int64_t end, std::int64_t *packed) {
  for (std::int64_t first = begin; first < end; first += kBlock) {
    std::int64_t last = std::min(first + kBlock, end), block = first / kBlock;
    std::int32_t own = sums.numbers[block], kept = numbers[block];
    if (kept == kNotFinite || own == 0 ||
        kept - own >= ExchangeLayout::kDigits) {
      bool counts = own == kNotFinite;
      for (std::int64_t i = first; i < last; ++i)
        packed[i] =
            counts ? (std::int64_t(sums.digits[0][i]) << (2 * kCountBits)) +
                         (std::int64_t(sums.digits[1][i]) << kCountBits) +
                         sums.digits[2][i]
                   : 0;
      continue;
    }
    // The digits below the lowest kept one are dropped.
    std::int32_t by = kept - own;
    const std::int32_t *digits[ExchangeLayout::kDigits];
    std::int64_t factors[ExchangeLayout::kDigits];
    for (std::int32_t digit = 0; digit < ExchangeLayout::kDigits; ++digit) {
      std::int32_t from = ExchangeLayout::kDigits - 1 - digit - by;
      digits[digit] = sums.digits[digit];
      factors[digit] = from < 0 ? 0 : std::int64_t(1) << (kDigitBits * from);
    }
    for (std::int64_t i = first; i < last; ++i)
      packed[i] = digits[0][i] * factors[0] + digits[1][i] * factors[1] +
                  digits[2][i] * factors[2];
  }
}

/// Returns the sum of values of which some are not finite, from their counts.
/// That of an element with finite values only is not known.
static float decodeCounts(std::int64_t counts) {
  constexpr std::int64_t mask = (std::int64_t(1) << kCountBits) - 1;
  std::int64_t negative = counts & mask, positive = counts >> kCountBits & mask;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  if (counts >> (2 * kCountBits) || (negative > 0) == (positive > 0))
    return std::numeric_limits<float>::quiet_NaN();
  return positive > 0 ? infinity : -infinity;
}

static void decode(const std::int64_t *packed, const std::int32_t *numbers,
                   std::int64_t begin, std::int64_t end, float *values) {
  for (std::int64_t first = begin; first < end; first += kBlock) {
    std::int64_t last = std::min(first + kBlock, end);
    std::int32_t number = numbers[first / kBlock];
    if (number == kNotFinite) {
      for (std::int64_t i = first; i < last; ++i)
        values[i] = decodeCounts(packed[i]);
      continue;
    }
    // The conversion rounds once: a result below 2^-126 has at most 24 bits,
    // because units are multiples of 2^-149.
    double unit = std::ldexp(1.0, (number ? lowestBit(number) : 0) - 149);
    for (std::int64_t i = first; i < last; ++i)
      values[i] = static_cast<float>(
          static_cast<double>(static_cast<float>(packed[i])) * unit);
  }
}

static void toBF16(const float *values, std::int64_t count, std::uint16_t *to) {
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = floatToBF16(values[i]);
}

static void addBF16(const std::uint16_t *codes, std::int64_t count,
                    float *sum) {
  for (std::int64_t i = 0; i < count; ++i)
    sum[i] += bf16ToFloat(codes[i]);
}

/// Rounds magnitudes of at most 448 to the nearest E4M3, ties to even.
static std::uint8_t encodeE4M3(float value) {
  std::uint32_t bits = bitsOf(value), magnitude = bits & kMagnitude;
  std::uint32_t normal =
      ((magnitude + 0x7ffff + ((magnitude >> 20) & 1)) >> 20) - (120 << 3);
  // Below 2^-6, codes are multiples of 2^-9, the spacing of f32 at 2^14.
  float shifted = std::bit_cast<float>(magnitude) + 16384.0f;
  std::uint32_t subnormal = bitsOf(shifted) - bitsOf(16384.0f);
  std::uint32_t code = magnitude < 0x3c800000 ? subnormal : normal;
  return static_cast<std::uint8_t>(std::min<std::uint32_t>(code, 0x7e) |
                                   (bits >> 24 & 0x80));
}

static void toE4M3(const float *values, std::int64_t count, std::uint8_t *codes,
                   float *scales) {
  for (std::int64_t first = 0; first < count; first += kBlock) {
    std::uint32_t largest = findLargest(values + first, kBlock);
    float scale = std::bit_cast<float>(largest) / 448.0f;
    if (largest >= kInfinity)
      scale = std::numeric_limits<float>::quiet_NaN();
    else if (largest > 0)
      scale = std::max(scale, std::numeric_limits<float>::denorm_min());
    scales[first / kBlock] = scale;
    if (!(scale > 0)) {
      std::fill_n(codes + first, kBlock, 0);
      continue;
    }
    for (std::int64_t i = first; i < first + kBlock; ++i)
      codes[i] = encodeE4M3(values[i] / scale);
  }
}

static void addE4M3(const std::uint8_t *codes, const float *scales,
                    std::int64_t count, float *sum) {
  for (std::int64_t first = 0; first < count; first += kBlock) {
    float scale = scales[first / kBlock];
    for (std::int64_t i = first; i < first + kBlock; ++i) {
      std::uint32_t code = codes[i], magnitude = code & 0x7f;
      float normal = std::bit_cast<float>((magnitude << 20) + (120u << 23));
      float subnormal =
          static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-9f;
      float value = magnitude < 8 ? subnormal : normal;
      // Rounded before the addition, which must not be fused with it.
      float term =
          std::bit_cast<float>(bitsOf(value) | (code & 0x80) << 24) * scale;
      sum[i] += term;
    }
  }
}
