//===- CublasLtTest.cpp - products by cuBLASLt ----------------------------===//

#include "../../../lib/Runtime/Cuda/CublasLtMatmul.h"
#include "Codes.h"
#include "SimulatedDevice.h"

using namespace binade;
using namespace binade::cuda;
using test::Codes;
using test::makeCodes;
using testing::HasSubstr;

namespace {
struct CublasLtTest : SimulatedDevice {
  void SetUp() override { start(""); }
  void start(const char *settings) {
    library.reset();
    device.reset();
    SimulatedDevice::open(settings);
    auto opened = CublasLt::open(*device);
    ASSERT_TRUE(opened) << render(opened.error());
    library = *std::move(opened);
  }
  void TearDown() override { library.reset(); }

  DeviceMemory put(const std::string &bytes) {
    auto memory = device->allocate(bytes.size());
    EXPECT_TRUE(device->upload(memory->get(), bytes.data(), bytes.size()));
    return *std::move(memory);
  }
  DeviceMemory putF32(const std::vector<float> &values) {
    return SimulatedDevice::put(values);
  }
  std::string getBytes(const DeviceMemory &memory, std::size_t bytes) {
    std::string text(bytes, 0);
    EXPECT_TRUE(device->read(text.data(), memory.get(), bytes));
    return text;
  }

  /// What the library says of a problem; empty where it computes it.
  std::string create(const MatmulProblem &problem) {
    auto matmul = CublasLtMatmul::create(library, problem, 1 << 20);
    if (matmul)
      return "";
    EXPECT_EQ(matmul.error().exitCode, ExitCode::Device);
    return render(matmul.error());
  }

  /// The sum of a problem's definition, before what the epilogue does.
  /// `scale(row, column, l)` is that of a term.
  template <typename Scale>
  std::vector<double> multiply(const MatmulProblem &p, const Codes &lhs,
                               const Codes &rhs, Scale scale) {
    std::int64_t lhsStride =
        p.lhsStride ? p.lhsStride : (p.transposeLhs ? p.m : p.k);
    std::int64_t rhsStride =
        p.rhsStride ? p.rhsStride : (p.transposeRhs ? p.k : p.n);
    std::vector<double> out;
    for (std::int64_t batch = 0; batch < p.batch; ++batch)
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < p.k; ++l) {
            std::int64_t left =
                p.transposeLhs ? l * lhsStride + i : i * lhsStride + l;
            std::int64_t right =
                p.transposeRhs ? j * rhsStride + l : l * rhsStride + j;
            sum += lhs.values[static_cast<std::size_t>(
                       left + batch * p.lhsBatchStride)] *
                   rhs.values[static_cast<std::size_t>(
                       right + batch * p.rhsBatchStride)] *
                   scale(i, j, l);
          }
          out.push_back(sum);
        }
    return out;
  }
  std::vector<double> multiply(const MatmulProblem &p, const Codes &lhs,
                               const Codes &rhs) {
    return multiply(p, lhs, rhs, [](auto...) { return 1.0; });
  }

  /// Runs the problem and compares what it writes, rounded once, with
  /// `expected`.
  void check(const MatmulProblem &p, const Codes &lhs, const Codes &rhs,
             const std::vector<double> &expected, MatmulAddresses addresses,
             const std::string &oldOut = {}) {
    auto matmul = CublasLtMatmul::create(library, p, 1 << 20);
    ASSERT_TRUE(matmul) << render(matmul.error());
    std::size_t bytes = expected.size() * byteSize(p.out);
    DeviceMemory a = put(lhs.bytes), b = put(rhs.bytes),
                 d = put(oldOut.empty() ? std::string(bytes, '\xff') : oldOut);
    auto workspace = device->allocate(matmul->getWorkspaceBytes());
    addresses.lhs = a.get();
    addresses.rhs = b.get();
    addresses.out = d.get();
    addresses.workspace = workspace->get();
    auto done = matmul->run(addresses, {"matmul", "MatMul 'm'"});
    ASSERT_TRUE(done) << render(done.error());
    std::vector<double> out = test::readCodes(p.out, getBytes(d, bytes));
    compare(p.out, out, expected);
  }

  void compare(DType type, const std::vector<double> &out,
               const std::vector<double> &expected) const {
    ASSERT_EQ(out.size(), expected.size());
    test::FloatBits bits = test::bitsOf(type);
    double smallest = std::ldexp(1, -bits.getBias() - bits.fraction);
    for (std::size_t i = 0; i < out.size(); ++i)
      ASSERT_NEAR(out[i], expected[i],
                  std::ldexp(std::fabs(expected[i]), -bits.fraction - 1) *
                          1.001 +
                      smallest + slack)
          << "element " << i;
  }

  std::shared_ptr<CublasLt> library;
  /// What both sides lose of small numbers, beside rounding.
  double slack = 0;
};

