//===- Sha256Native.cpp - SHA-256 with x86 SHA instructions ---------------===//
// Import hashes all weights; this code is about five times as fast as the
// portable one.
//===----------------------------------------------------------------------===//

#include "Sha256Blocks.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

namespace binade {

static bool hasShaInstructions() {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSSE3) || !(c & bit_SSE4_1))
    return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

/// Updates the state with instructions that use two vectors, (a b e f) and
/// (c d g h), highest lane first, and compute two rounds at once.
__attribute__((target("sha,sse4.1,ssse3"))) static void
compress(std::uint32_t state[8], const std::byte *data, std::size_t blocks) {
  auto *words = reinterpret_cast<__m128i *>(state);
  auto *constants = reinterpret_cast<const __m128i *>(kSha256Constants);
  const __m128i bigEndian =
      _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128(words), 0xb1);
  __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(words + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(abcd, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, abcd, 0xf0);

  for (; blocks; --blocks, data += 64) {
    __m128i oldAbef = abef, oldCdgh = cdgh;
    __m128i w[4]; // The message schedule as a ring buffer of 16 words.
    for (int i = 0; i < 4; ++i)
      w[i] = _mm_shuffle_epi8(
          _mm_loadu_si128(reinterpret_cast<const __m128i *>(data) + i),
          bigEndian);
#pragma clang loop unroll(full)
    for (int i = 0; i < 16; ++i) {
      __m128i &now = w[i & 3];
      __m128i sum = _mm_add_epi32(now, _mm_load_si128(constants + i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
      if (i >= 12)
        continue;
      __m128i last = w[(i + 3) & 3];
      __m128i middle = _mm_alignr_epi8(last, w[(i + 2) & 3], 4);
      now = _mm_sha256msg2_epu32(
          _mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) & 3]), middle),
          last);
    }
    abef = _mm_add_epi32(abef, oldAbef);
    cdgh = _mm_add_epi32(cdgh, oldCdgh);
  }

  __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}

bool sha256Native(std::uint32_t state[8], const std::byte *data,
                  std::size_t blocks) {
  static const bool supported = hasShaInstructions();
  if (supported)
    compress(state, data, blocks);
  return supported;
}

} // namespace binade

#else

bool binade::sha256Native(std::uint32_t[8], const std::byte *, std::size_t) {
  return false;
}

#endif
