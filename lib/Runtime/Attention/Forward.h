//===- Forward.h - Attention of the queries of a head -----------*- C++ -*-===//

namespace {

template <typename Engine> struct Forward {
  using Layout = Blocks<Engine>;
  using Element = typename Engine::Element;
  /// Queries whose scores are computed together.
  static constexpr std::int64_t kRows = 32;

  struct Memory {
    Memory(const Shape &shape, std::byte *memory) : partition(memory) {
      std::int64_t keys = roundUpTo(shape.keys, Layout::kStrip);
      keyPitch = Layout::getWordPitch(keys);
      valuePitch = Layout::getWordPitch(shape.width);
      probabilityPitch = Layout::getPitch(keys);
      this->keys = partition.take<Element>(Layout::pad(shape.depth) * keyPitch);
      values = partition.take<Element>(keys * valuePitch);
      query = partition.take<Element>(kRows * Layout::getPitch(shape.depth));
      std::int64_t columns =
          shape.depth < shape.width ? shape.width : shape.depth;
      strip = partition.take<Element>(Layout::countStripElements(columns));
      sums = partition.take<float>(kRows * valuePitch);
      scores = partition.take<float>(kRows * keyPitch);
      if constexpr (Engine::kGroup == 1)
        probabilities = scores;
      else
        probabilities = partition.take<Element>(kRows * probabilityPitch);
    }

    Partition partition;
    std::int64_t keyPitch, valuePitch, probabilityPitch;
    Element *keys, *values; ///< Right sides of matmuls.
    Element *query, *probabilities, *strip;
    float *scores, *sums;
  };

  static std::int64_t countBytes(const Shape &shape) {
    return Memory(shape, nullptr).partition.countBytes();
  }

  static void prepareKeys(const Shape &shape, const Head &head,
                          std::byte *memory) {
    Memory m(shape, memory);
    std::int64_t padded = roundUpTo(shape.keys, Layout::kStrip);
    typename Layout::Layouts layouts;
    layouts.transposed = m.keys;
    layouts.transposedPitch = m.keyPitch;
    Layout::prepare(head.key, 0, shape.keys, shape.depth, padded, layouts,
                    m.strip, nullptr);
    layouts = {};
    layouts.interleaved = m.values;
    Layout::prepare(head.value, 0, shape.keys, shape.width, padded, layouts,
                    m.strip, nullptr);
  }

  /// Computes the probabilities of a query from `visible` scores, which are
  /// still to be multiplied by `scale`, and 0 for keys after these up to
  /// `count`. Returns the logarithm of the sum of exponentials.
  static float normalize(const Shape &shape, const RandomState &random,
                         std::int64_t query, float *scores,
                         std::int64_t visible, std::int64_t count, float scale,
                         Element *to) {
    float largest = findLargest(scores, visible, scale);
    if (shape.zeroHidden && isMinusInfinity(largest)) {
      for (std::int64_t j = 0; j < count; j += kLanes)
        Engine::store(to + j, Floats(0));
      return largest;
    }
    float total = addExponentials(scores, visible, scale, largest, scores),
          share = 1.0f / total;
    std::int64_t j = 0;
    for (; j < visible; j += kLanes) {
      Floats p = loadAs<Floats>(scores + j) * share;
      if (shape.zeroNan)
        p = zeroNan(p);
      if (shape.hasDropout)
        p = applyDropout(shape, drawKeepMask(shape, random, query, j), p);
      Engine::store(to + j, p);
    }
    for (; j < count; j += kLanes)
      Engine::store(to + j, Floats(0));
    return largest + __builtin_logf(total);
  }

  static void computeRows(const Shape &shape, const Head &head,
                          std::int64_t first, std::int64_t count,
                          std::byte *memory) {
    [[maybe_unused]] typename Engine::Scope scope;
    Memory m(shape, memory);
    for (std::int64_t end = first + count; first < end; first += kRows)
      computeBlock(shape, head, first, getSmaller(kRows, end - first), m);
  }

private:
  static void computeBlock(const Shape &shape, const Head &head,
                           std::int64_t first, std::int64_t count,
                           const Memory &m) {
    std::int64_t depth = Layout::pad(shape.depth),
                 queryPitch = Layout::getPitch(shape.depth);
    Layout::copyRows(head.query, first, count, shape.depth, kRows, m.query);
    std::int64_t seen =
        shape.causal ? getSmaller(shape.keys, first + count) : shape.keys;
    std::int64_t keys = Layout::pad(seen);
    Engine::multiply(m.query, queryPitch, m.keys, m.keyPitch, m.scores,
                     m.keyPitch, kRows, keys, depth, false);
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t visible =
          shape.causal ? getSmaller(seen, first + i + 1) : seen;
      float *scores = m.scores + i * m.keyPitch, scale = shape.scale;
      if (!shape.hasPlainScores()) {
        finishScores(shape, head, first + i, 0, visible, scores,
                     /*tangents=*/nullptr);
        scale = 1;
      }
      head.lse[(first + i) * head.lseStride] =
          normalize(shape, head.random, first + i, scores, visible, keys, scale,
                    m.probabilities + i * m.probabilityPitch);
    }
    Engine::multiply(m.probabilities, m.probabilityPitch, m.values,
                     m.valuePitch, m.sums, m.valuePitch, kRows,
                     Layout::pad(shape.width), keys, false);
    for (std::int64_t i = 0; i < count; ++i)
      storeRow(m.sums + i * m.valuePitch, shape.width, head.y, first + i);
  }
};

} // namespace
