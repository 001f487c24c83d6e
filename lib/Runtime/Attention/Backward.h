//===- Backward.h - Gradients of the attention of a head --------*- C++ -*-===//
// A chunk of keys and a block of queries at a time. Sums over queries, those of
// the gradients of keys and values, are in f32 in private memory, transposed,
// until all heads that share the keys are done.
//===----------------------------------------------------------------------===//

namespace {

template <typename Engine> struct Backward {
  using Layout = Blocks<Engine>;
  using Layouts = typename Layout::Layouts;
  using Element = typename Engine::Element;
  static constexpr std::int64_t kGroup = Engine::kGroup;
  /// Queries whose products are computed together, those whose probabilities
  /// are then multiplied together, and keys.
  static constexpr std::int64_t kRows = 32, kBlock = 64 * kGroup, kChunk = 512;

  /// Returns the keys of a chunk: all, if the statistic of a query is computed
  /// again from all its scores.
  static std::int64_t getChunk(const Shape &shape) {
    return shape.hasExactStatistic ? kChunk : shape.keys;
  }

  struct Memory {
    Memory(const Shape &shape, std::byte *memory) : partition(memory) {
      std::int64_t depth = Layout::pad(shape.depth),
                   width = Layout::pad(shape.width),
                   keys = roundUpTo(shape.keys, Layout::kStrip),
                   queries = roundUpTo(shape.queries, Layout::kStrip),
                   chunk = getSmaller(keys, getChunk(shape)),
                   block = getSmaller(queries, kBlock);
      std::int64_t columns = depth < width ? width : depth;
      sumPitch = Layout::getWordPitch(keys);
      dkey = partition.take<float>(depth * sumPitch);
      dvalue = partition.take<float>(width * sumPitch);

      depthPitch = Layout::getPitch(depth);
      depthWordPitch = Layout::getWordPitch(depth);
      widthPitch = Layout::getPitch(width);
      dquery = partition.take<float>(queries * depthWordPitch);
      inner = partition.take<float>(queries);

      chunkPitch = Layout::getWordPitch(chunk);
      keysTransposed = partition.take<Element>(depth * chunkPitch);
      keysInterleaved = partition.take<Element>(chunk * depthWordPitch);
      valuesTransposed = partition.take<Element>(width * chunkPitch);

      blockPitch = Layout::getPitch(block);
      query = partition.take<Element>(block * depthPitch);
      queryTransposed = partition.take<Element>(depth * blockPitch);
      dy = partition.take<Element>(block * widthPitch);
      dyTransposed = partition.take<Element>(width * blockPitch);

      scores = partition.take<float>(kRows * chunkPitch);
      dp = partition.take<float>(kRows * chunkPitch);
      tangents = shape.softcap > 0 ? partition.take<float>(kRows * chunkPitch)
                                   : nullptr;
      exponentials = partition.take<float>(chunkPitch);
      dsPitch = Layout::getPitch(chunk);
      p = partition.take<Element>(block * chunkPitch);
      ds = partition.take<Element>(block * dsPitch);
      dsInterleaved =
          kGroup == 1 ? ds : partition.take<Element>(block * chunkPitch);

      strip = partition.take<Element>(Layout::countStripElements(columns));
      pairs = partition.take<Element>(Layout::kStrip *
                                      Layout::getWordPitch(columns));
      floats =
          partition.take<float>(Layout::kStrip * Layout::getWordPitch(columns));
    }

    Partition partition;
    std::int64_t sumPitch, depthPitch, depthWordPitch, widthPitch, chunkPitch,
        blockPitch, dsPitch;
    float *dkey, *dvalue;                      ///< Transposed.
    float *dquery, *inner;                     ///< Of all queries.
    Element *keysTransposed, *keysInterleaved; ///< Of a chunk of keys.
    Element *valuesTransposed;                 ///< Likewise.
    Element *query, *queryTransposed;          ///< Of a block of queries.
    Element *dy, *dyTransposed;                ///< Likewise.
    float *scores, *dp, *exponentials;         ///< Of some rows and a chunk.
    float *tangents;                           ///< Likewise; may be null.
    Element *p, *ds, *dsInterleaved;           ///< Of a block and a chunk.
    Element *strip, *pairs;
    float *floats;
  };

  static std::int64_t countBytes(const Shape &shape) {
    return Memory(shape, nullptr).partition.countBytes();
  }

  static void clear(const Shape &shape, std::byte *memory) {
    Memory m(shape, memory);
    __builtin_memset(m.dkey, 0,
                     Layout::pad(shape.depth) * m.sumPitch * sizeof(float));
    __builtin_memset(m.dvalue, 0,
                     Layout::pad(shape.width) * m.sumPitch * sizeof(float));
  }

  static void addHead(const Shape &shape, const Head &head, std::byte *memory) {
    [[maybe_unused]] typename Engine::Scope scope;
    Memory m(shape, memory);
    std::int64_t width = Layout::pad(shape.width);
    computeInner(shape, head, 0, shape.queries, width, m.floats,
                 m.floats + width, m.inner);
    std::int64_t chunk = getChunk(shape);
    for (std::int64_t key = 0; key < shape.keys; key += chunk) {
      std::int64_t keys = getSmaller(chunk, shape.keys - key);
      prepareChunk(shape, head, key, keys, m);
      // A causal mask hides these keys from the queries of earlier blocks.
      std::int64_t first = shape.causal ? key / kBlock * kBlock : 0;
      for (std::int64_t query = first; query < shape.queries; query += kBlock)
        addBlock(shape, head, {query, key, keys}, m);
    }
    for (std::int64_t i = 0; i < shape.queries; ++i)
      storeRow(m.dquery + i * m.depthWordPitch, shape.depth, head.dquery, i);
  }

  static void write(const Shape &shape, const Rows &dkey, const Rows &dvalue,
                    std::byte *memory) {
    Memory m(shape, memory);
    writeTransposed(m.dkey, m.sumPitch, shape.keys, shape.depth, dkey,
                    m.floats);
    writeTransposed(m.dvalue, m.sumPitch, shape.keys, shape.width, dvalue,
                    m.floats);
  }

private:
  /// A block of queries, and a chunk of keys.
  struct Place {
    std::int64_t query, key, keys;
  };

  static void prepareChunk(const Shape &shape, const Head &head,
                           std::int64_t key, std::int64_t keys,
                           const Memory &m) {
    std::int64_t padded = roundUpTo(keys, Layout::kStrip);
    Layouts layouts;
    layouts.interleaved = m.keysInterleaved;
    layouts.transposed = m.keysTransposed;
    layouts.transposedPitch = m.chunkPitch;
    Layout::prepare(head.key, key, keys, shape.depth, padded, layouts, m.strip,
                    m.pairs);
    layouts.interleaved = nullptr;
    layouts.transposed = m.valuesTransposed;
    Layout::prepare(head.value, key, keys, shape.width, padded, layouts,
                    m.strip, m.pairs);
  }

  static void prepareBlock(const Shape &shape, const Head &head,
                           std::int64_t query, std::int64_t count,
                           std::int64_t padded, const Memory &m) {
    Layouts layouts;
    layouts.rows = m.query;
    layouts.leftTransposed = m.queryTransposed;
    layouts.leftTransposedPitch = m.blockPitch;
    Layout::prepare(head.query, query, count, shape.depth, padded, layouts,
                    m.strip, m.pairs);
    layouts.rows = m.dy;
    layouts.leftTransposed = m.dyTransposed;
    Layout::prepare(head.dy, query, count, shape.width, padded, layouts,
                    m.strip, m.pairs);
  }

  static void addBlock(const Shape &shape, const Head &head, const Place &place,
                       const Memory &m) {
    std::int64_t count = getSmaller(kBlock, shape.queries - place.query),
                 rows = roundUpTo(count, Layout::kStrip),
                 depth = Layout::pad(shape.depth),
                 width = Layout::pad(shape.width);
    prepareBlock(shape, head, place.query, count, rows, m);
    std::int64_t seen =
        shape.causal ? getSmaller(place.keys, place.query + count - place.key)
                     : place.keys;
    std::int64_t keys = Layout::pad(seen);
    for (std::int64_t i = 0; i < rows; i += kRows) {
      Engine::multiply(m.query + i * m.depthPitch, m.depthPitch,
                       m.keysTransposed, m.chunkPitch, m.scores, m.chunkPitch,
                       kRows, keys, depth, false);
      Engine::multiply(m.dy + i * m.widthPitch, m.widthPitch,
                       m.valuesTransposed, m.chunkPitch, m.dp, m.chunkPitch,
                       kRows, keys, width, false);
      for (std::int64_t row = 0; row < kRows; row += kGroup)
        computeRows(shape, head, place, i + row, row, keys, m);
    }
    Engine::multiply(m.dyTransposed, m.blockPitch, m.p, m.chunkPitch,
                     m.dvalue + place.key, m.sumPitch, width, keys, rows, true);
    Engine::multiply(m.queryTransposed, m.blockPitch, m.dsInterleaved,
                     m.chunkPitch, m.dkey + place.key, m.sumPitch, depth, keys,
                     rows, true);
    Engine::multiply(m.ds, m.dsPitch, m.keysInterleaved, m.depthWordPitch,
                     m.dquery + place.query * m.depthWordPitch,
                     m.depthWordPitch, rows, depth, keys, place.key > 0);
  }

  /// Returns row `i` of a block, with finished scores. `number` is the row of
  /// its products in memory.
  static ScoreRow getRow(const Shape &shape, const Head &head,
                         const Place &place, std::int64_t i,
                         std::int64_t number, const Memory &m) {
    ScoreRow row;
    row.query = place.query + i;
    row.key = place.key;
    row.scores = m.scores + number * m.chunkPitch;
    row.dp = m.dp + number * m.chunkPitch;
    if (m.tangents)
      row.tangents = m.tangents + number * m.chunkPitch;
    if (row.query >= shape.queries)
      return row;
    row.visible = place.keys;
    if (shape.causal)
      row.visible = getSmaller(place.keys, row.query + 1 - place.key);
    row.inner = m.inner[row.query];
    finishRow(shape, head, row, m.exponentials);
    return row;
  }

  /// Computes the probabilities and the gradients of products of a group of
  /// rows of a block, from row `i` on. `number` is as for `getRow`.
  static void computeRows(const Shape &shape, const Head &head,
                          const Place &place, std::int64_t i,
                          std::int64_t number, std::int64_t keys,
                          const Memory &m) {
    Element *p = m.p + i * m.chunkPitch, *ds = m.ds + i * m.dsPitch;
    ScoreRow row = getRow(shape, head, place, i, number, m);
    if constexpr (kGroup == 1) {
      for (std::int64_t j = 0; j < keys; j += kLanes) {
        BackwardTerms own = computeTerms(shape, head, row, j);
        accumulateBiasGradient(head, row, j, own.dscores);
        Engine::store(p + j, own.weights);
        Engine::store(ds + j, own.dproducts);
      }
    } else {
      ScoreRow next = getRow(shape, head, place, i + 1, number + 1, m);
      Element *dsInterleaved = m.dsInterleaved + i * m.chunkPitch;
      for (std::int64_t j = 0; j < keys; j += kLanes) {
        BackwardTerms even = computeTerms(shape, head, row, j),
                      odd = computeTerms(shape, head, next, j);
        accumulateBiasGradient(head, row, j, even.dscores);
        accumulateBiasGradient(head, next, j, odd.dscores);
        Engine::storeGroup(p + j * kGroup, even.weights, odd.weights);
        Engine::storeGroup(dsInterleaved + j * kGroup, even.dproducts,
                           odd.dproducts);
        Engine::store(ds + j, even.dproducts);
        Engine::store(ds + m.dsPitch + j, odd.dproducts);
      }
    }
  }

  static void writeTransposed(const float *from, std::int64_t pitch,
                              std::int64_t rows, std::int64_t columns,
                              const Rows &to, float *floats) {
    std::int64_t floatPitch = Layout::getWordPitch(columns);
    for (std::int64_t row = 0; row < rows; row += kLanes) {
      transposeWords(from + row, pitch, Layout::pad(columns), kLanes, floats,
                     floatPitch);
      for (std::int64_t i = 0; i < getSmaller(kLanes, rows - row); ++i)
        storeRow(floats + i * floatPitch, columns, to, row + i);
    }
  }
};

} // namespace
