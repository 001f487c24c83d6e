//===- CudnnAttentionTest.cpp - Attention by cuDNN ------------------------===//
//
// Graphs are compared with those that cudnn-frontend passes to cuDNN, recorded
// in test/data. Expected values are the softmax and its gradient in f64.
//
//===----------------------------------------------------------------------===//

#include "../../../lib/Runtime/Cuda/CudnnAttention.h"
#include "Codes.h"
#include "SimulatedDevice.h"
#include <cmath>
#include <fstream>
#include <sstream>

using namespace binade;
using namespace binade::cuda;
using testing::HasSubstr;
using Which = AttentionOperand::Which;

namespace {
/// An attention whose tensors are [batch, row, head, column].
AttentionProblem makeProblem(std::int64_t batch, std::int64_t heads,
                             std::int64_t groups, std::int64_t queries,
                             std::int64_t keys, bool causal, bool areGradients,
                             DType type = DType::BF16) {
  AttentionProblem p;
  p.type = type;
  p.batch = batch;
  p.heads = heads;
  p.groups = groups;
  p.queries = queries;
  p.keys = keys;
  p.depth = 8;
  p.width = 16;
  p.scale = 0.375f;
  p.causal = causal;
  p.areGradients = areGradients;
  for (std::size_t i = 0; i < AttentionOperand::kCount; ++i) {
    bool isGrouped = AttentionProblem::isGrouped(i);
    bool isDeep = i == Which::Query || i == Which::Key || i == Which::Dquery ||
                  i == Which::Dkey;
    std::int64_t rows = isGrouped ? keys : queries,
                 own = isGrouped ? groups : heads,
                 columns = isDeep ? p.depth : p.width;
    p.strides[i] = {rows * own * columns, columns, own * columns};
  }
  p.strides[Which::Lse] = {heads * queries, queries, 1};
  return p;
}

/// A tensor of an attention.
struct Operand {
  HeadStrides strides;
  std::int64_t rows = 0, columns = 0, heads = 0;
  std::vector<double> values;

  double &at(std::int64_t batch, std::int64_t head, std::int64_t row,
             std::int64_t column) {
    return values[static_cast<std::size_t>(batch * strides.batch +
                                           head * strides.head +
                                           row * strides.row + column)];
  }
};

struct CudnnAttentionTest : SimulatedDevice {
  void SetUp() override { reopen(""); }
  void TearDown() override { library.reset(); }

  void reopen(const char *settings) {
    library.reset();
    device.reset();
    open(settings);
    auto opened = Cudnn::open(*device);
    ASSERT_TRUE(opened) << render(opened.error());
    library = *std::move(opened);
  }

  static std::string getGraph() {
    void *file = ::dlopen("libcudnn.so.9", RTLD_NOW | RTLD_NOLOAD);
    return reinterpret_cast<const char *(*)()>(
        ::dlsym(file, "simulatedCudnnGraph"))();
  }

  void prepare(const AttentionProblem &problem);
  void computeExpected(const AttentionProblem &p);
  void check(const AttentionProblem &problem, std::uint64_t limit = 1 << 20);
  Result<void> run(const AttentionProblem &problem, std::uint64_t limit);

  std::shared_ptr<Cudnn> library;
  std::array<Operand, AttentionOperand::kCount> operands;
  std::array<Operand, AttentionOperand::kCount> expected, sizes;
  std::array<std::string, AttentionOperand::kCount> results;
  std::string description;
};
} // namespace

/// Draws multiples of 1/16 below 2, which both types represent exactly.
void CudnnAttentionTest::prepare(const AttentionProblem &p) {
  unsigned seed = 1;
  for (std::size_t i = 0; i < AttentionOperand::kCount; ++i) {
    Operand &operand = operands[i];
    bool isGrouped = AttentionProblem::isGrouped(i);
    bool isDeep = i == Which::Query || i == Which::Key || i == Which::Dquery ||
                  i == Which::Dkey;
    operand.strides = p.strides[i];
    operand.rows = isGrouped ? p.keys : p.queries;
    operand.heads = isGrouped ? p.groups : p.heads;
    operand.columns = i == Which::Lse ? 1 : isDeep ? p.depth : p.width;
    operand.values.resize(static_cast<std::size_t>(
        p.batch * operand.rows * operand.heads * operand.columns));
    for (double &value : operand.values) {
      seed = seed * 1664525 + 1013904223;
      value = (static_cast<int>(seed >> 26) - 32) / 16.0;
    }
    expected[i] = sizes[i] = operand;
    std::fill(expected[i].values.begin(), expected[i].values.end(), 0);
    sizes[i].values = expected[i].values;
  }
}

