//===- Plan.h - A compiled training step as data ----------------*- C++ -*-===//
// What the compiler hands to the runtime: buffers with static offsets in one
// arena, the ports through which the world sees them, and a flat list of
// records that are executed one after the other. No MLIR here: a plan is
// written into the bundle as JSON (PlanJson.h) and read back without a
// compiler.
//===----------------------------------------------------------------------===//

#ifndef BINADE_PLAN_PLAN_H
#define BINADE_PLAN_PLAN_H

#include "binade/Container/DType.h"
#include "binade/Container/Fallback.h"
#include "binade/Container/Numbers.h"
#include "binade/Plan/AlarmSettings.h"
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace binade {
namespace plan {

/// Why memory is held; the ledger counts by it.
enum class Category : std::uint8_t {
  Parameter,
  Buffer,
  State,
  Batch,
  Gradient,
  Saved, ///< forward values that the backward part reads
  Workspace,
  Constant,
  Scalar,
  Library, ///< scratch memory of library calls
  Unused,  ///< between buffers: of alignment and of packing
};
inline constexpr std::size_t kNumCategories = 11;
std::string_view name(Category category);
std::optional<Category> parseCategory(std::string_view name);

/// What a port is to the world. The first ten keep their bits between steps
/// unless a record writes them; output and what follows hold the result of the
/// last step until the next step or evaluation.
enum class Role : std::uint8_t {
  Parameter,
  Buffer,
  State,       ///< named `<state>/<parameter>`
  Scaler,      ///< `scale` (F32), `growth` and `hysteresis` (I64)
  Rng,         ///< I64 [2]: seed, number of steps begun
  Step,        ///< I64: number of applied updates
  Accumulator, ///< of gradients, 0 before the first batch of a step
  Batch,
  Hyper,    ///< F64 scalars
  Constant, ///< big constants of the graph
  Output,
  /// `loss`, `grad_norm`, `found_inf`; `batch_loss`, of the last batch but the
  /// step's own; `eval_loss`, of the last evaluation;
  /// `out_of_range/<launch>`, which the runtime sets to 0 before a step and a
  /// kernel that meets an index or label out of range to 1.
  Metric,
  Gradient,
  /// Of a value of the step: named by statistic and value, "amax forward
  /// matmul /h.0/MatMul".
  Statistic,
};
inline constexpr std::size_t kNumRoles = 14;
std::string_view name(Role role);
std::optional<Role> parseRole(std::string_view name);

/// The metrics that an accumulation and an evaluation compute.
inline constexpr std::string_view kBatchLoss = "batch_loss";
inline constexpr std::string_view kEvalLoss = "eval_loss";

/// True for what a checkpoint holds: parameter to step.
bool isTrainingState(Role role);

/// The name of training state in a file: parameters and buffers as they are,
/// `state/<name>`, `scaler/<name>`, `step`, `rng`.
std::string stateName(Role role, std::string_view name);

/// Bytes [offset, offset + bytes) of the arena, a dense row-major tensor.
/// Buffers may overlap where their lifetimes do not (or on purpose); training
/// state, hyper and constant ports overlap nothing of their kind.
struct Buffer {
  std::string name;
  std::uint64_t offset = 0; ///< Multiple of the element size.
  std::uint64_t bytes = 0;  ///< Product of `shape` times element size.
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  Category category = Category::Workspace;
  /// Bytes from the buffer of one slot of a parallel loop to that of the next;
  /// 0: all slots have the same. Not less than `bytes` otherwise.
  std::uint64_t slot = 0;
};

/// Elements of a buffer: element i, j... of the view is element
/// `offset + i * strides[0] + j * strides[1] + ...` of the buffer, counted
/// from its first element. Inside of loops, `steps[d] * iteration(d)` is added
/// for each enclosing loop d, outermost first; missing steps are 0. Nothing is
/// negative.
struct View {
  std::uint32_t buffer = 0;
  std::int64_t offset = 0;
  std::vector<std::int64_t> strides; ///< Empty where only an address is meant.
  std::vector<std::int64_t> steps;
};

// How a port gets its bytes before the first step.
struct NoInit {}; ///< by the user, each step (batch, output, ...)
struct ExternalInit {
  std::string file; ///< Relative to the directory of the bundle.
  std::uint64_t offset = 0;
  /// Equal to the buffer's; or its elements as F32, which are rounded, where
  /// the buffer is BF16 or F16.
  std::uint64_t bytes = 0;
  std::string sha256; ///< Checked unless empty.
};
struct BundleInit {
  /// Name in the bundle; same type and shape, or F32 as above.
  std::string tensor;
};
/// `origin + scale * x`, x of the standard normal distribution or uniform in
/// [0, 1). Drawn from (seed, port name, element index).
struct RandomInit {
  enum Distribution : std::uint8_t { Normal, Uniform };
  Distribution distribution = Normal;
  double origin = 0; ///< Mean, or the low end.
  double scale = 0;  ///< Deviation, or the length of the range.
};
struct FillInit {
  double value = 0; ///< Rounded to the buffer's type.
};
/// What keeps the updates that a parameter of 16 bits would lose: its f32, the
/// low half of that, or what the last sum lost.
enum class Master : std::uint8_t { F32, SplitRound, SplitTrunc, Kahan };
inline constexpr std::size_t kNumMasters = 4;
std::string_view name(Master master);
std::optional<Master> parseMaster(std::string_view name);

/// Of a state: what `master` keeps when the parameter of that name takes its
/// initial value, which is thought of as F32.
struct BesideInit {
  std::string parameter;
  Master master = Master::F32;
};
using Init = std::variant<NoInit, ExternalInit, BundleInit, RandomInit,
                          FillInit, BesideInit>;

/// Legal integers of a batch input: [low, high), or `ignored`. Present where
/// the input reaches a gather or a loss unmodified; data are checked against
/// it before the first step.
struct IndexCheck {
  std::int64_t low = 0, high = 0;
  std::optional<std::int64_t> ignored;
};

/// Entries of a histogram of exponents.
inline constexpr std::uint64_t kExponentBins = 256;

/// A tensor that has a name outside. (role, name) is unique.
struct Port {
  Role role = Role::Parameter;
  std::string name;
  std::uint32_t buffer = 0;
  Init init;
  std::optional<IndexCheck> check;
  std::optional<NumberRange> range = {}; ///< Of a hyper-parameter.
  bool frozen = false;                   ///< A buffer that no step changes.
  /// Of a statistic that a user asked for: of the step of which number it is
  /// taken a multiple of this is. 0 for others.
  std::int64_t every = 0;
};

/// A tensor that a record reads or writes, or memory that it works in.
struct Operand {
  enum Use : std::uint8_t {
    Read,
    Write,
    Kernel, ///< What a launch does with it is known to its kernel alone.
    Finish, ///< The same, of the kernel's finish.
    Scratch,
    LibraryScratch
  };
  std::string name; ///< As messages have it.
  Use use = Read;
  View view;
  std::vector<std::int64_t> sizes = {}; ///< Of tensors.
  /// The tensor is row-major whatever the strides of `view` are.
  bool isDense = false;

  bool isTensor() const { return use == Read || use == Write; }
  bool isWritten() const { return use == Write; }
};

/// Work items [0, extent) over one set of buffers.
struct Segment {
  std::string kernel; ///< Empty: the launch's. All write alike partials.
  std::vector<View> operands; ///< Addresses, in the kernel's argument order.
  std::int64_t extent = 0;
};

/// One parallel loop over the items of all segments.
///
/// The kernel object exports
///   void KERNEL(void *const *buffers, int64_t begin, int64_t end)
/// which does items [begin, end) of one segment, with the addresses of the
/// segment's operands in `buffers`. Items are independent and are handed out in
/// blocks of `grain` (less at the segment's end), each of which begins at a
/// multiple of `grain`, in any order and on any thread. With `finish` it also
/// exports
///   void KERNEL_finish(void *const *buffers, int64_t blocks)
/// which is called once, after all items, with the addresses of
/// `finishOperands` and the number of blocks of all segments. A reduction
/// writes one partial per item or block into a workspace operand and combines
/// them there, so that its bits do not depend on the number of threads.
struct Launch {
  static constexpr std::string_view kKind = "launch";
  std::string kernel;
  std::vector<Segment> segments;
  std::int64_t grain = 1;
  bool finish = false;
  std::vector<View> finishOperands; ///< Empty: those of the first segment.

  /// Those of the segments, one after the other, then the finish's own.
  std::vector<Operand> listOperands() const;
};

/// A kernel as a GPU launches it, of the name that launches say. Its arguments
/// are the addresses of operands. One over many tensors, whose segments have
/// elements for items, gets instead the address of the arena and that of a
/// table of i64: a row for each block of `grain` items, with the bytes in the
/// arena at which the operands start, its first item, and the one behind its
/// last; for its finish one row, with those of the finish's operands and
/// the number of blocks. Addresses are multiples of `kDeviceAlignment`, or of
/// what `alignments` says.
struct DeviceKernel {
  struct Entry {
    std::string symbol;
    /// Blocks, the first axis 0 where each block of items is one, and threads
    /// of a block.
    std::vector<std::int64_t> grid, block;
  };
  std::string name;
  std::uint32_t module = 0;   ///< Of those that the bundle has for the chip.
  std::vector<Entry> entries; ///< Of all items, then the finish if any.
  /// For each operand; empty where there is nothing to say.
  std::vector<std::int64_t> alignments = {};

  bool isOverMany() const { return entries.front().grid.front() == 0; }
  /// What the address of an operand has to be a multiple of.
  std::int64_t getAlignment(std::size_t operand) const;
};
inline constexpr std::int64_t kDeviceAlignment = 16;
/// What the addresses of a view are multiples of in all iterations, as far as
/// devices care: a divisor of `kDeviceAlignment`.
std::int64_t findAlignment(std::span<const Buffer> buffers, const View &view);

/// What shares a scale: so many rows of the left side, columns of the right
/// one, and terms of both.
struct ScaleBlock {
  std::int64_t m = 1, n = 1, k = 1;
};

/// out[b.., i, j] = round(lhsScale * rhsScale
///                        * sum over l of lhs[b.., i, l] * rhs[b.., l, j]
///                        + bias[j] (+ out[b.., i, j] if `accumulate`)).
/// Operands are F32, BF16 or F16 in any mixture, or both sides are F8_E4M3 or
/// F8_E5M2; sums are f32, rounded once. With `block`, sums of its k terms are
/// multiplied by both of their scales and added up in f32.
/// Strides: those of the batch axes, then rows, then columns; transposition is
/// a matter of strides, broadcasting one of stride 0. `bias` has one stride.
struct Matmul {
  static constexpr std::string_view kKind = "matmul";
  View lhs, rhs, out;
  /// Of F8 only; one F32, or with `block`, which needs both and no batch, those
  /// of blocks: strides from one to the next along rows (columns) and terms.
  std::optional<View> lhsScale, rhsScale;
  std::optional<ScaleBlock> block;
  std::optional<View> bias;
  std::vector<std::int64_t> batch; ///< At most kMaxBatchAxes.
  std::int64_t m = 1, n = 1, k = 1;
  bool accumulate = false;
  /// F32 operands hold numbers of TF32: units for these may multiply them.
  bool tf32 = false;
  /// What a device's library multiplied with, by device and version, in its own
  /// words. Elsewhere it chooses again.
  std::map<std::string, std::string> algorithms;
  /// For the CPU's library, see `queryLibrary`, or the device kernel.
  std::optional<View> scratch;
  /// For a device's library; no more than this buffer has.
  std::optional<View> libraryScratch = {};
  /// The device kernel for what the device's library does not compute, or where
  /// it is not; empty for CPUs.
  std::string deviceKernel;

  /// lhs, rhs, out, and of bias, scales and memory what there is, in this
  /// order.
  std::vector<Operand> listOperands() const;
  /// How many scales there are along the two strides; none for a single one.
  std::vector<std::int64_t> getLhsScaleSizes() const;
  std::vector<std::int64_t> getRhsScaleSizes() const;
};
inline constexpr std::size_t kMaxBatchAxes = 4;

/// A convolution (cross-correlation) over one to three axes, or one of its
/// gradients: `y` is then the gradient of the output, and `x` or `weight` is
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
  std::optional<View> scratch, libraryScratch; ///< As a product's.
  std::string deviceKernel = {};               ///< As a product's.

  /// x, weight, y, and of bias and memory what there is.
  std::vector<Operand> listOperands() const;
};
inline constexpr std::size_t kMaxSpatialAxes = 3;

/// Scaled dot-product attention, where scores are never stored:
///   s[b.., i, j] = scale * sum over l of query[b.., i, l] * key[b.., j, l],
///   -infinity where `causal` and j > i;
///   lse[b.., i]  = log(sum over j of exp(s[b.., i, j]));
///   p[b.., i, j] = round(exp(s[b.., i, j] - lse[b.., i]));
///   y[b.., i, e] = round(sum over j of p[b.., i, j] * value[b.., j, e]);
/// or with `gradients` these, of which `y` and `lse` are read:
///   d[b.., i]     = sum over e of dy[b.., i, e] * y[b.., i, e]
///   ds[b.., i, j] = round(scale * exp(s - lse)
///                         * (sum over e of dy[b.., i, e] * value[b.., j, e]
///                            - d[b.., i]))
///   dquery = ds key, dkey = ds^T query, dvalue = p^T dy.
/// Everything is f32 but for what is rounded: p and ds to the type of `query`,
/// `key`, `value` and `dy`, which is F32, BF16 or F16; results to their own.
/// Strides: those of the batch axes, then rows, then columns, which are dense;
/// `lse` is F32 and has no columns.
struct Attention {
  static constexpr std::string_view kKind = "attention";
  View query, key, value, y, lse;
  struct Gradients {
    View dy, dquery, dkey, dvalue;
  };
  std::optional<Gradients> gradients;
  std::vector<std::int64_t> batch; ///< At most kMaxBatchAxes.
  std::int64_t queries = 1, keys = 1;
  std::int64_t depth = 1; ///< Columns of query and key.
  std::int64_t width = 1; ///< Columns of value and y.
  double scale = 1;
  bool causal = false;           ///< With as many keys as queries.
  std::optional<View> scratch;   ///< Of the device kernel.
  std::string deviceKernel = {}; ///< Of a device; empty for CPUs.

  /// query, key, value, y and lse, then dy, dquery, dkey and dvalue if there
  /// are any, then the scratch memory if there is any.
  std::vector<Operand> listOperands() const;
};

/// Copies elements `sizes` of one type from one view to another.
struct Copy {
  static constexpr std::string_view kKind = "copy";
  View from, to;
  std::vector<std::int64_t> sizes; ///< At most kMaxCopyAxes.
  std::string deviceKernel = {};   ///< Of a device; empty for CPUs.

  std::vector<Operand> listOperands() const; ///< from, to.
};
inline constexpr std::size_t kMaxCopyAxes = 8;

struct Record;

/// Executes `body` `count` times, views moving by their steps.
struct Loop {
  static constexpr std::string_view kKind = "loop";
  std::int64_t count = 1;
  std::vector<Record> body;
  /// 0: one iteration after the other, each on all threads. Otherwise the loop
  /// is parallel: iterations are independent, up to `slots` of them are
  /// executed at the same time, each on one thread. No parallel loop is inside
  /// of another.
  std::int64_t slots = 0;

  std::vector<Operand> listOperands() const; ///< Those of the body.
};
inline constexpr std::int64_t kMaxSlots = 4096;
inline constexpr std::size_t kMaxLoopDepth = 4;

inline constexpr std::uint32_t kMaxThreads = 4096;

/// Of a plan: see `Plan::getLists`.
inline constexpr std::size_t kNumRecordLists = 4;

/// A precision policy as its file says it.
struct PolicyText {
  std::string name;
  /// SHA-256 of `text`, `costs`, and the hash of the policy that it extends.
  std::string hash;
  std::string text;
  /// What the costs' file says that a cut minimizes; empty for none.
  std::string costs;
};

/// States that are kept as codes with shared scales. The runtime moves them;
/// what they stand for is for compilers.
struct QuantizedStates {
  struct State {
    /// Names of the ports: codes, scales, and what else the format has.
    std::vector<std::string> parts;
    std::vector<std::int64_t> shape; ///< Of what they stand for.
  };
  std::string format; ///< `#binade.quantized<...>` of the dialect.
  std::vector<State> states;
};

/// The hash of a policy that extends the one with the hash `base`, if any.
std::string hashPolicy(const PolicyText &policy, std::string_view base);

struct Record {
  std::string label; ///< For people: op and layer.
  std::variant<Launch, Matmul, Convolution, Attention, Copy, Loop> body;
  std::optional<Fallback> fallback = {}; ///< Of the op, from its decision.
};

/// "launch", "matmul", ...: the name of the kind, in files and tables.
std::string_view getKind(const Record &record);

/// What the record reads, writes and works in: the one description of that.
std::vector<Operand> listOperands(const Record &record);
/// What the record's device kernel gets, in the order of its arguments. The
/// record is no launch and no loop.
std::vector<View> listKernelOperands(const Record &record);

/// The fields `deviceKernel`, `scratch` and `libraryScratch` of the record;
/// null where records of its kind have none.
const std::string *findKernelName(const Record &record);
std::string *findKernelName(Record &record);
const std::optional<View> *findScratch(const Record &record);
std::optional<View> *findScratch(Record &record);
std::optional<View> *findLibraryScratch(Record &record);

} // namespace plan

