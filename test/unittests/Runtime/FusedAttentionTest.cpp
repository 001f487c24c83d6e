//===- FusedAttentionTest.cpp - Attention kernels of each level -----------===//
// Compares the kernels of each instruction set with the definition in f64. The
// sizes differ from multiples of blocks, and rows have elements between them.
//===----------------------------------------------------------------------===//

#include "../../../lib/Runtime/Attention/Kernels.h"
#include "OneRecord.h"
#include <cstring>

using namespace binade;
using namespace binade::attention;

namespace {
struct Case {
  DType dtype;
  std::int64_t queries, keys, depth, width;
  bool causal;
  float softcap = 0;
  double ratio = 0; ///< Of dropout.
};

constexpr std::uint64_t kSeed = 0x123456789abcdef0;
constexpr std::uint32_t kStep = 5, kStream = 3;
/// The number of the head, so that indices of its scores need 64 bits.
constexpr std::int64_t kHead = std::int64_t(1) << 33;

/// Rows with a gap after each, in memory of their own.
class RowsInMemory {
public:
  static constexpr std::int64_t kGap = 3;

  RowsInMemory(DType dtype, std::int64_t rows, std::int64_t columns)
      : dtype(dtype), count(rows), columns(columns),
        bytes(rows * (columns + kGap) * byteSize(dtype), std::byte{0x7f}) {}

  Rows get() { return {bytes.data(), dtype, columns + kGap}; }
  void fill(std::uint32_t seed) {
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        auto index = static_cast<std::uint32_t>(i * columns + j);
        write(i, j,
              2 * philoxUniform(philox({index, seed, 0, 0}, {7, 8})[0]) - 1);
      }
  }
  double read(std::int64_t i, std::int64_t j) const {
    const std::byte *at = bytes.data() + find(i, j);
    if (dtype == DType::F32) {
      float value;
      std::memcpy(&value, at, sizeof(value));
      return value;
    }
    std::uint16_t code;
    std::memcpy(&code, at, sizeof(code));
    return dtype == DType::BF16 ? bf16ToFloat(code) : f16ToFloat(code);
  }
  bool hasIntactGaps() const {
    for (std::int64_t i = 0; i < count; ++i)
      for (auto at = find(i, columns); at < find(i + 1, 0); ++at)
        if (bytes[at] != std::byte{0x7f})
          return false;
    return true;
  }
  bool operator==(const RowsInMemory &) const = default;

private:
  std::size_t find(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(i * (columns + kGap) + j) * byteSize(dtype);
  }
  void write(std::int64_t i, std::int64_t j, float value) {
    if (dtype == DType::F32) {
      std::memcpy(bytes.data() + find(i, j), &value, sizeof(value));
      return;
    }
    std::uint16_t code =
        dtype == DType::BF16 ? floatToBF16(value) : floatToF16(value);
    std::memcpy(bytes.data() + find(i, j), &code, sizeof(code));
  }

  DType dtype;
  std::int64_t count, columns;
  std::vector<std::byte> bytes;
};

/// The operands and the results of a head, which are f32.
struct HeadTensors {
  explicit HeadTensors(const Case &c)
      : query(c.dtype, c.queries, c.depth), key(c.dtype, c.keys, c.depth),
        value(c.dtype, c.keys, c.width), dy(c.dtype, c.queries, c.width),
        y(DType::F32, c.queries, c.width),
        dquery(DType::F32, c.queries, c.depth),
        dkey(DType::F32, c.keys, c.depth), dvalue(DType::F32, c.keys, c.width),
        dscores(DType::F32, c.queries, c.keys), sum(DType::F32, 1, c.keys),
        lse(c.queries),
        firstScore(static_cast<std::uint64_t>(kHead * c.queries * c.keys)) {
    std::uint32_t seed = 0;
    for (RowsInMemory *rows : {&query, &key, &value, &dy})
      rows->fill(++seed);
  }
  Head getHead() {
    Head head;
    head.query = query.get();
    head.key = key.get();
    head.value = value.get();
    head.y = y.get();
    head.lse = lse.data();
    head.dy = dy.get();
    head.dquery = dquery.get();
    head.random = {kSeed, kStep, firstScore};
    return head;
  }
  bool operator==(const HeadTensors &) const = default;

  RowsInMemory query, key, value, dy, y, dquery, dkey, dvalue;
  /// The gradients of scores, and their sums over the queries.
  RowsInMemory dscores, sum;
  std::vector<float> lse;
  std::uint64_t firstScore; ///< The index of the first score of the head.
};

Shape getShape(const Case &c) {
  Shape shape;
  shape.dtype = c.dtype;
  shape.queries = c.queries;
  shape.keys = c.keys;
  shape.depth = c.depth;
  shape.width = c.width;
  shape.scale = 0.25f;
  shape.causal = c.causal;
  shape.softcap = c.softcap;
  shape.hasDropout = c.ratio > 0;
  shape.dropout.largestDropped =
      static_cast<std::uint32_t>(std::ceil(c.ratio * 0x1p24) * 256 - 1);
  shape.dropout.scale = static_cast<float>(1 / (1 - c.ratio));
  shape.dropout.stream = kStream;
  return shape;
}

