//===- Verification.h - Comparison of two executions ------------*- C++ -*-===//
//
// Each record of a bundle is executed on its device, or in the simulator, and
// on the CPU, with the same input bytes, and their results are compared. A
// bundle for the CPU is compared with the reference.
//
// Kernels without sums have to give equal bits. Contractions, and kernels with
// sums, may differ from the exact result by the bounds of the reference.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_VERIFICATION_VERIFICATION_H
#define BINADE_VERIFICATION_VERIFICATION_H

#include "binade/Runtime/Program.h"
#include "mlir/IR/MLIRContext.h"

namespace mlir::binade {

/// An element for which two executions have different values.
struct Difference {
  /// The kind of difference, such as "other bits than the CPU's".
  std::string what;
  std::string buffer; ///< The port's name, or its number in the plan.
  ::binade::DType dtype = ::binade::DType::F32;
  int64_t element = 0; ///< Index of the element in the buffer.
  double value = 0, expected = 0;
  /// Distance of both values in units of the last place of the format.
  double ulps = 0;
  /// Allowed difference from `expected`; absent if bits are compared.
  std::optional<double> bound;
  /// The number of different elements, and of elements that the record wrote.
  int64_t different = 0, elements = 0;
};

/// The results of all executions of a record.
struct RecordReport {
  std::string label;
  std::string_view kind; ///< See `plan::getKind`.
  std::string kernel;    ///< The kernel of a launch.
  int64_t executions = 0;
  int64_t equal = 0; ///< Executions with equal bits.
  /// The largest difference as a fraction of its bound; 0 for equal bits.
  double ratio = 0;
  /// The first difference, with its step and loop iterations.
  std::optional<Difference> difference;
  int64_t step = 0;
  std::vector<int64_t> iteration;
};

/// Whether compiling the source of a bundle again gives the same modules.
struct ModuleReport {
  size_t modules = 0;
  size_t machineCode = 0; ///< Modules whose machine code was compared.
  /// Names of kernels in modules with different PTX, or with the same PTX but
  /// different machine code.
  std::vector<std::string> otherPtx, otherMachineCode;
};

struct VerifyOptions {
  /// Uses the simulator instead of the device.
  bool simulate = false;
  ::binade::DeviceChoice device;
  /// Uses no device, and stores the results of the CPU for `save`. Requires a
  /// bundle for a device.
  bool keepsExpectations = false;
  /// Compares only records whose label contains this text; the others are only
  /// executed.
  std::string only;
  /// How often each record is executed with the same inputs, to check that it
  /// is deterministic.
  int64_t repeat = 1;
  unsigned threads = 0;
  ::binade::Notify notify;
  /// Called for each execution with its number in the step, and their total.
  std::function<void(int64_t, int64_t)> progress;
};

/// Compares the execution of a bundle with another one, record by record.
class Verification {
public:
  /// `context` must have Binade's dialects and outlive the object.
  static ::binade::Result<Verification> create(const std::string &path,
                                               const VerifyOptions &options,
                                               MLIRContext &context);
  Verification(Verification &&) noexcept;
  ~Verification();

  /// Returns the program whose ports are the inputs of both executions. The
  /// caller initializes it and sets a batch before each run.
  ::binade::Program &getProgram();
  /// Returns what is compared, as text: "the simulator with the CPU".
  std::string describe() const;

  ::binade::Result<void> runStep() { return run(::binade::RecordList::Step); }
  ::binade::Result<void> runAccumulation() {
    return run(::binade::RecordList::Accumulation);
  }
  ::binade::Result<void> runEvaluation() {
    return run(::binade::RecordList::Evaluation);
  }

  /// Returns the report about modules; nothing for a bundle for the CPU.
  const std::optional<ModuleReport> &getModules() const;
  /// Returns the reports of records in the order of their first execution.
  std::vector<RecordReport> getRecords() const;

  /// Writes the expected results to a file, for comparisons without a compiler
  /// (see Expectations.h).
  ::binade::Result<void> save(const std::string &path) const;

private:
  struct Implementation;
  explicit Verification(std::unique_ptr<Implementation> implementation);
  ::binade::Result<void> run(::binade::RecordList list);
  std::unique_ptr<Implementation> implementation;
};

} // namespace mlir::binade

#endif // BINADE_VERIFICATION_VERIFICATION_H
