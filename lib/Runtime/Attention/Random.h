//===- Random.h - Dropout of probabilities ----------------------*- C++ -*-===//

namespace {

/// Returns, in the lower halves of the lanes, the first word that Philox4x32-10
/// draws for each index. The upper halves are undefined.
inline Longs drawWords(Longs indices, const Dropout &dropout,
                       const RandomState &state) {
  constexpr std::uint64_t kLow = 0xffffffff;
  auto low = static_cast<std::uint32_t>(state.seed),
       high = static_cast<std::uint32_t>(state.seed >> 32);
  Longs c0 = indices, c1 = indices >> 32, c2 = Longs(dropout.stream),
        c3 = Longs(state.step);
#pragma clang loop unroll(full)
  for (int round = 0; round < 10; ++round) {
    Longs a = (c0 & kLow) * 0xd2511f53, b = (c2 & kLow) * 0xcd9e8d57;
    c0 = b >> 32 ^ c1 ^ std::uint64_t(low);
    c1 = b;
    c2 = a >> 32 ^ c3 ^ std::uint64_t(high);
    c3 = a;
    low += 0x9e3779b9;
    high += 0xbb67ae85;
  }
  return c0;
}

/// Returns the mask of the probabilities that dropout keeps, for `query` and
/// the 16 keys from `key` on.
inline Masks drawKeepMask(const Shape &shape, const RandomState &state,
                          std::int64_t query, std::int64_t key) {
  constexpr Longs kNumbers = {0, 1, 2, 3, 4, 5, 6, 7};
  Longs first = Longs(state.firstIndex +
                      static_cast<std::uint64_t>(query * shape.keys + key)) +
                kNumbers;
  auto narrow = [](Longs x) {
    return __builtin_shufflevector(bitsOf<Words>(x), bitsOf<Words>(x), 0, 2, 4,
                                   6, 8, 10, 12, 14);
  };
  auto lower = narrow(drawWords(first, shape.dropout, state)),
       upper = narrow(drawWords(first + 8, shape.dropout, state));
  Words words = __builtin_shufflevector(lower, upper, 0, 1, 2, 3, 4, 5, 6, 7, 8,
                                        9, 10, 11, 12, 13, 14, 15);
  return words > shape.dropout.largestDropped;
}

/// Scales the elements that are kept, and sets the others to 0.
inline Floats applyDropout(const Shape &shape, Masks kept, Floats x) {
  return kept ? x * shape.dropout.scale : Floats(0);
}

} // namespace
