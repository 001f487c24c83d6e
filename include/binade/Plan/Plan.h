//===- Plan.h - A compiled training step as data ----------------*- C++ -*-===//
// A plan is the interface between compiler and runtime. It consists of buffers
// with static offsets in one arena, ports that give some buffers a role and a
// name, and lists of records that are executed in order. The bundle contains it
// as JSON (PlanJson.h). It does not depend on MLIR.
//===----------------------------------------------------------------------===//

#ifndef BINADE_PLAN_PLAN_H
#define BINADE_PLAN_PLAN_H

#include "binade/Container/DType.h"
#include "binade/Container/Fallback.h"
#include "binade/Container/Numbers.h"
#include "binade/Plan/AlarmSettings.h"
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace binade {
namespace plan {

/// What a buffer is used for; the ledger sums bytes by category.
enum class Category : std::uint8_t {
  Parameter,
  Buffer,
  State,
  Batch,
  Gradient,
  Saved, ///< Forward values that are saved for the backward pass.
  Workspace,
  Constant,
  Scalar,
  Library, ///< Scratch memory of library calls.
  Unused,  ///< Gaps between buffers, due to alignment and packing.
};
inline constexpr std::size_t kNumCategories = 11;
std::string_view name(Category category);
std::optional<Category> parseCategory(std::string_view name);

/// The role of a port. Ports of the first ten roles keep their values between
/// steps unless a record writes them. Outputs and the roles after them contain
/// the results of the last step until the next step or evaluation.
enum class Role : std::uint8_t {
  Parameter,
  Buffer,
  State,       ///< Named `<state>/<parameter>`.
  Scaler,      ///< `scale` (F32), `growth` and `hysteresis` (I64).
  Rng,         ///< I64 [2]: seed, number of started steps.
  Step,        ///< I64: number of applied updates.
  Accumulator, ///< Accumulated gradients; 0 before the first batch of a step.
  Batch,
  Hyper,    ///< F64 scalars.
  Constant, ///< Large constants of the graph.
  Output,
  /// `loss`, `grad_norm`, `found_inf`; `batch_loss` of the last accumulation;
  /// `eval_loss` of the last evaluation; `out_of_range/<launch>`, which the
  /// runtime sets to 0 before a step, and a kernel sets to 1 if it reads an
  /// index or label out of range.
  Metric,
  Gradient,
  /// A statistic of a value of the step, named by both, such as "amax forward
  /// matmul /h.0/MatMul".
  Statistic,
};
inline constexpr std::size_t kNumRoles = 14;
std::string_view name(Role role);
std::optional<Role> parseRole(std::string_view name);

/// The metrics that an accumulation and an evaluation compute.
inline constexpr std::string_view kBatchLoss = "batch_loss";
inline constexpr std::string_view kEvalLoss = "eval_loss";

/// Whether checkpoints contain ports of this role: Parameter to Step.
bool isTrainingState(Role role);

/// Returns the name of training state in files: `<name>` for parameters and
/// buffers, `state/<name>`, `scaler/<name>`, `step`, `rng`.
std::string stateName(Role role, std::string_view name);

/// A dense row-major tensor in bytes [offset, offset + bytes) of the arena.
/// Buffers with disjoint lifetimes may overlap, and in-place results do. Ports
/// of training state, accumulators, hyper-parameters and constants do not
/// overlap each other.
struct Buffer {
  std::string name;
  std::uint64_t offset = 0; ///< Multiple of the element size.
  std::uint64_t bytes = 0;  ///< Number of elements times element size.
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  Category category = Category::Workspace;
  /// Bytes from the buffer of one slot of a parallel loop to that of the next,
  /// at least `bytes`; 0 if all slots share the buffer.
  std::uint64_t slot = 0;
  /// Consecutive elements of a tensor of this shape.
  struct Shard {
    std::vector<std::int64_t> shape;
    std::int64_t first = 0; ///< The index of the first one in the tensor.
  };
  /// Set if the buffer, which then has one axis, contains only a shard of a
  /// tensor. Its views have the offsets of the whole tensor.
  std::optional<Shard> shard = {};

  /// Returns the shape of the tensor that the buffer has, or has a shard of.
  const std::vector<std::int64_t> &getWholeShape() const {
    return shard ? shard->shape : shape;
  }
  /// Returns the bytes from the start of that tensor to the buffer.
  std::uint64_t getShardOffset() const {
    return shard ? static_cast<std::uint64_t>(shard->first) * byteSize(dtype)
                 : 0;
  }
  /// Returns the bytes from the start of the arena to a view in the first
  /// iteration. The start of a view of a shard may be outside of the buffer.
  std::int64_t locate(std::int64_t viewOffset) const {
    auto first = static_cast<std::uint64_t>(shard ? shard->first : 0);
    auto element = static_cast<std::uint64_t>(viewOffset) - first;
    return static_cast<std::int64_t>(offset + element * byteSize(dtype));
  }
};

/// A strided view of a buffer. Its element (i, j, ...) is element
/// `offset + i * strides[0] + j * strides[1] + ...` of the buffer. In loops,
/// `steps[d] * iteration(d)` is added for each surrounding loop d, outermost
/// first; missing steps are 0. All numbers are in elements and not negative.
struct View {
  std::uint32_t buffer = 0;
  std::int64_t offset = 0;
  std::vector<std::int64_t> strides; ///< Empty if the view is only an address.
  std::vector<std::int64_t> steps;
};

// The initial value of a port before the first step.
struct NoInit {}; ///< No initial value (batch, output, ...).
struct ExternalInit {
  std::string file; ///< Relative to the directory of the bundle.
  std::uint64_t offset = 0;
  /// The size of the buffer. For a BF16 or F16 buffer it may be twice as much:
  /// then the file contains F32 values, which are rounded.
  std::uint64_t bytes = 0;
  std::string sha256; ///< Checked unless empty.
};
struct BundleInit {
  /// Name of a tensor in the bundle with the same shape and type; F32 is also
  /// allowed for a BF16 or F16 buffer.
  std::string tensor;
};
/// Random values `origin + scale * x`, where x has the standard normal
/// distribution or is uniform in [0, 1). They depend on the seed, the port's
/// name and the element's index.
struct RandomInit {
  enum Distribution : std::uint8_t { Normal, Uniform };
  Distribution distribution = Normal;
  double origin = 0; ///< Mean, or the lower bound.
  double scale = 0;  ///< Standard deviation, or the length of the range.
};
struct FillInit {
  double value = 0; ///< Rounded to the buffer's type.
};
/// How the precision of a 16-bit parameter is kept: a master weight in f32, a
/// remainder (the low half of the f32 value, or an 8-bit code of the rounding
/// error), a compensation (the rounding error of the last update, as in
/// Kahan's summation), or a residual (what the parameter lacks of their sum).
enum class Master : std::uint8_t {
  F32,
  SplitRound,
  SplitTrunc,
  Kahan,
  Split8Bit,
  Residual
};
inline constexpr std::size_t kNumMasters = 6;
std::string_view name(Master master);
std::optional<Master> parseMaster(std::string_view name);

/// The initial value of a master weight, remainder or compensation, which
/// follows from the F32 initial value of its parameter.
struct CompanionInit {
  std::string parameter;
  Master master = Master::F32;
};
using Init = std::variant<NoInit, ExternalInit, BundleInit, RandomInit,
                          FillInit, CompanionInit>;

/// The allowed integers of a batch input: [low, high), or `ignored`. Set if the
/// input is used unmodified as indices of a gather or labels of a loss. Data
/// are checked before the first step.
struct IndexCheck {
  std::int64_t low = 0, high = 0;
  std::optional<std::int64_t> ignored;
};

/// Number of entries of a histogram of exponents.
inline constexpr std::uint64_t kExponentBins = 256;

/// A buffer that is accessible by its role and name, which are unique.
struct Port {
  Role role = Role::Parameter;
  std::string name;
  std::uint32_t buffer = 0;
  Init init;
  std::optional<IndexCheck> check;
  std::optional<NumberRange> range = {}; ///< Allowed values of a hyper.
  bool frozen = false; ///< Whether it is a buffer that no step changes.
  /// For a statistic that a user requested: it is computed in steps whose
  /// number is a multiple of this. 0 for all other ports.
  std::int64_t every = 0;
};

/// A tensor that a record reads or writes, or its scratch memory.
struct Operand {
  enum Use : std::uint8_t {
    Read,
    Write,
    Kernel, ///< Operand of a launch, which its kernel may read or write.
    Finish, ///< The same, for the finish of the kernel.
    Scratch,
    LibraryScratch
  };
  std::string name; ///< Name for messages.
  Use use = Read;
  View view;
  std::vector<std::int64_t> sizes = {}; ///< Shape of a tensor.
  /// Whether the tensor is dense and row-major, so that strides are ignored.
  bool isDense = false;

  bool isTensor() const { return use == Read || use == Write; }
  bool isWritten() const { return use == Write; }
};

/// Work items [first, extent) of a launch with one set of operands.
struct Segment {
  /// Empty for the kernel of the launch. All kernels of a launch write partial
  /// results of the same layout.
  std::string kernel;
  std::vector<View> operands; ///< Addresses, in the kernel's argument order.
  std::int64_t extent = 0;
  std::int64_t first = 0; ///< A multiple of the launch's grain.

  /// Returns the number of blocks of `grain` items.
  std::int64_t countBlocks(std::int64_t grain) const {
    return (extent - first - 1) / grain + 1;
  }
};

/// One parallel loop over the items of all segments.
///
/// The kernel object exports
///   void KERNEL(void *const *buffers, int64_t begin, int64_t end)
/// which computes items [begin, end) of one segment, with the addresses of the
/// segment's operands in `buffers`. Items are independent. They are distributed
/// to threads in any order in blocks of `grain` items (fewer at the end of a
/// segment), which start at multiples of `grain`. With `finish` it also exports
///   void KERNEL_finish(void *const *buffers, int64_t blocks)
/// which is called once, after all items, with the addresses of
/// `finishOperands` and the number of blocks of all segments. A reduction
/// writes one partial result per item or block into a workspace operand, and
/// the finish combines them, so that results do not depend on the number of
/// threads.
struct Launch {
  static constexpr std::string_view kKind = "launch";
  std::string kernel;
  std::vector<Segment> segments;
  std::int64_t grain = 1;
  bool finish = false;
  std::vector<View> finishOperands; ///< Empty: those of the first segment.
  /// Whether the launch updates tensors in place, and an item is an element:
  /// item i accesses element i of each operand that has `extent` elements,
  /// group i / g of quantized states that have a value for g elements, and
  /// scalars, which it reads.
  bool updatesElements = false;

  /// Lists the operands of the segments, then those of the finish.
  std::vector<Operand> listOperands() const;
};

/// A GPU kernel, to which records refer by its name. Its arguments are the
/// addresses of the operands. A multi-tensor kernel, for which an item of a
/// segment is an element, has two arguments instead: the address of the arena,
/// and that of a table of i64 with a row for each block of `grain` items. A row
/// has the byte offsets of the operands in the arena, the first item of the
/// block, and the end of the block. The table of its finish has one row: the
/// byte offsets of the finish operands, and the number of blocks. Addresses are
/// multiples of `kDeviceAlignment`, or of `alignments`.
struct DeviceKernel {
  struct Entry {
    std::string symbol;
    /// Blocks of the grid, and threads of a block. The first axis of a
    /// multi-tensor kernel's grid is 0, for one block per row of the table.
    std::vector<std::int64_t> grid, block;
  };
  std::string name;
  std::uint32_t module = 0; ///< Index of the module that contains it.
  /// The kernel, then what follows it: a finish, or the kernels of further
  /// results. At most `kMaxDeviceEntries`.
  std::vector<Entry> entries;
  /// The alignment of each operand in bytes; empty for the default.
  std::vector<std::int64_t> alignments = {};

  bool isMultiTensor() const { return entries.front().grid.front() == 0; }
  /// Returns the required alignment of an operand in bytes.
  std::int64_t getAlignment(std::size_t operand) const;
};
inline constexpr std::int64_t kDeviceAlignment = 16;
inline constexpr std::size_t kMaxDeviceEntries = 256;
/// Returns the alignment of a view in all iterations, in bytes, at most
/// `kDeviceAlignment`.
std::int64_t findAlignment(std::span<const Buffer> buffers, const View &view);

/// The block size of scales: m rows of the left side, or n columns of the right
/// side, times k terms share a scale.
struct ScaleBlock {
  std::int64_t m = 1, n = 1, k = 1;
};

/// A model of the accumulator of a matrix unit, to which `step` products are
/// added at a time: its significand has `bits` bits, and after each `promote`
/// products, unless that is 0, it is added to a sum in f32. See
/// `#binade.accumulation` for the definition, and `scaled_matmul` for the order
/// in which scales and bias are applied.
struct Accumulation {
  static constexpr std::int64_t kMinBits = 8, kMaxBits = 24, kMaxStep = 32;
  std::int64_t bits = 14, step = 32, promote = 0;

  /// Whether these values are in their ranges.
  bool isValid() const {
    return bits >= kMinBits && bits <= kMaxBits && step >= 1 &&
           step <= kMaxStep && promote >= 0 && promote % step == 0;
  }
};

/// out[b.., i, j] = round(lhsScale * rhsScale
///                        * sum over l of lhs[b.., i, l] * rhs[b.., l, j]
///                        + bias[j] (+ out[b.., i, j] if `accumulate`)).
/// Operands are F32, BF16 or F16 in any combination, or both sides are F8_E4M3
/// or F8_E5M2. Sums are in f32 and rounded once. With `block`, each sum of k
/// terms is multiplied by the scales of both sides, and these are summed in
/// f32. Strides are those of the batch axes, then rows, then columns; they
/// express transposition, and stride 0 a broadcast. `bias` has one stride.
struct Matmul {
  static constexpr std::string_view kKind = "matmul";
  View lhs, rhs, out;
  /// Scales of F8 operands, in F32: one per side or, with `block`, one per
  /// block, with strides along rows (columns) and terms. `block` requires both
  /// scales and no batch axes.
  std::optional<View> lhsScale, rhsScale;
  std::optional<ScaleBlock> block;
  /// How products of F8 operands with scales are added, instead of in f32; for
  /// CPUs, and without `accumulate`.
  std::optional<Accumulation> accumulation;
  std::optional<View> bias;
  std::vector<std::int64_t> batch; ///< At most kMaxBatchAxes.
  std::int64_t m = 1, n = 1, k = 1;
  bool accumulate = false;
  /// Whether F32 operands are rounded to TF32, so that TF32 tensor cores may
  /// multiply them.
  bool tf32 = false;
  /// Tuned algorithms of a device's library, by device and library version. If
  /// there is none for a device, its library chooses.
  std::map<std::string, std::string> algorithms;
  /// Scratch memory of the CPU's library (see `queryLibrary`) or of the device
  /// kernel.
  std::optional<View> scratch;
  /// Scratch memory of a device's library, whose size limits its algorithms.
  std::optional<View> libraryScratch = {};
  /// The kernel to use if a device's library is missing or does not support the
  /// matmul; empty for CPUs.
  std::string deviceKernel;

  /// Lists lhs, rhs, out, then bias, scales and scratch memory if present.
  std::vector<Operand> listOperands() const;
  /// Returns the number of scales along both strides; empty for a single scale.
  std::vector<std::int64_t> getLhsScaleSizes() const;
  std::vector<std::int64_t> getRhsScaleSizes() const;
};
inline constexpr std::size_t kMaxBatchAxes = 4;

/// A convolution (cross-correlation) over one to three axes, or one of its
/// gradients: then `y` is the gradient of the output, and `x` or `weight` is
/// written. All views are dense: `x` [batch, inChannels, input...] or, with
/// `channelsLast`, [batch, input..., inChannels]; `y` likewise; `weight`
/// [outChannels, inChannels / groups, kernel...] in both; `bias` [outChannels]
/// with Forward only. Types and rounding as for Matmul.
struct Convolution {
  static constexpr std::string_view kKind = "convolution";
  enum Direction : std::uint8_t { Forward, InputGrad, WeightGrad };
  Direction direction = Forward;
  View x, weight, y;
  std::optional<View> bias;
  std::int64_t batch = 1, inChannels = 1, outChannels = 1, groups = 1;
  std::vector<std::int64_t> input, kernel, output; ///< Spatial sizes.
  std::vector<std::int64_t> strides, dilations, paddingLow, paddingHigh;
  bool channelsLast = false;
  std::optional<View> scratch, libraryScratch; ///< As for Matmul.
  std::string deviceKernel = {};               ///< As for Matmul.

  /// Lists x, weight, y, then bias and scratch memory if present.
  std::vector<Operand> listOperands() const;
};
inline constexpr std::size_t kMaxSpatialAxes = 3;

/// What changes the scores and probabilities of attention, in this order:
///   s = softcap * tanh(s / softcap), unless `softcap` is 0;
///   s = s + (sum of `biases`);
///   s = fill where `mask` is false.
/// With `dropout`, p[b.., i, j] is 0 if the random value of its index among all
/// scores is below `ratio`, and otherwise divided by 1 - ratio. Biases, which
/// are F32, BF16 or F16, and `mask`, which is BOOL, have strides of the batch
/// axes, queries and keys, 0 along the axes along which they are broadcast.
struct AttentionExtras {
  struct Dropout {
    View state; ///< Seed and step, two I64.
    double ratio = 0;
    std::int64_t stream = 0; ///< 32 bits.
  };
  std::vector<View> biases;
  std::optional<View> mask;
  std::optional<Dropout> dropout;
  double softcap = 0;
  double fill = -std::numeric_limits<double>::infinity();
  /// Whether probabilities are 0, and `lse` is -infinity, for queries whose
  /// scores are all -infinity.
  bool zeroHidden = false;
  bool zeroNan = false; ///< Whether probabilities that are NaN become 0.

  /// Whether there are none.
  bool areNone() const;
  /// Whether `exp(s - lse)` is exact enough for gradients. A bias or a fill may
  /// be a huge number that is all that a row consists of: then the sum of
  /// exponentials is computed again.
  bool haveExactStatistic() const;
};

/// Scaled dot-product attention that does not store the scores:
///   s[b.., i, j] = scale * sum over l of query[b.., i, l] * key[b.., j, l],
///   changed as `extras` say, and -infinity where `causal` and j > i;
///   lse[b.., i]  = log(sum over j of exp(s[b.., i, j]));
///   p[b.., i, j] = round(exp(s[b.., i, j] - lse[b.., i]));
///   y[b.., i, e] = round(sum over j of p[b.., i, j] * value[b.., j, e]);
/// or, with `gradients`, its gradients, which read `y` and `lse`:
///   d[b.., i]     = sum over e of dy[b.., i, e] * y[b.., i, e]
///   ds[b.., i, j] = round(scale * exp(s - lse)
///                         * (sum over e of dy[b.., i, e] * value[b.., j, e]
///                            - d[b.., i]))
///   dquery = ds key, dkey = ds^T query, dvalue = p^T dy;
/// the gradient of a bias is the sum of ds, neither scaled nor rounded, over
/// the axes along which the bias is broadcast. Everything is computed in f32.
/// `round` rounds p and ds to the type of `query`, `key`, `value` and `dy`,
/// which is F32, BF16 or F16; results are rounded to their own type. Strides
/// are those of the batch axes, then rows, then columns, which are dense; `lse`
/// is F32 and has no columns.
struct Attention {
  static constexpr std::string_view kKind = "attention";
  View query, key, value, y, lse;
  /// The gradient of the bias with this index in `extras`, which is F32, BF16
  /// or F16 and has strides of 0 where that bias has them.
  struct BiasGradient {
    std::int64_t bias = 0;
    View view;
  };
  struct Gradients {
    View dy, dquery, dkey, dvalue;
    std::vector<BiasGradient> dbiases = {}; ///< Ascending by `bias`.
  };
  std::optional<Gradients> gradients;
  AttentionExtras extras = {};
  std::vector<std::int64_t> batch; ///< At most kMaxBatchAxes.
  std::int64_t queries = 1, keys = 1;
  std::int64_t depth = 1; ///< Columns of query and key.
  std::int64_t width = 1; ///< Columns of value and y.
  double scale = 1;
  bool causal = false; ///< Requires as many keys as queries.
  /// Whether the heads of the last batch axis share key and value. Then `dkey`
  /// and `dvalue` are sums over this axis, and the strides of these four along
  /// it are not used.
  bool grouped = false;
  std::optional<View> scratch, libraryScratch; ///< As for Matmul.
  std::string deviceKernel = {};               ///< As for Matmul.

  /// The batch axes of key, value and their gradients.
  std::vector<std::int64_t> getKeyBatch() const;
  /// Lists query, key, value, y and lse, then dy, dquery, dkey, dvalue, biases,
  /// mask, the generator's state, gradients of biases and scratch memory if
  /// present. Biases, their gradients and the mask have size 1 along the axes
  /// along which they are broadcast.
  std::vector<Operand> listOperands() const;
};

/// Copies a tensor of shape `sizes` from one view to another of the same type.
struct Copy {
  static constexpr std::string_view kKind = "copy";
  View from, to;
  std::vector<std::int64_t> sizes; ///< At most kMaxCopyAxes.
  std::string deviceKernel = {};   ///< Empty for CPUs.

  std::vector<Operand> listOperands() const; ///< Lists from, to.
};
inline constexpr std::size_t kMaxCopyAxes = 8;

/// A point at which the ranks of a group exchange gradients while they execute
/// the same step on other batches. Without a group, it computes what a group of
/// one does.
struct Exchange {
  static constexpr std::string_view kKind = "exchange";
  enum Action : std::uint8_t {
    /// The tensors of `bucket` are complete: their exchange begins.
    Start,
    /// Waits until all buckets up to `bucket` - 1 are exchanged.
    Join,
    /// Adds the tensors of `bucket` to `sums`, of a batch of a later exchange.
    Add,
  };
  enum Operation : std::uint8_t {
    Sum,
    Max, ///< Of magnitudes as I32, so that NaN > infinity > any number.
    /// Each rank sends the elements that it has updated to the others.
    Gather,
  };
  /// How tensors travel: see ExchangeFormat of the dialect.
  enum Format : std::uint8_t { F32, BF16, E4M3, Exact };
  Action action = Start;
  Operation operation = Sum;
  Format format = F32;
  std::uint32_t bucket = 0;
  /// Dense tensors and their elements. They are F32, except for Gather; those
  /// of a sum follow each other as in ExchangeLayout, except for Add.
  std::vector<View> tensors;
  std::vector<std::int64_t> elements;
  /// Of Gather: rank r has updated elements [rankOffsets[r],
  /// rankOffsets[r + 1]) of all
  /// tensors, one after the other.
  std::vector<std::int64_t> rankOffsets = {};
  /// Of Exact: the I32 fixed-point sums (see ExchangeLayout::getSumSize).
  std::optional<View> sums;
  /// Of Join: the state of the generator, whose step advances to that of the
  /// last batch of all ranks.
  std::optional<View> counter;

  /// Lists the tensors, then sums and counter if present.
  std::vector<Operand> listOperands() const;
};
std::string_view name(Exchange::Action action);
std::string_view name(Exchange::Operation operation);
std::string_view name(Exchange::Format format);
std::optional<Exchange::Format> parseExchangeFormat(std::string_view name);

struct Record;

/// Executes `body` `count` times; views move by their steps in each iteration.
struct Loop {
  static constexpr std::string_view kKind = "loop";
  std::int64_t count = 1;
  std::vector<Record> body;
  /// 0 for a sequential loop, each iteration of which uses all threads.
  /// Otherwise the loop is parallel: iterations are independent, and up to
  /// `slots` of them run concurrently, each on one thread. Parallel loops are
  /// not nested.
  std::int64_t slots = 0;

  std::vector<Operand> listOperands() const; ///< Lists those of the body.
};
inline constexpr std::int64_t kMaxSlots = 4096;
inline constexpr std::size_t kMaxLoopDepth = 4;

inline constexpr std::uint32_t kMaxThreads = 4096;

/// Number of record lists; see `Plan::getLists`.
inline constexpr std::size_t kNumRecordLists = 4;

/// A rank of a group that shards optimizer states (ZeRO stage 1).
struct StateShard {
  std::uint32_t rank = 0, size = 1;
};

/// The text of a precision policy.
struct PolicyText {
  std::string name;
  /// SHA-256 of `text`, `costs`, and the hash of the policy that it extends.
  std::string hash;
  std::string text;
  /// The text of the cost file that the cut minimizes; empty without one.
  std::string costs;
};

/// Optimizer states in a quantized format. The runtime only copies them; the
/// compiler knows how to dequantize them.
struct QuantizedStates {
  struct State {
    /// Names of the ports: codes, scales, and other parts of the format.
    std::vector<std::string> parts;
    std::vector<std::int64_t> shape; ///< Shape of the dequantized state.
  };
  std::string format; ///< `#binade.quantized<...>` of the dialect.
  std::vector<State> states;
};

/// Returns the hash of a policy; `base` is the hash of the policy that it
/// extends, or empty.
std::string hashPolicy(const PolicyText &policy, std::string_view base);

struct Record {
  std::string label; ///< Op and node, for messages and reports.
  std::variant<Launch, Matmul, Convolution, Attention, Copy, Exchange, Loop>
      body;
  std::optional<Fallback> fallback = {}; ///< The fallback of the op, if any.
};

/// Returns the name of the kind in files and tables: "launch", "matmul", ...
std::string_view getKind(const Record &record);

/// Lists the operands and the scratch memory of a record.
std::vector<Operand> listOperands(const Record &record);
/// Lists the arguments of the record's device kernel in order. The record must
/// not be a launch or a loop.
std::vector<View> listKernelOperands(const Record &record);

/// Return the fields `deviceKernel`, `scratch` and `libraryScratch` of a
/// record; null if records of its kind do not have the field.
const std::string *findKernelName(const Record &record);
std::string *findKernelName(Record &record);
const std::optional<View> *findScratch(const Record &record);
std::optional<View> *findScratch(Record &record);
std::optional<View> *findLibraryScratch(Record &record);

} // namespace plan

/// A compiled training step.
struct Plan {
  std::string model; ///< Name of the model, for reports.
  std::string policy, policyHash;
  /// The texts of the policy and of each policy that it extends, in order;
  /// empty if they are not known.
  std::vector<plan::PolicyText> policyTexts;
  /// Hash of the computation, independent of the target; empty if unknown.
  std::string computation;
  std::map<std::string, std::int64_t> dims; ///< As bound at import.
  /// For reports: the number of ops that compute in a format, and of casts to
  /// it.
  std::map<std::string, std::int64_t> ops, casts;
  /// Threads of library calls, on which the last bits of results may depend. 0
  /// for the number of cores of the machine that loads the plan.
  std::uint32_t threads = 0;
  /// Whether a step with a non-finite gradient leaves parameters, states and
  /// the step count unchanged. Then `found_inf` is a metric.
  bool skipsNonFinite = false;
  /// The CUDA chip that kernels are compiled for, "sm_90"; empty for CPUs.
  std::string chip;
  std::vector<plan::DeviceKernel> deviceKernels;
  std::uint64_t arenaBytes = 0;
  /// Bytes per category at the peak of the arena; they sum to arenaBytes.
  std::map<plan::Category, std::uint64_t> ledger;
  std::vector<plan::Buffer> buffers;
  std::vector<plan::Port> ports;
  std::vector<plan::QuantizedStates> quantizedStates; ///< By format.
  std::vector<plan::Record> records;
  /// Number of batches whose mean gradient a step uses. For all but the last
  /// batch, `accumulation` is executed, which accumulates the gradients and
  /// computes the metric `kBatchLoss`. It is empty for one batch.
  std::int64_t batches = 1;
  std::vector<plan::Record> accumulation;
  /// Computes the metric `kEvalLoss` of the batch, without dropout and with
  /// running statistics, in memory that is not live between steps. Empty
  /// without a loss.
  std::vector<plan::Record> evaluation;
  /// The step including statistics that are not due in every step; executed
  /// instead of `records` when some are due. Empty without such statistics.
  std::vector<plan::Record> observation;
  /// The alarm rules of a run, unless its user selects others.
  AlarmSettings alarms;
  /// Set by `shardStates`: the rank whose shard of the states the plan has.
  std::optional<plan::StateShard> shard = {};

  /// Returns the four record lists in the order of `RecordList`.
  std::array<std::vector<plan::Record> *, plan::kNumRecordLists> getLists() {
    return {&records, &accumulation, &evaluation, &observation};
  }
  std::array<const std::vector<plan::Record> *, plan::kNumRecordLists>
  getLists() const {
    return {&records, &accumulation, &evaluation, &observation};
  }
  /// Returns null if there is no such kernel.
  const plan::DeviceKernel *findDeviceKernel(std::string_view name) const;
  const plan::Port *findPort(plan::Role role, std::string_view name) const;
  /// Returns the exchanges at which the step starts a bucket, in order; empty
  /// for a step of one process.
  std::vector<const plan::Exchange *> listBuckets() const;
  /// Returns the master weight, remainder or compensation of a parameter, or
  /// null.
  const plan::Port *findCompanionPort(const plan::Port &parameter) const;
  /// Returns how the precision of a parameter is kept, if it is.
  std::optional<plan::Master> findMaster(const plan::Port &parameter) const;
};

} // namespace binade

#endif // BINADE_PLAN_PLAN_H