struct AlignedMemory {
  explicit AlignedMemory(std::int64_t size)
      : bytes(static_cast<std::byte *>(
            std::aligned_alloc(64, static_cast<std::size_t>(size)))) {
    // NaN, if elements are read that nothing has written.
    std::memset(bytes, 0xff, static_cast<std::size_t>(size));
  }
  ~AlignedMemory() { std::free(bytes); }
  AlignedMemory(const AlignedMemory &) = delete;
  std::byte *bytes;
};

/// Computes the gradients of a bias that the head has alone, and of one that is
/// the same for all queries.
void computeBias(const Kernels &kernels, const Shape &shape,
                 HeadTensors &tensors, std::byte *memory) {
  Head head = tensors.getHead();
  Rows rows = tensors.dscores.get();
  for (std::int64_t i = 0; i < shape.queries; i += kMaxBiasRows) {
    std::int64_t count = std::min(kMaxBiasRows, shape.queries - i);
    kernels.clearBiasGradient(shape, memory);
    kernels.addToBiasGradient(shape, head, i, count, false, memory);
    kernels.writeBiasGradient(shape, rows, count, false, memory);
    rows.data += count * rows.stride * std::int64_t(sizeof(float));
  }
  kernels.clearBiasGradient(shape, memory);
  kernels.addToBiasGradient(shape, head, 0, shape.queries, true, memory);
  kernels.writeBiasGradient(shape, tensors.sum.get(), 1, false, memory);
}

/// Computes a head, whose rows are divided into parts.
HeadTensors compute(const Kernels &kernels, const Case &c, std::int64_t part) {
  HeadTensors tensors(c);
  Shape shape = getShape(c);
  AlignedMemory memory(std::max({kernels.countForwardBytes(shape),
                                 kernels.countBackwardBytes(shape),
                                 kernels.countBiasBytes(shape)}));
  Head head = tensors.getHead();
  kernels.prepareKeys(shape, head, memory.bytes);
  for (std::int64_t i = 0; i < c.queries; i += part)
    kernels.computeRows(shape, head, i, std::min(part, c.queries - i),
                        memory.bytes);
  kernels.clearGradients(shape, memory.bytes);
  kernels.addGradients(shape, head, memory.bytes);
  kernels.writeGradients(shape, tensors.dkey.get(), tensors.dvalue.get(),
                         memory.bytes);
  computeBias(kernels, shape, tensors, memory.bytes);
  return tensors;
}

/// A sum and the sum of the magnitudes of its terms.
struct Sum {
  double sum = 0, magnitude = 0;
  void add(double term, double size) {
    sum += term;
    magnitude += size;
  }
};

/// The definition in f64, of the operands that `t` has.
class Definition {
public:
  Definition(const Case &c, const HeadTensors &t) : c(c), scale(0.25) {
    auto size = [](std::int64_t rows, std::int64_t columns) {
      return static_cast<std::size_t>(rows * columns);
    };
    dquery.resize(size(c.queries, c.depth));
    dkey.resize(size(c.keys, c.depth));
    dvalue.resize(size(c.keys, c.width));
    dscores.resize(size(c.queries, c.keys));
    sum.resize(size(1, c.keys));
    y.resize(size(c.queries, c.width));
    for (std::int64_t i = 0; i < c.queries; ++i)
      addRow(t, i);
  }
  std::vector<Sum> y, dquery, dkey, dvalue, dscores, sum;
  std::vector<double> lse;

private:
  /// Returns the factor of a probability.
  double drop(const HeadTensors &t, std::int64_t i, std::int64_t j) const {
    if (c.ratio == 0)
      return 1;
    std::uint64_t index =
        t.firstScore + static_cast<std::uint64_t>(i * c.keys + j);
    PhiloxCounter counter = {static_cast<std::uint32_t>(index),
                             static_cast<std::uint32_t>(index >> 32), kStream,
                             kStep};
    float value = philoxUniform(philox(counter, philoxKey(kSeed))[0]);
    return value < c.ratio ? 0 : 1 / (1 - c.ratio);
  }
  void addRow(const HeadTensors &t, std::int64_t i) {
    std::int64_t visible = c.causal ? i + 1 : c.keys;
    std::vector<double> p(visible), slope(visible, scale);
    double total = 0;
    for (std::int64_t j = 0; j < visible; ++j) {
      for (std::int64_t l = 0; l < c.depth; ++l)
        p[j] += scale * t.query.read(i, l) * t.key.read(j, l);
      if (c.softcap > 0) {
        double tangent = std::tanh(p[j] / c.softcap);
        slope[j] *= 1 - tangent * tangent;
        p[j] = c.softcap * tangent;
      }
      total += p[j] = std::exp(p[j]);
    }
    lse.push_back(std::log(total));
    Sum inner;
    for (std::int64_t l = 0; l < c.width; ++l) {
      Sum &own = y[i * c.width + l];
      for (std::int64_t j = 0; j < visible; ++j) {
        double term = drop(t, i, j) * p[j] / total * t.value.read(j, l);
        own.add(term, std::fabs(term));
      }
      inner.add(own.sum * t.dy.read(i, l),
                own.magnitude * std::fabs(t.dy.read(i, l)));
    }
    for (std::int64_t j = 0; j < visible; ++j)
      addGradients(t, i, j, p[j] / total, slope[j], inner);
  }
  void addGradients(const HeadTensors &t, std::int64_t i, std::int64_t j,
                    double p, double slope, const Sum &inner) {
    Sum dp;
    double factor = drop(t, i, j);
    for (std::int64_t l = 0; l < c.width; ++l) {
      double term = factor * t.dy.read(i, l) * t.value.read(j, l);
      dp.add(term, std::fabs(term));
      term = factor * p * t.dy.read(i, l);
      dvalue[j * c.width + l].add(term, std::fabs(term));
    }
    double ds = p * (dp.sum - inner.sum),
           size = p * (dp.magnitude + inner.magnitude);
    dscores[i * c.keys + j].add(ds, size);
    sum[j].add(ds, size);
    ds *= slope;
    size *= slope;
    for (std::int64_t l = 0; l < c.depth; ++l) {
      double key = t.key.read(j, l), query = t.query.read(i, l);
      dquery[i * c.depth + l].add(ds * key, size * std::fabs(key));
      dkey[j * c.depth + l].add(ds * query, size * std::fabs(query));
    }
  }
  const Case &c;
  double scale;
};