/// A problem of FP8 as the hardware has it.
MatmulProblem makeFp8(DType lhs, DType rhs, DType out, std::int64_t m,
                      std::int64_t n, std::int64_t k) {
  MatmulProblem problem;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.lhs = lhs;
  problem.rhs = rhs;
  problem.out = out;
  problem.transposeRhs = true;
  return problem;
}
} // namespace

TEST_F(CublasLtTest, TypesAndLayouts) {
  struct Types {
    DType in, out;
  };
  for (auto [in, out] :
       {Types{DType::F32, DType::F32}, Types{DType::F16, DType::F16},
        Types{DType::F16, DType::F32}, Types{DType::BF16, DType::BF16},
        Types{DType::BF16, DType::F32}})
    for (bool transposeLhs : {false, true})
      for (bool transposeRhs : {false, true}) {
        MatmulProblem p;
        p.m = 3;
        p.n = 5;
        p.k = 7;
        p.transposeLhs = transposeLhs;
        p.transposeRhs = transposeRhs;
        p.lhs = p.rhs = in;
        p.out = out;
        Codes lhs = makeCodes(in, 21, 1), rhs = makeCodes(in, 35, 2);
        check(p, lhs, rhs, multiply(p, lhs, rhs), {});
      }
}

TEST_F(CublasLtTest, Tf32RoundsItsOperands) {
  MatmulProblem p;
  p.m = p.n = 1;
  p.k = 2;
  // 2^-11 is half of TF32's last place, and goes to even; more is rounded up.
  std::vector<float> left = {1 + 0x1p-11f, 1 + 0x1.8p-11f}, right = {1, 1};
  DeviceMemory lhs = putF32(left), rhs = putF32(right), out = putF32({0});
  for (auto [isTf32, expected] :
       {std::pair(false, 2 + 0x1.4p-10f), std::pair(true, 2 + 0x1p-10f)}) {
    p.tf32 = isTf32;
    auto matmul = CublasLtMatmul::create(library, p, 0);
    ASSERT_TRUE(matmul);
    ASSERT_TRUE(matmul->run(
        {.lhs = lhs.get(), .rhs = rhs.get(), .out = out.get()}, {}));
    EXPECT_EQ(get(out, 1)[0], expected);
  }
}

TEST_F(CublasLtTest, BatchesStridesAndSums) {
  MatmulProblem p;
  p.m = 3;
  p.n = 4;
  p.k = 5;
  p.batch = 2;
  p.lhsStride = 7;
  p.lhsBatchStride = 22;
  p.rhsBatchStride = 0; // The same for both.
  p.outBatchStride = 12;
  p.accumulate = true;
  Codes lhs = makeCodes(DType::F32, 44, 3), rhs = makeCodes(DType::F32, 20, 4),
        old = makeCodes(DType::F32, 24, 5);
  std::vector<double> expected = multiply(p, lhs, rhs);
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] += old.values[i];
  check(p, lhs, rhs, expected, {}, old.bytes);
}