/// Computes all results, and the sums of the magnitudes of their terms. `y` and
/// `lse` of `operands` become those of the forward pass.
void CudnnAttentionTest::computeExpected(const AttentionProblem &p) {
  auto &q = operands[Which::Query], &k = operands[Which::Key],
       &v = operands[Which::Value], &y = expected[Which::Y],
       &lse = expected[Which::Lse], &dy = operands[Which::Dy];
  auto add = [&](Which which, double term, double size, std::int64_t b,
                 std::int64_t h, std::int64_t i, std::int64_t c) {
    expected[which].at(b, h, i, c) += term;
    sizes[which].at(b, h, i, c) += std::fabs(size);
  };
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.heads; ++h)
      for (std::int64_t i = 0; i < p.queries; ++i) {
        std::int64_t g = h / (p.heads / p.groups),
                     visible = p.causal ? i + 1 : p.keys;
        std::vector<double> scores;
        double total = 0;
        for (std::int64_t j = 0; j < visible; ++j) {
          double score = 0;
          for (std::int64_t d = 0; d < p.depth; ++d)
            score += p.scale * q.at(b, h, i, d) * k.at(b, g, j, d);
          scores.push_back(score);
          total += std::exp(score);
        }
        lse.at(b, h, i, 0) = std::log(total);
        sizes[Which::Lse].at(b, h, i, 0) = 1;
        auto getProbability = [&](std::int64_t j) {
          return std::exp(scores[static_cast<std::size_t>(j)]) / total;
        };
        for (std::int64_t j = 0; j < visible; ++j)
          for (std::int64_t c = 0; c < p.width; ++c) {
            double term = getProbability(j) * v.at(b, g, j, c);
            add(Which::Y, term, term, b, h, i, c);
          }
        double inner = 0, innerSize = 0;
        for (std::int64_t c = 0; c < p.width; ++c) {
          inner += dy.at(b, h, i, c) * y.at(b, h, i, c);
          innerSize += std::fabs(dy.at(b, h, i, c) * y.at(b, h, i, c));
        }
        for (std::int64_t j = 0; j < visible; ++j) {
          double probability = getProbability(j), change = -inner,
                 changeSize = innerSize;
          for (std::int64_t c = 0; c < p.width; ++c) {
            double product = dy.at(b, h, i, c) * v.at(b, g, j, c),
                   term = probability * dy.at(b, h, i, c);
            change += product;
            changeSize += std::fabs(product);
            add(Which::Dvalue, term, term, b, g, j, c);
          }
          double score = p.scale * probability * change,
                 size = p.scale * probability * changeSize;
          for (std::int64_t d = 0; d < p.depth; ++d) {
            double key = k.at(b, g, j, d), query = q.at(b, h, i, d);
            add(Which::Dquery, score * key, size * key, b, h, i, d);
            add(Which::Dkey, score * query, size * query, b, g, j, d);
          }
        }
      }
  y.strides = p.strides[Which::Y];
  operands[Which::Y].values = y.values;
  operands[Which::Lse].values = lse.values;
}

/// Encodes values that may need rounding to `type`.
static std::string encode(DType type, const std::vector<double> &values) {
  std::string bytes;
  for (double value : values) {
    auto wide = static_cast<float>(value);
    std::uint32_t code;
    std::memcpy(&code, &wide, sizeof code);
    if (type == DType::BF16) {
      code = (code + 0x7fff + (code >> 16 & 1)) >> 16;
    } else if (type == DType::F16) {
      auto half = static_cast<_Float16>(wide);
      std::memcpy(&code, &half, sizeof half);
    }
    bytes.append(reinterpret_cast<const char *>(&code), byteSize(type));
  }
  return bytes;
}

static DType typeOf(const AttentionProblem &p, std::size_t operand) {
  return operand == Which::Lse ? DType::F32 : p.type;
}

