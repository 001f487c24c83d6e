//===- PairElements.h - Operands of bf16 in pairs ---------------*- C++ -*-===//

namespace {

/// Operands of bf16, of which an instruction multiplies and adds pairs.
struct PairElements {
  using Element = std::uint16_t;
  static constexpr std::int64_t kGroup = 2;

  static void copyRow(const Rows &rows, std::int64_t row, std::int64_t columns,
                      Element *to) {
    __builtin_memcpy(to, findRow(rows, row), columns * sizeof(Element));
  }
  static void store(Element *to, Floats x) { BF16::store(to, x); }
  /// Stores vectors of two rows interleaved.
  static void storeGroup(Element *to, Floats even, Floats odd) {
    storeAs(to, BF16::roundWords(even) >> 16 |
                    (BF16::roundWords(odd) & 0xffff0000));
  }
};

} // namespace