TEST_F(CublasLtTest, Fp8WithScalesOfTensors) {
  constexpr DType e4m3 = DType::F8_E4M3, e5m2 = DType::F8_E5M2;
  struct Types {
    DType lhs, rhs, out;
  };
  std::vector<Types> all;
  for (DType out : {DType::F32, DType::BF16, DType::F16, e4m3})
    for (auto [lhs, rhs] :
         {std::pair(e4m3, e4m3), std::pair(e4m3, e5m2), std::pair(e5m2, e4m3)})
      all.push_back({lhs, rhs, out});
  all.push_back({e5m2, e4m3, e5m2});
  for (auto [left, right, out] : all) {
    MatmulProblem p = makeFp8(left, right, out, 5, 16, 32);
    Codes lhs = makeCodes(left, 160, 6), rhs = makeCodes(right, 512, 7);
    DeviceMemory lhsScale = putF32({0.5f}), rhsScale = putF32({3}),
                 outScale = putF32({0.25f}), amax = putF32({-1});
    std::vector<double> expected =
        multiply(p, lhs, rhs, [](auto...) { return 1.5; });
    double largest = 0;
    for (double &value : expected) {
      largest = std::max(largest, std::fabs(value));
      if (byteSize(out) == 1)
        value *= 0.25;
    }
    check(p, lhs, rhs, expected,
          {.lhsScale = lhsScale.get(),
           .rhsScale = rhsScale.get(),
           .outScale = outScale.get(),
           .outAmax = amax.get()});
    EXPECT_EQ(get(amax, 1)[0],
              byteSize(out) == 1 ? static_cast<float>(largest) : -1.0f);
  }
}

TEST_F(CublasLtTest, Fp8Saturates) {
  MatmulProblem p =
      makeFp8(DType::F8_E4M3, DType::F8_E4M3, DType::F8_E4M3, 1, 16, 16);
  Codes ones = {std::vector<double>(256, 1), std::string(256, '\x38')};
  DeviceMemory scale = putF32({1}), large = putF32({1000}), amax = putF32({0});
  check(p, {std::vector<double>(16, 1), std::string(16, '\x38')}, ones,
        std::vector<double>(16, 448),
        {.lhsScale = scale.get(),
         .rhsScale = large.get(),
         .outScale = scale.get(),
         .outAmax = amax.get()});
  EXPECT_EQ(get(amax, 1)[0], 16000.0f);
}

TEST_F(CublasLtTest, Fp8WithScalesOfBlocks) {
  constexpr ScaleMode vectors = ScaleMode::Vec128,
                      blocks = ScaleMode::Block128x128;
  struct Case {
    ScaleMode lhs, rhs;
    std::int64_t m, n;
  };
  // The last block of k has 16 elements.
  constexpr std::int64_t k = 272;
  for (auto [left, right, m, n] :
       {Case{vectors, vectors, 8, 16}, Case{blocks, vectors, 132, 16},
        Case{vectors, blocks, 4, 144}}) {
    MatmulProblem p =
        makeFp8(DType::F8_E4M3, DType::F8_E4M3, DType::F32, m, n, k);
    p.lhsScale = left;
    p.rhsScale = right;
    Codes lhs = makeCodes(p.lhs, static_cast<std::size_t>(m * k), 8),
          rhs = makeCodes(p.rhs, static_cast<std::size_t>(n * k), 9);
    // 3 blocks of k; rows of blocks are padded to 4, and nobody reads what is
    // between.
    std::vector<float> lhsScales(3 * 132), rhsScales(3 * 144);
    for (std::size_t i = 0; i < lhsScales.size(); ++i)
      lhsScales[i] = 1 + static_cast<float>(i % 29) / 8;
    for (std::size_t i = 0; i < rhsScales.size(); ++i)
      rhsScales[i] = 2 - static_cast<float>(i % 23) / 16;
    auto find = [](ScaleMode mode, const std::vector<float> &scales,
                   std::int64_t rows, std::int64_t row, std::int64_t l) {
      std::int64_t at =
          mode == vectors ? l / 128 * rows + row : row / 128 * 4 + l / 128;
      return double(scales[static_cast<std::size_t>(at)]);
    };
    DeviceMemory lhsScale = putF32(lhsScales), rhsScale = putF32(rhsScales);
    check(p, lhs, rhs,
          multiply(p, lhs, rhs,
                   [&, left = left, right = right, m = m,
                    n = n](std::int64_t i, std::int64_t j, std::int64_t l) {
                     return find(left, lhsScales, m, i, l) *
                            find(right, rhsScales, n, j, l);
                   }),
          {.lhsScale = lhsScale.get(), .rhsScale = rhsScale.get()});
  }
}

