//===- VerifyReport.cpp - what a verification found -----------------------===//

#include "VerifyReport.h"
#include "binade/Container/Printable.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace mlir::binade;
using llvm::formatv;

bool areEqual(const Verification &verification) {
  const std::optional<ModuleReport> &modules = verification.getModules();
  return (!modules || modules->otherPtx.empty()) &&
         llvm::none_of(verification.getRecords(), [](const RecordReport &r) {
           return r.difference.has_value();
         });
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static void printModules(const ModuleReport &modules) {
  llvm::outs() << formatv("{0} modules, ", modules.modules);
  if (modules.otherPtx.empty())
    llvm::outs() << "all with the PTX that their source compiles to\n";
  else
    llvm::outs() << "with other PTX than their source compiles to: "
                 << ::binade::printable(llvm::join(modules.otherPtx, ", "))
                 << "\n";
  if (modules.machineCode == 0)
    llvm::outs() << "machine code was not compared: there is none, or no "
                    "ptxas to assemble it again\n";
  else if (!modules.otherMachineCode.empty())
    llvm::outs() << "machine code of another ptxas, or edited: "
                 << ::binade::printable(
                        llvm::join(modules.otherMachineCode, ", "))
                 << "\n";
}

static std::string describePlace(const RecordReport &record) {
  std::string place = "step " + std::to_string(record.step);
  for (int64_t iteration : record.iteration)
    place += ", iteration " + std::to_string(iteration);
  return place;
}

static void print(const RecordReport &record) {
  const Difference &found = *record.difference;
  std::string label = ::binade::printable(record.label);
  llvm::outs() << formatv("{0} ({1}), {2}: {3}\n", label, record.kind,
                          describePlace(record), found.what);
  llvm::outs() << formatv("  {0}, element {1}: {2:g9} for {3:g9}", found.buffer,
                          found.element, found.value, found.expected);
  if (found.bound)
    llvm::outs() << formatv(" +- {0:g3}\n", *found.bound);
  else
    llvm::outs() << formatv(" ({0}), {1} ulp; {2} of {3} elements differ\n",
                            name(found.dtype), found.ulps, found.different,
                            found.elements);
}

void printReport(const Verification &verification) {
  if (verification.getModules())
    printModules(*verification.getModules());
  constexpr size_t kShown = 20;
  size_t equal = 0, within = 0, different = 0;
  double ratio = 0;
  std::vector<RecordReport> records = verification.getRecords();
  for (const RecordReport &record : records) {
    if (record.difference) {
      if (++different <= kShown)
        print(record);
    } else if (record.equal == record.executions) {
      ++equal;
    } else {
      ++within;
      ratio = std::max(ratio, record.ratio);
    }
  }
  if (different > kShown)
    llvm::outs() << formatv("and {0} more records differ\n",
                            different - kShown);
  llvm::outs() << formatv("{0} of {1} records have equal bits", equal,
                          records.size());
  if (within)
    llvm::outs() << formatv(", {0} are within the bound ({1:f2} of it at most)",
                            within, ratio);
  if (different)
    llvm::outs() << formatv(", {0} differ", different);
  llvm::outs() << "\n";
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

/// JSON has no NaN and no infinity.
static llvm::json::Value writeNumber(double number) {
  if (std::isfinite(number))
    return number;
  return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

static llvm::json::Object writeDifference(const RecordReport &record) {
  const Difference &found = *record.difference;
  llvm::json::Object written{
      {"what", found.what},
      {"buffer", llvm::json::fixUTF8(found.buffer)},
      {"dtype", llvm::StringRef(name(found.dtype))},
      {"element", found.element},
      {"value", writeNumber(found.value)},
      {"expected", writeNumber(found.expected)},
      {"step", record.step},
      {"iteration", llvm::json::Array(record.iteration)}};
  if (found.bound) {
    written["bound"] = writeNumber(*found.bound);
  } else {
    written["ulps"] = writeNumber(found.ulps);
    written["different"] = found.different;
    written["elements"] = found.elements;
  }
  return written;
}

llvm::json::Value toJson(const Verification &verification) {
  llvm::json::Array records;
  for (const RecordReport &record : verification.getRecords()) {
    llvm::json::Object written{{"label", llvm::json::fixUTF8(record.label)},
                               {"kind", llvm::StringRef(record.kind)},
                               {"kernel", llvm::json::fixUTF8(record.kernel)},
                               {"executions", record.executions},
                               {"equal", record.equal},
                               {"ratio", writeNumber(record.ratio)}};
    if (record.difference)
      written["difference"] = writeDifference(record);
    records.push_back(std::move(written));
  }
  llvm::json::Object report{{"compared", verification.describe()},
                            {"equal", areEqual(verification)},
                            {"records", std::move(records)}};
  if (const auto &modules = verification.getModules())
    report["modules"] = llvm::json::Object{
        {"count", modules->modules},
        {"machine_code", modules->machineCode},
        {"other_ptx", llvm::json::Array(modules->otherPtx)},
        {"other_machine_code", llvm::json::Array(modules->otherMachineCode)}};
  return report;
}
