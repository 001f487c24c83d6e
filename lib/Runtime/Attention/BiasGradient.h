//===- BiasGradient.h - Gradients of an attention bias ----------*- C++ -*-===//
// Recomputes the gradients of the scores of some queries and all keys, and adds
// up those of several heads, one head after the other.
//===----------------------------------------------------------------------===//

namespace {

template <typename Engine> struct BiasGradient {
  using Layout = Blocks<Engine>;
  using Element = typename Engine::Element;
  /// Queries whose products with keys are computed by one matmul.
  static constexpr std::int64_t kRows = 32;

  struct Memory {
    Memory(const Shape &shape, std::byte *memory) : partition(memory) {
      std::int64_t depth = Layout::pad(shape.depth),
                   width = Layout::pad(shape.width),
                   keys = roundUpTo(shape.keys, Layout::kStrip),
                   columns = depth < width ? width : depth;
      pitch = Layout::getWordPitch(keys);
      depthPitch = Layout::getPitch(depth);
      widthPitch = Layout::getPitch(width);
      sums = partition.take<float>(kMaxBiasRows * pitch);
      this->keys = partition.take<Element>(depth * pitch);
      values = partition.take<Element>(width * pitch);
      query = partition.take<Element>(kRows * depthPitch);
      dy = partition.take<Element>(kRows * widthPitch);
      scores = partition.take<float>(kRows * pitch);
      dp = partition.take<float>(kRows * pitch);
      tangents =
          shape.softcap > 0 ? partition.take<float>(kRows * pitch) : nullptr;
      exponentials = partition.take<float>(pitch);
      inner = partition.take<float>(kRows);
      floats = partition.take<float>(2 * width);
      strip = partition.take<Element>(Layout::countStripElements(columns));
    }

    Partition partition;
    std::int64_t pitch, depthPitch, widthPitch;
    float *sums;
    Element *keys, *values; ///< Right operands of matmuls.
    Element *query, *dy, *strip;
    float *scores, *dp, *tangents, *exponentials, *inner, *floats;
  };

  static std::int64_t countBytes(const Shape &shape) {
    return Memory(shape, nullptr).partition.countBytes();
  }

  static void clear(const Shape &shape, std::byte *memory) {
    Memory m(shape, memory);
    __builtin_memset(m.sums, 0, kMaxBiasRows * m.pitch * sizeof(float));
  }

  static void add(const Shape &shape, const Head &head, std::int64_t first,
                  std::int64_t count, bool areQueriesSummed,
                  std::byte *memory) {
    [[maybe_unused]] typename Engine::Scope scope;
    Memory m(shape, memory);
    std::int64_t seen =
        shape.causal ? getSmaller(shape.keys, first + count) : shape.keys;
    prepareKeys(shape, head, seen, m);
    for (std::int64_t i = 0; i < count; i += kRows)
      addRows(shape, head, first + i, getSmaller(kRows, count - i),
              areQueriesSummed ? m.sums : m.sums + i * m.pitch,
              areQueriesSummed ? 0 : m.pitch, m);
  }

  static void write(const Shape &shape, const Rows &to, std::int64_t count,
                    bool areKeysSummed, std::byte *memory) {
    Memory m(shape, memory);
    std::int64_t keys = roundUpTo(shape.keys, kLanes);
    for (std::int64_t i = 0; i < count; ++i) {
      float *sums = m.sums + i * m.pitch;
      if (areKeysSummed) {
        Floats total(0);
        for (std::int64_t j = 0; j < keys; j += kLanes)
          total += loadAs<Floats>(sums + j);
        sums[0] = sumLanes(total);
      }
      storeRow(sums, areKeysSummed ? 1 : shape.keys, to, i);
    }
  }

private:
  static void prepareKeys(const Shape &shape, const Head &head,
                          std::int64_t seen, const Memory &m) {
    std::int64_t padded = roundUpTo(seen, Layout::kStrip);
    typename Layout::Layouts layouts;
    layouts.transposedPitch = m.pitch;
    layouts.transposed = m.keys;
    Layout::prepare(head.key, 0, seen, shape.depth, padded, layouts, m.strip,
                    nullptr);
    layouts.transposed = m.values;
    Layout::prepare(head.value, 0, seen, shape.width, padded, layouts, m.strip,
                    nullptr);
  }

  /// Adds the gradients of the scores of at most `kRows` queries to rows of
  /// `sums`, which are `sumPitch` elements apart.
  static void addRows(const Shape &shape, const Head &head, std::int64_t first,
                      std::int64_t count, float *sums, std::int64_t sumPitch,
                      const Memory &m) {
    std::int64_t depth = Layout::pad(shape.depth),
                 width = Layout::pad(shape.width),
                 seen = shape.causal ? getSmaller(shape.keys, first + count)
                                     : shape.keys,
                 keys = Layout::pad(seen);
    Layout::copyRows(head.query, first, count, shape.depth, kRows, m.query);
    Layout::copyRows(head.dy, first, count, shape.width, kRows, m.dy);
    computeInner(shape, head, first, count, width, m.floats, m.floats + width,
                 m.inner);
    Engine::multiply(m.query, m.depthPitch, m.keys, m.pitch, m.scores, m.pitch,
                     kRows, keys, depth, false);
    Engine::multiply(m.dy, m.widthPitch, m.values, m.pitch, m.dp, m.pitch,
                     kRows, keys, width, false);
    for (std::int64_t i = 0; i < count; ++i) {
      ScoreRow row;
      row.query = first + i;
      row.visible = shape.causal ? getSmaller(seen, row.query + 1) : seen;
      row.scores = m.scores + i * m.pitch;
      row.dp = m.dp + i * m.pitch;
      if (m.tangents)
        row.tangents = m.tangents + i * m.pitch;
      row.inner = m.inner[i];
      finishRow(shape, head, row, m.exponentials);
      float *to = sums + i * sumPitch;
      for (std::int64_t j = 0; j < row.visible; j += kLanes)
        storeAs(to + j, loadAs<Floats>(to + j) +
                            computeTerms(shape, head, row, j).dscores);
    }
  }
};

} // namespace