Result<void> CudnnAttentionTest::run(const AttentionProblem &p,
                                     std::uint64_t limit) {
  auto made = CudnnAttention::create(library, p, limit);
  if (!made)
    return made.takeError();
  description = made->describe();
  EXPECT_LE(made->getWorkspaceBytes(), limit);
  std::vector<DeviceMemory> memories;
  AttentionAddresses addresses;
  for (std::size_t i = 0; i < p.countOperands(); ++i) {
    std::string bytes = encode(typeOf(p, i), operands[i].values);
    auto memory = device->allocate(bytes.size());
    EXPECT_TRUE(device->upload(memory->get(), bytes.data(), bytes.size()));
    addresses.operands[i] = memory->get();
    memories.push_back(*std::move(memory));
  }
  auto workspace = device->allocate(made->getWorkspaceBytes());
  addresses.workspace = workspace->get();
  if (auto done = made->run(addresses, {"attention", "Attention 'a'"}); !done)
    return done;
  if (auto done = device->wait(); !done)
    return done;
  for (std::size_t i = 0; i < p.countOperands(); ++i) {
    results[i].resize(operands[i].values.size() * byteSize(typeOf(p, i)));
    EXPECT_TRUE(device->read(results[i].data(), addresses.operands[i],
                             results[i].size()));
  }
  return {};
}

/// Runs attention and compares its results.
void CudnnAttentionTest::check(const AttentionProblem &p, std::uint64_t limit) {
  prepare(p);
  computeExpected(p);
  auto done = run(p, limit);
  ASSERT_TRUE(done) << render(done.error());
  std::vector<Which> written = {Which::Y, Which::Lse};
  if (p.areGradients)
    written = {Which::Dquery, Which::Dkey, Which::Dvalue};
  // Probabilities, y, the results of each head of a group, and all results are
  // rounded.
  double unit = std::ldexp(1, -test::bitsOf(p.type).fraction - 1);
  for (Which which : written) {
    std::vector<double> found =
        test::readCodes(typeOf(p, which), results[which]);
    for (std::size_t i = 0; i < found.size(); ++i) {
      double bound = which == Which::Lse
                         ? 1e-5
                         : unit * (3 * sizes[which].values[i] +
                                   std::fabs(expected[which].values[i])) +
                               1e-7;
      ASSERT_NEAR(found[i], expected[which].values[i], bound)
          << "operand " << int(which) << ", " << i;
    }
  }
}

/// Returns the text of a graph in test/data/cudnn-attention-graphs.txt.
static std::string readGraph(const std::string &title) {
  std::ifstream file(BINADE_SOURCE_DIR "/test/data/cudnn-attention-graphs.txt");
  std::string text, line;
  bool isInside = false;
  while (std::getline(file, line))
    if (line.starts_with("#"))
      isInside = line == "# " + title;
    else if (isInside)
      text += line + '\n';
  return text;
}

/// The log was written for bf16 tensors [32, 12, 1024, 64] in this order.
TEST_F(CudnnAttentionTest, DescribesTheGraphsOfCudnnFrontend) {
  for (bool areGradients : {false, true})
    for (bool causal : {false, true}) {
      AttentionProblem p =
          makeProblem(32, 12, 12, 1024, 1024, causal, areGradients);
      p.depth = p.width = 64;
      for (std::size_t i = 0; i < AttentionOperand::kCount; ++i)
        p.strides[i] = {12 * 1024 * 64, 1024 * 64, 64};
      p.strides[Which::Lse] = {12 * 1024, 1024, 1};
      auto made = CudnnAttention::create(library, p, 1 << 30);
      ASSERT_TRUE(made) << render(made.error());
      std::string title = areGradients ? "gradients" : "forward";
      std::string wanted = readGraph(title + (causal ? " causal" : ""));
      ASSERT_FALSE(wanted.empty());
      EXPECT_EQ(getGraph(), wanted);
    }
}

TEST_F(CudnnAttentionTest, ComputesTheForwardPass) {
  for (DType type : {DType::BF16, DType::F16}) {
    check(makeProblem(2, 3, 3, 5, 5, true, false, type));
    check(makeProblem(2, 2, 2, 4, 7, false, false, type));
    check(makeProblem(1, 4, 2, 6, 6, true, false, type));
  }
  EXPECT_EQ(description, "cudnn 9.24.0 attention engine 6");
}

TEST_F(CudnnAttentionTest, ComputesGradients) {
  for (DType type : {DType::BF16, DType::F16}) {
    check(makeProblem(2, 3, 3, 5, 5, true, true, type));
    check(makeProblem(2, 2, 2, 4, 7, false, true, type));
  }
}

TEST_F(CudnnAttentionTest, HeadsOfAGroupShareKeysAndAddTheirGradients) {
  check(makeProblem(2, 6, 2, 5, 5, true, true));
  check(makeProblem(2, 4, 1, 4, 6, false, true));
}

