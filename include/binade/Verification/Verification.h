//===- Verification.h - do two executions of a plan agree -------*- C++ -*-===//
//
// A bundle's records run one after the other on the device that it is for, or
// in the simulator, and on the CPU, each from the same bytes; what they write
// is compared. A bundle for the CPU is compared with the reference.
//
// Equal bits are asked of every kernel that sums nothing. Products, and kernels
// that sum, may differ from the exact result by the reference's bounds.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_VERIFICATION_VERIFICATION_H
#define BINADE_VERIFICATION_VERIFICATION_H

#include "binade/Runtime/Program.h"
#include "mlir/IR/MLIRContext.h"

namespace mlir::binade {

/// One element of which two sides have different values.
struct Difference {
  /// Why: "other bits than the CPU's", "beyond the bound".
  std::string what;
  std::string buffer; ///< The port's name, or its number in the plan.
  ::binade::DType dtype = ::binade::DType::F32;
  int64_t element = 0; ///< Of the buffer, from 0.
  double value = 0, expected = 0;
  /// How many numbers of the format lie between, plus one.
  double ulps = 0;
  /// How far `value` may be from `expected`; absent where bits are compared.
  std::optional<double> bound;
  int64_t different = 0, elements = 0; ///< Of what the record wrote there.
};

/// What became of a record, in all of its executions.
struct RecordReport {
  std::string label;
  std::string_view kind; ///< As `plan::getKind` says.
  std::string kernel;    ///< Of a launch.
  int64_t executions = 0;
  int64_t equal = 0; ///< Of these, with equal bits.
  /// The largest part of a bound that was needed; 0 where bits were equal.
  double ratio = 0;
  /// The first, and in which step and iterations of loops.
  std::optional<Difference> difference;
  int64_t step = 0;
  std::vector<int64_t> iteration;
};

/// Whether the modules of a bundle are what its source is compiled to.
struct ModuleReport {
  size_t modules = 0;
  size_t machineCode = 0; ///< Of those, with machine code that was compared.
  /// Names of kernels in modules whose PTX, or whose machine code alone, is
  /// another.
  std::vector<std::string> otherPtx, otherMachineCode;
};

struct VerifyOptions {
  /// The simulator in place of the device.
  bool simulate = false;
  ::binade::DeviceChoice device;
  /// No device: what the CPU computes is kept for `save`. Of a bundle for a
  /// device.
  bool keepsExpectations = false;
  /// Records whose label has this text are compared, the others only executed.
  std::string only;
  /// Times that a record is executed from the same bytes, for equal bits.
  int64_t repeat = 1;
  unsigned threads = 0;
  ::binade::Notify notify;
  /// Told of each execution: its number in the step, and how many there are.
  std::function<void(int64_t, int64_t)> progress;
};

class Verification {
public:
  /// `context` has Binade's dialects and outlives the object.
  static ::binade::Result<Verification> create(const std::string &path,
                                               const VerifyOptions &options,
                                               MLIRContext &context);
  Verification(Verification &&) noexcept;
  ~Verification();

  /// The program whose numbers both sides start from: to be initialized, and
  /// to be given a batch before each run.
  ::binade::Program &getProgram();
  /// What is compared, for people: "the simulator with the CPU".
  std::string describe() const;

  ::binade::Result<void> runStep() { return run(::binade::RecordList::Step); }
  ::binade::Result<void> runAccumulation() {
    return run(::binade::RecordList::Accumulation);
  }
  ::binade::Result<void> runEvaluation() {
    return run(::binade::RecordList::Evaluation);
  }

  /// Empty for a bundle for the CPU.
  const std::optional<ModuleReport> &getModules() const;
  /// In the order of their first execution.
  std::vector<RecordReport> getRecords() const;

  /// Writes what was kept, for comparisons without a compiler (Expectations.h).
  ::binade::Result<void> save(const std::string &path) const;

private:
  struct Implementation;
  explicit Verification(std::unique_ptr<Implementation> implementation);
  ::binade::Result<void> run(::binade::RecordList list);
  std::unique_ptr<Implementation> implementation;
};

} // namespace mlir::binade

#endif // BINADE_VERIFICATION_VERIFICATION_H