void expectNear(const RowsInMemory &found, const std::vector<Sum> &expected,
                std::int64_t columns, double unit, const char *name) {
  EXPECT_TRUE(found.hasIntactGaps()) << name;
  for (std::size_t n = 0; n < expected.size(); ++n) {
    auto index = static_cast<std::int64_t>(n);
    ASSERT_NEAR(found.read(index / columns, index % columns), expected[n].sum,
                unit * expected[n].magnitude)
        << name << ", row " << index / columns << ", column "
        << index % columns;
  }
}

std::vector<Level> listLevels() {
  std::vector<Level> levels;
  for (Level level :
       {Level::Avx2, Level::Avx512, Level::Avx512Bf16, Level::Amx})
    if (level <= getHighestLevel())
      levels.push_back(level);
  return levels;
}

class FusedAttentionTest : public ::testing::TestWithParam<Case> {};
} // namespace

TEST_P(FusedAttentionTest, IsTheDefinitionOnEachLevel) {
  const Case &c = GetParam();
  double unit = c.dtype == DType::F32 ? 0x1p-19 : 4 * halfUlp(c.dtype, 1);
  for (Level level : listLevels()) {
    const Kernels &kernels = getKernels(level, c.dtype);
    SCOPED_TRACE(kernels.name);
    HeadTensors found = compute(kernels, c, c.queries);
    Definition expected(c, found);
    for (std::int64_t i = 0; i < c.queries; ++i)
      ASSERT_NEAR(found.lse[i], expected.lse[i], 0x1p-18);
    expectNear(found.y, expected.y, c.width, unit, "y");
    expectNear(found.dvalue, expected.dvalue, c.width, unit, "dvalue");
    expectNear(found.dquery, expected.dquery, c.depth, unit, "dquery");
    expectNear(found.dkey, expected.dkey, c.depth, unit, "dkey");
    expectNear(found.dscores, expected.dscores, c.keys, unit, "dscores");
    expectNear(found.sum, expected.sum, c.keys, unit, "sum of dscores");
  }
}

TEST_P(FusedAttentionTest, DoesNotDependOnHowQueriesAreDivided) {
  const Case &c = GetParam();
  for (Level level : listLevels()) {
    const Kernels &kernels = getKernels(level, c.dtype);
    EXPECT_TRUE(compute(kernels, c, c.queries) == compute(kernels, c, 64))
        << kernels.name;
  }
}

/// Kernels with f32 multiply-adds add in the same order on each level.
TEST_P(FusedAttentionTest, HasTheSameBitsForAllWidthsOfVectors) {
  if (getHighestLevel() == Level::Avx2)
    GTEST_SKIP() << "this machine has no AVX-512";
  const Case &c = GetParam();
  HeadTensors narrow = compute(getKernels(Level::Avx2, c.dtype), c, c.queries);
  HeadTensors wide = compute(getKernels(Level::Avx512, c.dtype), c, c.queries);
  EXPECT_TRUE(narrow == wide);
}

static std::vector<Case> listCases() {
  std::vector<Case> cases;
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    cases.push_back({dtype, 5, 7, 3, 1, false});
    cases.push_back({dtype, 150, 150, 64, 40, true});
    cases.push_back({dtype, 70, 545, 16, 33, false});
    cases.push_back({dtype, 530, 530, 8, 8, true});
    cases.push_back({dtype, 5, 7, 3, 1, false, 1.5f, 0.5});
    cases.push_back({dtype, 150, 150, 64, 40, true, 0, 0.25});
    cases.push_back({dtype, 70, 545, 16, 33, false, 0.5f, 0.1});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, FusedAttentionTest,
                         ::testing::ValuesIn(listCases()));
