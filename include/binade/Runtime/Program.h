//===- Program.h - A bundle, loaded and ready to run ------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_PROGRAM_H
#define BINADE_RUNTIME_PROGRAM_H

#include "binade/Plan/Bundle.h"
#include "binade/Runtime/Devices.h"
#include "binade/Runtime/Library.h"
#include "binade/Runtime/Profile.h"
#include "binade/Runtime/RecordRunner.h"
#include "binade/Runtime/Settings.h"
#include <functional>
#include <memory>

namespace binade {

/// Receives remarks and warnings, one line each, without a newline.
using Notify = std::function<void(std::string_view)>;

/// Writes the batch ports of the next run. A device calls it while it executes
/// the present one, whose batch is kept: ports have other memory meanwhile. A
/// CPU, and a program whose records are measured, do not call it.
using FillNext = std::function<void()>;

struct LoadOptions {
  /// Instead of the plan's; library calls may then give other bits.
  unsigned threads = 0;
  /// Overridden by the environment variable BINADE_CONTRACTION.
  Contraction contraction = Contraction::Auto;
  /// What to run on: has to be what the bundle was compiled for.
  DeviceChoice device;
  /// Only the plan is asked for: the device that it is for may be elsewhere.
  bool needsNoDevice = false;
  /// Fill all memory that holds nothing between steps with NaN before each
  /// step, so that what is read without being written shows. Absent: in debug
  /// builds. Overridden by the environment variable BINADE_POISON (0 or 1).
  std::optional<bool> poison;
  /// Hyper-parameters instead of the plan's.
  std::vector<Setting> settings;
  /// Refuse weights that are not finite, of the model and of files that state
  /// is restored from; otherwise they are warned of.
  bool failOnNonfinite = false;
  Notify notify;
};

/// A port's memory: dense, row-major, in the arena.
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

/// Where a step first left the numbers.
struct Overflow {
  std::string label;  ///< Of the record: op and node.
  DType dtype;        ///< Of the value that is not finite.
  std::string reader; ///< Label of the next record that reads it, if any.
  std::uint64_t elements = 0, notFinite = 0;
  double largest = 0;  ///< Finite magnitude in that value.
  double operands = 0; ///< Finite magnitude in what the record read.
};

/// What computes a product or a convolution on this machine.
struct ContractionChoice {
  std::string_view program; ///< "step", "accumulation" or "evaluation".
  std::string record;       ///< Its label.
  /// A library with its algorithm; empty for kernels of Binade's own.
  std::string implementation;
  std::string refusal; ///< Why a library that is there does not.
};

/// What a file had in common with a program.
struct Restored {
  std::size_t tensors = 0;
  std::vector<std::string> missing; ///< Parameters and buffers it lacks.
  std::vector<std::string> unknown; ///< Its tensors without a place.
};

/// A compiled step with its memory. Not thread-safe.
class Program {
public:
  /// Loads a bundle; external files are sought beside it.
  static Result<Program> load(const std::string &path,
                              const LoadOptions &options = {});
  /// Loads a bundle file that is in memory, which has to outlive the program.
  /// `where` names it in messages; external files are sought in `directory`.
  static Result<Program> load(std::span<const std::byte> file,
                              std::string where, std::string directory,
                              const LoadOptions &options = {});
  /// Takes what the compiler made, in the same process.
  static Result<Program> load(Bundle bundle, std::string where,
                              std::string directory,
                              const LoadOptions &options = {});

  Program(Program &&) noexcept;
  Program &operator=(Program &&) noexcept;
  ~Program();

  const Plan &getPlan() const;
  unsigned getThreads() const;
  /// The kernels that were chosen: `x86-64-v4`, `sm_90` and the like; empty
  /// without.
  std::string_view getIsa() const;
  /// "cpu", or "cuda:0 (NVIDIA H200)"; empty where no device was needed.
  std::string formatDevice() const;
  /// Scratch memory beyond the arena, where this machine's library needs more
  /// than the plan reserved.
  std::uint64_t getExtraBytes() const;

  /// Gives every port its initial value: from the bundle, from external files,
  /// constants, and random numbers of `seed`. The generator state (rng) gets
  /// `seed` too. Warns of weights that are not finite, or refuses them.
  Result<void> initialize(std::uint64_t seed);