struct Plan {
  std::string model; ///< For people.
  std::string policy, policyHash;
  /// The policy, then what it extends, each the one before; empty where no
  /// policy's text is known.
  std::vector<plan::PolicyText> policyTexts;
  /// Hash of what is computed, whatever the target; empty where nobody knows.
  std::string computation;
  std::map<std::string, std::int64_t> dims; ///< As bound at import.
  /// For people: how many ops compute in a format, how many casts lead to it.
  std::map<std::string, std::int64_t> ops, casts;
  /// Threads of library calls, whose bits may depend on it. 0: as many as
  /// there are cores when the plan is loaded.
  std::uint32_t threads = 0;
  /// True if a step with a non-finite gradient keeps every bit of parameters,
  /// states and step count (`found_inf` is then a metric).
  bool skipsNonFinite = false;
  /// The CUDA chip that kernels are compiled for, "sm_90"; empty for CPUs.
  std::string chip;
  std::vector<plan::DeviceKernel> deviceKernels;
  std::uint64_t arenaBytes = 0;
  /// Bytes per category at the moment of the arena's peak; sums to arenaBytes.
  std::map<plan::Category, std::uint64_t> ledger;
  std::vector<plan::Buffer> buffers;
  std::vector<plan::Port> ports;
  std::vector<plan::QuantizedStates> quantizedStates; ///< By format.
  std::vector<plan::Record> records;
  /// Batches whose gradients a step takes the mean of. For all but the last
  /// `accumulation` is executed, which adds them to accumulators and computes
  /// the metric `kBatchLoss`; empty for one.
  std::int64_t batches = 1;
  std::vector<plan::Record> accumulation;
  /// Computes the metric `kEvalLoss` of the batch, as a model is evaluated, in
  /// memory that keeps nothing between steps. Empty where there is no loss.
  std::vector<plan::Record> evaluation;
  /// All of `records`, and between them what belongs to statistics of every so
  /// many-th step: executed instead of `records` in such a step. Empty where
  /// there are none.
  std::vector<plan::Record> observation;
  /// What a run of the step is held against unless its user says otherwise.
  AlarmSettings alarms;

  /// The four, in the order of `RecordList`.
  std::array<std::vector<plan::Record> *, plan::kNumRecordLists> getLists() {
    return {&records, &accumulation, &evaluation, &observation};
  }
  std::array<const std::vector<plan::Record> *, plan::kNumRecordLists>
  getLists() const {
    return {&records, &accumulation, &evaluation, &observation};
  }
  /// Null when there is none.
  const plan::DeviceKernel *findDeviceKernel(std::string_view name) const;
  const plan::Port *findPort(plan::Role role, std::string_view name) const;
  /// What is kept beside the parameter of that name, or null.
  const plan::Port *findBeside(const plan::Port &parameter) const;
  /// How that is kept; nothing where nothing is.
  std::optional<plan::Master> findMaster(const plan::Port &parameter) const;
};

} // namespace binade

#endif // BINADE_PLAN_PLAN_H