TEST_F(CublasLtTest, Fp8ThatTheHardwareDoesNotMultiply) {
  MatmulProblem right =
      makeFp8(DType::F8_E4M3, DType::F8_E4M3, DType::BF16, 4, 32, 64);
  EXPECT_EQ(create(right), "");
  auto change = [&](auto edit) {
    MatmulProblem wrong = right;
    edit(wrong);
    return create(wrong);
  };
  const char *rule = "FP8 needs the left side as [m, k]";
  EXPECT_THAT(change([](auto &p) { p.transposeRhs = false; }),
              AllOf(HasSubstr("cuBLASLt 13.0.0 has no algorithm for F8_E4M3 "
                              "[4, 64] x F8_E4M3 [64, 32] -> BF16"),
                    HasSubstr(rule)));
  EXPECT_THAT(change([](auto &p) { p.transposeLhs = true; }), HasSubstr(rule));
  EXPECT_THAT(change([](auto &p) { p.k = 72; }), HasSubstr(rule));
  EXPECT_THAT(change([](auto &p) { p.n = 24; }), HasSubstr(rule));
  EXPECT_THAT(change([](auto &p) { p.lhsStride = 72; }), HasSubstr(rule));
  EXPECT_THAT(change([](auto &p) { p.lhs = p.rhs = DType::F8_E5M2; }),
              HasSubstr(rule));
  EXPECT_THAT(change([](auto &p) { p.rhs = DType::BF16; }), HasSubstr(rule));
  EXPECT_THAT(change([](auto &p) {
                p.lhsScale = p.rhsScale = ScaleMode::Block128x128;
              }),
              HasSubstr(rule));
  EXPECT_THAT(change([](auto &p) { p.lhsScale = ScaleMode::Vec128; }),
              HasSubstr(rule));
  EXPECT_THAT(change([](auto &p) {
                p.lhsScale = p.rhsScale = ScaleMode::Vec128;
                p.out = DType::F8_E4M3;
              }),
              HasSubstr(rule));
}

TEST_F(CublasLtTest, TypesThatItDoesNotHave) {
  MatmulProblem p;
  p.m = p.n = p.k = 16;
  p.lhs = DType::F64;
  EXPECT_THAT(create(p), HasSubstr("has no F64 for F64 [16, 16] x F32"));
  p.lhs = DType::BF16;
  EXPECT_THAT(create(p), HasSubstr("has no algorithm for BF16 [16, 16] x F32"));
}

TEST_F(CublasLtTest, AddressesThatAreNotAligned) {
  MatmulProblem p =
      makeFp8(DType::F8_E4M3, DType::F8_E4M3, DType::BF16, 4, 16, 16);
  auto matmul = CublasLtMatmul::create(library, p, 0);
  ASSERT_TRUE(matmul);
  auto memory = device->allocate(4096);
  Address start = memory->get();
  auto done =
      matmul->run({.lhs = start + 8, .rhs = start + 1024, .out = start + 2048},
                  {"matmul", "MatMul 'm'"});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().part, "MatMul 'm'");
  EXPECT_THAT(done.error().message, HasSubstr("CUBLAS_STATUS_INVALID_VALUE"));
  EXPECT_FALSE(device->hasFailed());
}

TEST_F(CublasLtTest, BlockScalesNeedAVersion) {
  start("cublaslt=120804");
  MatmulProblem p =
      makeFp8(DType::F8_E4M3, DType::F8_E4M3, DType::BF16, 4, 16, 128);
  EXPECT_EQ(create(p), "");
  p.lhsScale = p.rhsScale = ScaleMode::Vec128;
  EXPECT_THAT(create(p), HasSubstr("cuBLASLt 12.8.4 has no scales of blocks, "
                                   "which come with 12.9,"));
}

