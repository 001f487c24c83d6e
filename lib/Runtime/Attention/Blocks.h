//===- Blocks.h - Operands in the layout of an engine -----------*- C++ -*-===//

namespace {

/// Parts of the private memory of a thread, each aligned to 64 bytes. Without
/// memory it counts the bytes.
class Partition {
public:
  explicit Partition(std::byte *memory)
      : start(reinterpret_cast<std::uintptr_t>(memory)) {}

  template <typename Element> Element *take(std::int64_t count) {
    std::int64_t offset = used;
    used += roundUpTo(count * static_cast<std::int64_t>(sizeof(Element)), 64);
    return reinterpret_cast<Element *>(start + offset);
  }
  std::int64_t countBytes() const { return used; }

private:
  std::uintptr_t start;
  std::int64_t used = 0;
};

/// The layouts of blocks for `Engine`. Rows are 64 bytes longer than needed, so
/// that those of a large block are not all in the same set of the cache.
template <typename Engine> struct Blocks {
  using Element = typename Engine::Element;
  static constexpr std::int64_t kGroup = Engine::kGroup;
  /// Rows that are converted at a time.
  static constexpr std::int64_t kStrip = 32;

  static std::int64_t pad(std::int64_t n) {
    return roundUpTo(n, Engine::kMultiple);
  }
  /// Returns the distance of rows of elements.
  static std::int64_t getPitch(std::int64_t columns) {
    return pad(columns) + 64 / static_cast<std::int64_t>(sizeof(Element));
  }
  /// Returns the distance of rows of floats, or of rows of groups.
  static std::int64_t getWordPitch(std::int64_t columns) {
    return pad(columns) + kLanes;
  }
  static std::int64_t countStripElements(std::int64_t columns) {
    return kStrip * getPitch(columns);
  }

  /// Copies `count` rows as the left side of a matmul, padded with zeros.
  static void copyRows(const Rows &rows, std::int64_t first, std::int64_t count,
                       std::int64_t columns, std::int64_t paddedCount,
                       Element *to) {
    std::int64_t pitch = getPitch(columns), padded = pad(columns);
    for (std::int64_t i = 0; i < paddedCount; ++i, to += pitch) {
      std::int64_t filled = i < count ? columns : 0;
      if (filled)
        Engine::copyRow(rows, first + i, columns, to);
      for (std::int64_t j = filled; j < padded; ++j)
        to[j] = 0;
    }
  }

  /// Interleaves rows, so that they are the right side of a matmul over rows.
  static void interleave(const Element *from, std::int64_t pitch,
                         std::int64_t rows, std::int64_t columns, Element *to,
                         std::int64_t toPitch) {
    for (std::int64_t i = 0; i < rows; i += kGroup)
      for (std::int64_t j = 0; j < columns; j += kLanes) {
        const Element *source = from + i * pitch + j;
        Element *target = to + (i / kGroup * toPitch + j) * kGroup;
        if constexpr (kGroup == 1) {
          storeAs(target, loadAs<Floats>(source));
        } else {
          Words even = __builtin_convertvector(loadAs<Halves>(source), Words);
          Words odd =
              __builtin_convertvector(loadAs<Halves>(source + pitch), Words);
          storeAs(target, Words(even | odd << 16));
        }
      }
  }

  /// A strip of rows in the layouts that matmuls need; null where they do not.
  struct Layouts {
    Element *rows = nullptr;        ///< The left operand.
    Element *interleaved = nullptr; ///< The right operand of matmuls over rows.
    /// The right operand of matmuls over columns, and its row pitch.
    Element *transposed = nullptr;
    std::int64_t transposedPitch = 0;
    /// The left operand of matmuls over rows, and its row pitch.
    Element *leftTransposed = nullptr;
    std::int64_t leftTransposedPitch = 0;
  };

  /// Copies rows in each of `layouts`, padded to `paddedCount`, a multiple of
  /// `kStrip`.
  static void prepare(const Rows &source, std::int64_t first,
                      std::int64_t count, std::int64_t columns,
                      std::int64_t paddedCount, const Layouts &layouts,
                      Element *strip, Element *pairs) {
    std::int64_t pitch = getPitch(columns), padded = pad(columns),
                 wordPitch = getWordPitch(columns);
    for (std::int64_t i = 0; i < paddedCount; i += kStrip) {
      Element *rows = layouts.rows ? layouts.rows + i * pitch : strip;
      std::int64_t present = count - i < 0 ? 0 : getSmaller(kStrip, count - i);
      copyRows(source, first + i, present, columns, kStrip, rows);
      if (layouts.transposed)
        transposeWords(rows, pitch * sizeof(Element) / 4, kStrip,
                       padded / kGroup, layouts.transposed + i * kGroup,
                       layouts.transposedPitch);
      Element *interleaved =
          layouts.interleaved ? layouts.interleaved + i * wordPitch : pairs;
      if (layouts.interleaved || layouts.leftTransposed)
        interleave(rows, pitch, kStrip, padded, interleaved, wordPitch);
      if (layouts.leftTransposed)
        transposeWords(interleaved, wordPitch, kStrip / kGroup, padded,
                       layouts.leftTransposed + i,
                       layouts.leftTransposedPitch * sizeof(Element) / 4);
    }
  }
};

} // namespace