/// The simulated engine needs 1024 bytes for each head.
TEST_F(CudnnAttentionTest, ALimitOfWorkspaceDividesBatchAndHeads) {
  AttentionProblem p = makeProblem(6, 4, 2, 4, 4, true, true);
  check(p, 30000);
  EXPECT_EQ(description, "cudnn 9.24.0 attention engine 6");
  check(p, 15000);
  EXPECT_EQ(description, "cudnn 9.24.0 attention engine 6 in 2 parts");
  check(p, 5000);
  EXPECT_EQ(description, "cudnn 9.24.0 attention engine 6 in 6 parts");
  check(p, 3000);
  EXPECT_EQ(description, "cudnn 9.24.0 attention engine 6 in 12 parts");
  prepare(p);
  auto done = run(p, 2000);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().exitCode, ExitCode::Device);
  EXPECT_THAT(render(done.error()),
              HasSubstr("cuDNN 9.24.0 needs 2336 bytes of workspace for "
                        "attention, and the plan reserves 2000"));
}

/// The logarithms of the second batch would begin at 4 * 7 * 3 bytes.
TEST_F(CudnnAttentionTest, PartsAreAligned) {
  AttentionProblem p = makeProblem(2, 3, 3, 7, 7, true, true);
  prepare(p);
  ASSERT_TRUE(run(p, 10000));
  auto done = run(p, 4000);
  ASSERT_FALSE(done);
  EXPECT_THAT(render(done.error()), HasSubstr("bytes of workspace"));
}

TEST_F(CudnnAttentionTest, AGraphWithoutAnEngineIsRefused) {
  reopen("attention_engines=0");
  AttentionProblem p = makeProblem(1, 1, 1, 4, 4, true, false);
  auto made = CudnnAttention::create(library, p, 1 << 20);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().exitCode, ExitCode::Device);
  EXPECT_THAT(render(made.error()),
              HasSubstr("cuDNN 9.24.0 has no engine for it"));
}

TEST_F(CudnnAttentionTest, AFailedExecutionFailsTheDevice) {
  reopen("attention_status=5000");
  AttentionProblem p = makeProblem(1, 1, 1, 4, 4, true, false);
  prepare(p);
  auto done = run(p, 1 << 20);
  ASSERT_FALSE(done);
  EXPECT_THAT(render(done.error()), HasSubstr("cudnnBackendExecute failed"));
  EXPECT_TRUE(device->hasFailed());
}

TEST_F(CudnnAttentionTest, ARefusedExecutionNamesTheOp) {
  reopen("attention_status=3000");
  AttentionProblem p = makeProblem(1, 1, 1, 4, 4, true, false);
  prepare(p);
  auto done = run(p, 1 << 20);
  ASSERT_FALSE(done);
  EXPECT_THAT(render(done.error()), HasSubstr("Attention 'a'"));
  EXPECT_FALSE(device->hasFailed());
}

TEST_F(CudnnAttentionTest, AGraphOfTheDeviceRepeatsIt) {
  AttentionProblem p = makeProblem(1, 2, 2, 4, 4, true, false);
  prepare(p);
  auto made = CudnnAttention::create(library, p, 1 << 20);
  ASSERT_TRUE(made);
  AttentionAddresses addresses;
  std::vector<DeviceMemory> memories;
  for (std::size_t i = 0; i < p.countOperands(); ++i) {
    std::string bytes = encode(typeOf(p, i), operands[i].values);
    memories.push_back(*device->allocate(bytes.size()));
    ASSERT_TRUE(
        device->upload(memories.back().get(), bytes.data(), bytes.size()));
    addresses.operands[i] = memories.back().get();
  }
  auto workspace = device->allocate(made->getWorkspaceBytes());
  addresses.workspace = workspace->get();
  auto graph = Graph::capture(
      *device, [&] { return made->run(addresses, {"attention", "a"}); });
  ASSERT_TRUE(graph) << render(graph.error());
  ASSERT_TRUE(graph->launch());
  ASSERT_TRUE(device->wait());
  std::string bytes(operands[Which::Y].values.size() * 2, 0);
  ASSERT_TRUE(
      device->read(bytes.data(), addresses.operands[Which::Y], bytes.size()));
  ASSERT_TRUE(run(p, 1 << 20));
  EXPECT_EQ(bytes, results[Which::Y]);
}
