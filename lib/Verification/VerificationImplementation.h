//===- VerificationImplementation.h - Verification members ------*- C++ -*-===//

#ifndef BINADE_LIB_VERIFICATION_VERIFICATIONIMPLEMENTATION_H
#define BINADE_LIB_VERIFICATION_VERIFICATIONIMPLEMENTATION_H

#include "Expectations.h"
#include "binade/Verification/Verification.h"
#include "mlir/IR/OwningOpRef.h"
#include <map>

namespace mlir::binade {

struct Verification::Implementation {
  VerifyOptions options;
  std::string where;
  ::binade::Plan plan; ///< The plan of the bundle.
  OwningOpRef<ModuleOp> source;
  std::optional<ModuleReport> modules;
  std::vector<std::string> code; ///< IR of the modules.
  /// The bundle if it is for the CPU, else its CPU reference.
  std::optional<::binade::Program> cpu;
  std::optional<::binade::Program> device; ///< Not set with the simulator.
  std::unique_ptr<::binade::RecordRunner> cpuRunner;
  /// Null for a bundle for the CPU.
  std::unique_ptr<::binade::RecordRunner> deviceRunner;
  std::optional<Expectations> expectations; ///< Set if they will be saved.
  std::vector<uint32_t> statuses;           ///< Buffers of index faults.
  /// Indices in `reports`.
  std::map<const ::binade::plan::Record *, size_t> places;
  std::vector<RecordReport> reports;
  int64_t step = 0, executed = 0, executions = 0;

  // Loading.
  ::binade::Result<void> load(const std::string &path, MLIRContext &context);
  ::binade::Result<void> loadForCpu(const std::string &path);
  ::binade::Result<void> loadForDevice(const ::binade::Safetensors &file,
                                       const std::string &path,
                                       MLIRContext &context);
  ::binade::Result<void> readSource(const ::binade::Safetensors &file,
                                    MLIRContext &context);
  ::binade::Result<void>
  compareModules(const std::vector<::binade::ModuleImages> &images,
                 MLIRContext &context);
  ::binade::Result<void> loadCpuReference(const ::binade::Safetensors &file,
                                          MLIRContext &context);
  ::binade::LoadOptions getLoadOptions() const;
  ::binade::Result<void> checkOnly() const;

  // Running.
  /// The index of an access, and a difference in it.
  using Found = std::pair<size_t, Difference>;
  ::binade::Result<void> run(const std::vector<::binade::plan::Record> &records,
                             ::binade::RecordPlace &place);
  ::binade::Result<void> execute(const ::binade::plan::Record &record,
                                 const ::binade::RecordPlace &place);
  ::binade::Result<void> expect(Execution &execution,
                                const ::binade::RecordPlace &place,
                                RecordReport &report);
  ::binade::Result<void> compare(const ::binade::plan::Record &record,
                                 const ::binade::RecordPlace &place);
  ::binade::Result<void> restore(::binade::RecordRunner &runner,
                                 const Execution &execution);
  ::binade::Result<std::vector<Bytes>>
  runWatched(const Execution &execution, const ::binade::RecordPlace &place);
  ::binade::Result<std::vector<Bytes>>
  runFrom(::binade::RecordRunner &runner, const Execution &execution,
          const ::binade::RecordPlace &place);
  ::binade::Result<std::optional<Found>>
  runRepeatedly(Execution &execution, const ::binade::RecordPlace &place);
  ::binade::Result<std::optional<Found>>
  compareWithCpu(const Execution &execution,
                 const ::binade::RecordPlace &place);
  ::binade::Result<std::optional<Found>>
  compareWithReference(const Execution &execution, RecordReport &report);
  ::binade::Result<void> clearStatuses(::binade::RecordRunner &runner);
  ::binade::Result<std::optional<Difference>> compareStatuses();
  void note(RecordReport &report, const ::binade::RecordPlace &place,
            const RecordAccess &access, Difference difference);
  RecordReport &getReport(const ::binade::plan::Record &record);
};

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_VERIFICATIONIMPLEMENTATION_H
