//===- Program.h - A loaded bundle that runs steps --------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_PROGRAM_H
#define BINADE_RUNTIME_PROGRAM_H

#include "binade/Plan/Bundle.h"
#include "binade/Runtime/Devices.h"
#include "binade/Runtime/Exchange.h"
#include "binade/Runtime/Library.h"
#include "binade/Runtime/Profile.h"
#include "binade/Runtime/RecordRunner.h"
#include "binade/Runtime/Settings.h"
#include <functional>
#include <memory>

namespace binade {

/// Receives remarks and warnings, one line each, without a newline.
using Notify = std::function<void(std::string_view)>;

/// Writes the batch ports of the next run. Called while a CUDA device executes
/// the current one: batch ports are double-buffered, so the current batch is
/// not overwritten. Never called on the CPU or while profiling.
using FillNext = std::function<void()>;

struct LoadOptions {
  /// Thread count; 0 for the plan's. Another count may change the last bits of
  /// results of library calls.
  unsigned threads = 0;
  /// Overridden by the environment variable BINADE_CONTRACTION.
  Contraction contraction = Contraction::Auto;
  /// The device to run on; must match the target of the bundle.
  DeviceChoice device;
  /// Loads the plan without opening its CUDA device; the program cannot run.
  bool loadsPlanOnly = false;
  /// Fills all memory that is not live between steps with NaN before each step,
  /// which exposes reads of uninitialized memory. Default: only in debug
  /// builds. Overridden by the environment variable BINADE_POISON (0 or 1).
  std::optional<bool> poison;
  /// The roles whose ports are in memory of the caller, who calls
  /// `Program::bind` for each port before its first use. They take no memory of
  /// the program. For a CUDA device, the memory is the device's.
  std::vector<plan::Role> boundRoles;
  /// Hyper-parameters that replace those of the plan.
  std::vector<Setting> settings;
  /// Rejects non-finite weights, of the model and of restored files, instead of
  /// warning about them.
  bool failOnNonfinite = false;
  Notify notify;
};

/// A port's memory: dense, row-major; empty if the caller has not bound it.
struct Tensor {
  plan::Role role;
  std::string_view name;
  DType dtype;
  std::span<const std::int64_t> shape;
  std::span<std::byte> bytes;