TEST_F(CublasLtTest, AlgorithmsAreRecorded) {
  MatmulProblem p;
  p.m = p.n = p.k = 16;
  auto chosen = CublasLtMatmul::create(library, p, 1 << 20);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->getWorkspaceBytes(), 4096u);
  EXPECT_EQ(chosen->describe(),
            "cublaslt 13.0.0 id 1 tile 20 stages 1 split-k 1 reduction 1 "
            "swizzle 1 inner 1 cluster 1");
  std::string text = formatAlgorithm(chosen->getAlgorithm());
  EXPECT_EQ(text.size(), 128u);
  auto read = parseAlgorithm(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, chosen->getAlgorithm());
  EXPECT_FALSE(parseAlgorithm(text.substr(1)));
  EXPECT_FALSE(parseAlgorithm("g" + text.substr(1)));
  auto again = CublasLtMatmul::create(library, p, *read, 1 << 20);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->getWorkspaceBytes(), 4096u);
  // Less workspace than it needs, and one of another library.
  EXPECT_FALSE(CublasLtMatmul::create(library, p, *read, 100));
  (*read)[0] = 1;
  auto other = CublasLtMatmul::create(library, p, *read, 1 << 20);
  ASSERT_FALSE(other);
  EXPECT_THAT(render(other.error()),
              HasSubstr("does not have the algorithm that was recorded"));
  // One that needs none.
  EXPECT_EQ(CublasLtMatmul::create(library, p, 0)->getWorkspaceBytes(), 0u);
}

TEST_F(CublasLtTest, ProductsAreRecordedInGraphs) {
  MatmulProblem p;
  p.m = p.n = p.k = 1;
  auto matmul = CublasLtMatmul::create(library, p, 0);
  DeviceMemory x = putF32({3}), y = putF32({4}), z = putF32({0});
  auto graph = Graph::capture(*device, [&] {
    return matmul->run({.lhs = x.get(), .rhs = y.get(), .out = z.get()},
                       {"matmul", "MatMul 'm'"});
  });
  ASSERT_TRUE(graph);
  EXPECT_EQ(get(z, 1)[0], 0.0f);
  float five = 5;
  ASSERT_TRUE(device->upload(x.get(), &five, 4));
  ASSERT_TRUE(graph->launch());
  EXPECT_EQ(get(z, 1)[0], 20.0f);
}

TEST_F(CublasLtTest, ProductsThatFailAreNamed) {
  MatmulProblem p;
  p.m = p.n = p.k = 4;
  auto matmul = CublasLtMatmul::create(library, p, 0);
  DeviceMemory x = putF32(std::vector<float>(16)), y = putF32({1, 2});
  ASSERT_TRUE(matmul->run({.lhs = x.get(), .rhs = y.get(), .out = x.get()},
                          {"matmul", "MatMul 'm'"}));
  auto waited = device->wait();
  ASSERT_FALSE(waited);
  EXPECT_THAT(render(waited.error()), HasSubstr("'matmul' (MatMul 'm')"));
}

TEST_F(CublasLtTest, NoLibrary) {
  const char *names[] = {"libcublasLt-of-nobody.so.1", "libmore.so.2"};
  auto opened = CublasLt::open(*device, names);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().exitCode, ExitCode::Device);
  EXPECT_THAT(render(opened.error()),
              AllOf(HasSubstr("tried libcublasLt-of-nobody.so.1: cannot open"),
                    HasSubstr("tried libmore.so.2"),
                    HasSubstr("nvidia-cublas")));
  const char *others[] = {"libm.so.6"};
  EXPECT_THAT(CublasLt::open(*device, others).error().message,
              HasSubstr("has no function cublasLt"));
}

//===----------------------------------------------------------------------===//
// Epilogues
//===----------------------------------------------------------------------===//

namespace {
struct EpilogueTest : CublasLtTest {
  EpilogueTest() {
    p.m = 5;
    p.n = 8;
    p.k = 3;
    p.lhs = p.rhs = p.out = p.bias = p.aux = DType::BF16;
    lhs = makeCodes(DType::BF16, 15, 10);
    rhs = makeCodes(DType::BF16, 24, 11);
  }