  /// Replaces training state by the tensors of a file with its names (see
  /// `plan::stateName`). Parameters and buffers may come in any of F64, F32,
  /// F16 and BF16; what differs otherwise in type or shape is an error that
  /// lists all, and so is a file without any such name. Warns of weights that
  /// are not finite, or refuses them.
  Result<Restored> restore(const Safetensors &file);

  /// Gives a port of 16 bits `values`, rounded, and what is kept beside a
  /// parameter what they lose.
  void keep(const plan::Port &port, std::span<const float> values);

  /// Writes training state atomically (ruling on final.safetensors).
  Result<void> save(const std::string &path) const;

  std::optional<Tensor> find(plan::Role role, std::string_view name) const;
  std::vector<Tensor> tensors() const; ///< In the order of the plan's ports.
  std::vector<Tensor> tensors(plan::Role role) const;
  /// Those of a role, to be read only: on a device, what may have been written
  /// to goes back to it before the next step.
  std::vector<Tensor> read(plan::Role role) const;

  /// Gives a port the elements of `values`, all of them and of its type.
  /// Integers of a batch that index something, and hyper-parameters, are
  /// refused if out of range; so is a name that no port has.
  Result<void> set(plan::Role role, std::string_view name,
                   std::span<const std::byte> values);

  /// Computes gradients of the batch, updates by them, or by their mean with
  /// those that were accumulated, which then are forgotten. Fails where a
  /// device does. Statistics that are not of each step are computed only with
  /// `observes`, which callers that number no steps give always; no other
  /// result differs.
  Result<void> run(const FillNext &fillNext = {}, bool observes = false);

  /// Adds the gradients of the batch to those before and returns its loss: for
  /// each batch of a step but the last, of which `Plan::batches` says the
  /// number.
  Result<double> accumulate(const FillNext &fillNext = {});
  /// Forgets the batches that were accumulated since the last step.
  Result<void> forgetBatches();

  /// Whether the program computes a loss that can be evaluated.
  bool hasEvaluation() const;
  /// The loss of the batch as the model is evaluated: without dropout, with
  /// running statistics. Training state keeps its bits.
  Result<double> evaluate();

  /// Which launch of the last run or evaluation met an index or label out of
  /// range, if any did: its results mean nothing then, but no memory was
  /// touched that is not its own.
  std::optional<std::string_view> findIndexFault() const;
  /// The same as an error.
  Result<void> checkIndices() const;

  /// In the order of the plan; loops count once.
  std::vector<ContractionChoice> listContractions() const;

  /// Executes the records once more, up to the first that makes a NaN or an
  /// infinity; minus infinities, which masks are made of, count where there is
  /// nothing else. Ports have to hold what they held before the step.
  std::optional<Overflow> findOverflow();

  /// Executes single records of the program, which has to outlive it. On a
  /// device it has memory alone: ports keep what they hold.
  std::unique_ptr<RecordRunner> createRecordRunner();

  /// Times what the library of its CUDA device has for each product, and keeps
  /// the fastest. What ports hold is lost. An error on a CPU, and where there
  /// is no library.
  Result<void> tune();
  /// Writes into `plan`, which the program was loaded from, what its library
  /// multiplies with: on such a device that is taken from then on. Returns for
  /// how many products.
  std::size_t recordAlgorithms(Plan &plan) const;

  /// Measures all records from now on, or no longer. On a CUDA device they are
  /// launched one by one then.
  void setProfiling(bool on);
  /// Without ceilings.
  Profile getProfile() const;
  /// Of the machine that it runs on: takes some tenths of a second, and memory
  /// for a copy. Empty where there is none.
  Ceilings measureCeilings();
  /// Writes `profile` and all calls of records, in the format of Chrome's
  /// tracing.
  Result<void> writeTrace(const std::string &path,
                          const Profile &profile) const;

private:
  struct Implementation;
  static Result<Program> loadFile(Safetensors file, std::string directory,
                                  const LoadOptions &options);
  explicit Program(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation;
};

/// One metric, hyper-parameter or counter as a number; nothing when there is
/// no such port.
std::optional<double> readScalar(const Program &program, plan::Role role,
                                 std::string_view name);

} // namespace binade

#endif // BINADE_RUNTIME_PROGRAM_H