  template <typename T> std::span<T> as() const {
    return {reinterpret_cast<T *>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// The first record of a step that wrote a non-finite value.
struct Overflow {
  std::string label;  ///< Label of the record: op and node.
  DType dtype;        ///< Type of the non-finite value.
  std::string reader; ///< Label of the next record that reads it, if any.
  std::uint64_t elements = 0, notFinite = 0;
  double largest = 0;  ///< Largest finite magnitude of the value.
  double operands = 0; ///< Largest finite magnitude of the record's operands.
};

/// The implementation of a matmul or convolution on this machine.
struct ContractionChoice {
  std::string_view program; ///< Name of the record list, such as "step".
  std::string record;       ///< Label of the record.
  /// The library and its algorithm; empty for Binade's own kernels.
  std::string implementation;
  std::string refusal; ///< Why an available library is not used.
};

/// The result of restoring training state from a file.
struct Restored {
  std::size_t tensors = 0;
  /// Parameters and buffers that the file lacks.
  std::vector<std::string> missing;
  /// Tensors of the file that the program does not have.
  std::vector<std::string> unknown;
};

/// Names of tensors in a file by names of parameters and buffers.
using TensorNames = std::map<std::string, std::string, std::less<>>;

/// A compiled step with its memory. Not thread-safe.
class Program {
public:
  /// Loads a bundle. External files are looked up in its directory.
  static Result<Program> load(const std::string &path,
                              const LoadOptions &options = {});
  /// Loads a bundle file from memory, which has to outlive the program. `where`
  /// names it in messages. External files are looked up in `directory`.
  static Result<Program> load(std::span<const std::byte> file,
                              std::string where, std::string directory,
                              const LoadOptions &options = {});
  /// Loads a bundle that the compiler produced in the same process.
  static Result<Program> load(Bundle bundle, std::string where,
                              std::string directory,
                              const LoadOptions &options = {});

  Program(Program &&) noexcept;
  Program &operator=(Program &&) noexcept;
  ~Program();

  const Plan &getPlan() const;
  unsigned getThreads() const;
  /// Returns the instruction set or chip of the loaded kernels, such as
  /// `x86-64-v4` or `sm_90`; empty for a plan without kernels.
  std::string_view getIsa() const;
  /// Returns "cpu" or "cuda:0 (NVIDIA H200)"; empty with
  /// `LoadOptions::loadsPlanOnly`.
  std::string formatDevice() const;
  /// Returns the bytes of scratch memory outside the arena, which exists if
  /// this machine's library needs more than the plan reserved.
  std::uint64_t getExtraBytes() const;

  /// Binds a port of `LoadOptions::boundRoles` to dense, row-major memory of
  /// the caller, which has to outlive its use. Ports may be bound again between
  /// steps. `port` is its index in the plan. On a CUDA device, addresses are
  /// multiples of 16 bytes.
  Result<void> bind(std::size_t port, void *memory);

  /// Sets every port to its initial value, from the bundle, from external
  /// files, from constants, or drawn at random from `seed`, except bound
  /// parameters and buffers: their values are the caller's. On a CUDA device,
  /// the caller has waited for its own work on bound memory. Also seeds the
  /// generator state (rng) with `seed`. Warns about non-finite weights, or
  /// rejects them with `failOnNonfinite`.
  Result<void> initialize(std::uint64_t seed);

  /// Restores training state from the tensors of a file that have its names
  /// (see `plan::stateName`), or other names where `names` has them. Parameters
  /// and buffers may be stored in F64, F32, F16 or BF16. Any other difference
  /// in type or shape is an error, which lists all such tensors; so is a file
  /// without a single known name. Warns about non-finite weights, or rejects
  /// them with `failOnNonfinite`.
  Result<Restored> restore(const Safetensors &file,
                           const TensorNames &names = {});

  /// Rounds `values` into a 16-bit port, and sets the master weight, remainder
  /// or compensation that belongs to it, if any.
  void keep(const plan::Port &port, std::span<const float> values);

  /// Writes the training state to a safetensors file, atomically. `readWhole`
  /// returns the bytes of a tensor of which the program has a part; it is
  /// called for each of them, in the order of the plan's ports.
  using ReadWhole =
      std::function<Result<std::vector<std::byte>>(const Tensor &)>;
  Result<void> save(const std::string &path,
                    const ReadWhole &readWhole = {}) const;

  std::optional<Tensor> find(plan::Role role, std::string_view name) const;
  std::vector<Tensor> tensors() const; ///< In the order of the plan's ports.
  std::vector<Tensor> tensors(plan::Role role) const;
  /// Returns the ports of a role for reading only. Ports from `find` or
  /// `tensors` may be written to, so they are uploaded to a device before its
  /// next step; these are not.
  std::vector<Tensor> read(plan::Role role) const;

  /// Sets all elements of a port; `values` has its type. Rejects names of ports
  /// that do not exist (exit code 2), and indices, labels and hyper-parameters
  /// that are out of range (3).
  Result<void> set(plan::Role role, std::string_view name,
                   std::span<const std::byte> values);
  /// Returns the error that `set` returns for these values, without setting
  /// them.
  Result<void> check(plan::Role role, std::string_view name,
                     std::span<const std::byte> values) const;

  /// Executes a step: computes the gradients of the batch, averages them with
  /// the accumulated gradients, updates the parameters, and resets the
  /// accumulators. Returns errors of the device. With `observes` it also
  /// computes the statistics that are not due in every step, which changes no
  /// other result; callers that do not count steps always set it.
  Result<void> run(const FillNext &fillNext = {}, bool observes = false);

  /// Enqueues a step on a stream of the caller, a `CUstream` (null for the
  /// default stream), and does not wait for it. The stream may be capturing a
  /// graph, which then uses the memory that is bound now. The caller waits for
  /// the stream before it accesses ports that it has not bound, and checks it
  /// for errors. Only for programs with `LoadOptions::boundRoles` on a CUDA
  /// device.
  Result<void> enqueue(void *stream);

  /// Accumulates the gradients of the batch, and returns its loss. A step of
  /// `Plan::batches` batches calls it for all but the last one.
  Result<double> accumulate(const FillNext &fillNext = {});
  /// Resets the accumulators to 0.
  Result<void> resetAccumulators();

  /// Whether the step exchanges gradients between the ranks of a group.
  bool hasExchange() const;
  /// Makes the program the rank of a group, whose steps call `transport`; null
  /// for a program alone. Rank r of N executes batches r * B / N to (r + 1) * B
  /// / N - 1 of the B = `Plan::batches` of a step: `accumulate` for all but the
  /// last of these, then `run`. After an error of the transport, the exit code
  /// is 9, parameters, states and generator are those before the step, and
  /// accumulators are reset. May be called between two steps.
  Result<void> setExchange(GroupRank rank, Transport transport);

  /// Returns a program with the same values that has only the optimizer states
  /// of one rank (see binade::shardStates). It executes steps as that rank of
  /// a group, after `setExchange`; ports of sharded states have one axis. An
  /// error without an exchange, on a device, and for programs that are sharded
  /// already or have ports in memory of the caller.
  Result<Program> shardStates(plan::StateShard shard) const;

  /// Whether the plan has an evaluation program.
  bool hasEvaluation() const;
  /// Returns the loss of the batch, computed without dropout and with running
  /// statistics. Does not change training state.
  Result<double> evaluate();

  /// Returns the launch of the last run or evaluation that read an index or
  /// label out of range, if any. Its results are meaningless then, but it has
  /// accessed no memory out of bounds.
  std::optional<std::string_view> findIndexFault() const;
  /// Returns the result of `findIndexFault` as an error.
  Result<void> checkIndices() const;

  /// Returns the implementations of matmuls, convolutions and attention in the
  /// order of the plan; a record in a loop is listed once.
  std::vector<ContractionChoice> listContractions() const;

  /// Executes the records of the step again, up to the first that writes a NaN
  /// or an infinity, and returns it. A record that writes only minus
  /// infinities, as masks contain, is returned only if no other overflows.
  /// Ports have to have the values from before the step.
  std::optional<Overflow> findOverflow();

  /// Returns a runner for single records of the program, which has to outlive
  /// it. On a device, the runner does not transfer ports.
  std::unique_ptr<RecordRunner> createRecordRunner();

  /// Measures the algorithms that the library of the CUDA device offers for
  /// each matmul, and selects the fastest. Overwrites the contents of ports. An
  /// error on a CPU or without a library.
  Result<void> tune();
  /// Records in `plan`, from which the program was loaded, the algorithms of
  /// its library, which are then used on every device of this kind. Returns the
  /// number of matmuls.
  std::size_t recordAlgorithms(Plan &plan) const;

  /// Switches the measurement of records on or off. While it is on, a CUDA
  /// device launches them one by one.
  void setProfiling(bool on);
  /// Returns the measurements, without ceilings.
  Profile getProfile() const;
  /// Measures the peak rates of the device, which takes some tenths of a second
  /// and memory for a copy. If it fails, the rates are unset, and
  /// `Ceilings::sources` says why.
  Ceilings measureCeilings();
  /// Writes `profile` and all calls of records in Chrome's trace format.
  Result<void> writeTrace(const std::string &path,
                          const Profile &profile) const;

private:
  struct Implementation;
  static Result<Program> loadFile(Safetensors file, std::string directory,
                                  const LoadOptions &options);
  explicit Program(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation;
};

/// Returns the value of a scalar port, such as a metric or hyper-parameter;
/// nothing if there is no such scalar.
std::optional<double> readScalar(const Program &program, plan::Role role,
                                 std::string_view name);

} // namespace binade

#endif // BINADE_RUNTIME_PROGRAM_H