  /// GELU by its definition in another form: x * sigmoid(2 u).
  static double gelu(double x) {
    return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) *
                             (x + 0.044715 * x * x * x)));
  }
  static double differentiate(double x) {
    constexpr double h = 1e-5;
    return (gelu(x + h) - gelu(x - h)) / (2 * h);
  }

  /// The elements' sums with the bias of their columns.
  std::vector<double> addBias(const std::vector<double> &bias) {
    std::vector<double> sums = multiply(p, lhs, rhs);
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] += bias[i % 8];
    return sums;
  }

  MatmulProblem p;
  Codes lhs, rhs;
};
} // namespace

TEST_F(EpilogueTest, Bias) {
  p.epilogue = Epilogue::Bias;
  Codes bias = makeCodes(DType::BF16, 8, 12);
  DeviceMemory memory = put(bias.bytes);
  check(p, lhs, rhs, addBias(bias.values), {.bias = memory.get()});
}

TEST_F(EpilogueTest, ABiasThatIsNotThere) {
  p.epilogue = Epilogue::Bias;
  auto matmul = CublasLtMatmul::create(library, p, 0);
  DeviceMemory x = put(std::string(80, '\0'));
  ASSERT_TRUE(
      matmul->run({.lhs = x.get(), .rhs = x.get(), .out = x.get()}, {}));
  EXPECT_FALSE(device->wait());
}

TEST_F(EpilogueTest, Gelu) {
  slack = 1e-15;
  for (bool hasBias : {false, true}) {
    p.epilogue = hasBias ? Epilogue::GeluBias : Epilogue::Gelu;
    Codes bias = makeCodes(DType::BF16, 8, 12);
    DeviceMemory memory = put(bias.bytes), aux = put(std::string(80, '\xff'));
    std::vector<double> sums =
        addBias(hasBias ? bias.values : std::vector<double>(8));
    std::vector<double> expected;
    for (double sum : sums)
      expected.push_back(gelu(sum));
    check(p, lhs, rhs, expected, {.bias = memory.get(), .aux = aux.get()});
    compare(DType::BF16, test::readCodes(DType::BF16, getBytes(aux, 80)), sums);
  }
}

TEST_F(EpilogueTest, GeluBackward) {
  slack = 1e-9;
  for (Epilogue epilogue : {Epilogue::DGelu, Epilogue::DGeluBGrad}) {
    p.epilogue = epilogue;
    Codes before = makeCodes(DType::BF16, 40, 13);
    DeviceMemory aux = put(before.bytes), bias = put(std::string(16, '\0'));
    std::vector<double> expected = multiply(p, lhs, rhs);
    std::vector<double> gradient(8);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] *= differentiate(before.values[i]);
      gradient[i % 8] += expected[i];
    }
    check(p, lhs, rhs, expected, {.bias = bias.get(), .aux = aux.get()});
    if (epilogue == Epilogue::DGeluBGrad)
      compare(DType::BF16, test::readCodes(DType::BF16, getBytes(bias, 16)),
              gradient);
  }
}

TEST_F(EpilogueTest, SumsOfAnOperand) {
  for (Epilogue epilogue : {Epilogue::BGradLeft, Epilogue::BGradRight}) {
    p.epilogue = epilogue;
    DeviceMemory bias = put(std::string(16, '\0'));
    std::vector<double> gradient(epilogue == Epilogue::BGradLeft ? 5 : 8);
    for (std::size_t l = 0; l < 3; ++l)
      for (std::size_t i = 0; i < gradient.size(); ++i)
        gradient[i] += epilogue == Epilogue::BGradLeft ? lhs.values[i * 3 + l]
                                                       : rhs.values[l * 8 + i];
    check(p, lhs, rhs, multiply(p, lhs, rhs), {.bias = bias.get()});
    compare(DType::BF16,
            test::readCodes(DType::BF16, getBytes(bias, 2 * gradient.size())),
            gradient);
  }
}
