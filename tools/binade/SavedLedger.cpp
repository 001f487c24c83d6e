//===- SavedLedger.cpp - List values saved for the backward pass ----------===//

#include "SavedLedger.h"
#include "Table.h"
#include "binade/Container/Numbers.h"
#include "binade/IR/Interface.h"
#include "binade/Precision/StateFormats.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::formatBytes;

static SmallVector<SavedAttr> getValues(ModuleOp module) {
  auto list = module->getAttrOfType<ArrayAttr>(kSavedAttr);
  if (!list)
    return {};
  auto values = list.getAsRange<SavedAttr>();
  return {values.begin(), values.end()};
}

static StringRef describe(SavedChoice choice) {
  switch (choice) {
  case SavedChoice::Keep:
    return "kept";
  case SavedChoice::Quantize:
    return "quantized";
  case SavedChoice::Recompute:
    return "recomputed";
  }
  llvm_unreachable("all choices are listed");
}

void printSavedTotals(llvm::raw_ostream &out, ModuleOp module) {
  struct Sum {
    size_t values = 0;
    uint64_t bytes = 0, bytesAsIs = 0;
    void add(SavedAttr value) {
      ++values;
      bytes += value.getBytes();
      bytesAsIs += value.getBytesAsIs();
    }
  };
  SmallVector<SavedAttr> values = getValues(module);
  if (values.empty())
    return;
  std::vector<std::vector<std::string>> table = {
      {"saved for the backward pass", "values", "bytes", "without a budget"}};
  auto list = [&](StringRef name, const Sum &sum) {
    table.push_back({name.str(), std::to_string(sum.values),
                     formatBytes(sum.bytes), formatBytes(sum.bytesAsIs)});
  };
  Sum total;
  for (SavedChoice choice :
       {SavedChoice::Keep, SavedChoice::Recompute, SavedChoice::Quantize}) {
    Sum sum;
    for (SavedAttr value : values)
      if (value.getChoice() == choice) {
        sum.add(value);
        total.add(value);
      }
    list(describe(choice), sum);
  }
  list("total", total);
  printTable(out, table, 1);
}

static std::string describeElement(SavedAttr value) {
  return llvm::to_string(getElementTypeOrSelf(value.getType()));
}

static std::string describeKept(SavedAttr value) {
  if (value.getChoice() == SavedChoice::Quantize)
    return describeFormat(value.getFormat());
  return describe(value.getChoice()).str();
}

void printSavedValues(llvm::raw_ostream &out, ModuleOp module) {
  std::vector<std::vector<std::string>> table = {
      {"value", "format", "saved as", "bytes", "without a budget"}};
  for (SavedAttr value : getValues(module))
    table.push_back({value.getName().str(), describeElement(value),
                     describeKept(value), formatBytes(value.getBytes()),
                     formatBytes(value.getBytesAsIs())});
  printTable(out, table, 3);
}

llvm::json::Value toJson(ModuleOp module) {
  llvm::json::Array values;
  for (SavedAttr value : getValues(module))
    values.push_back(
        llvm::json::Object{{"value", value.getName().getValue()},
                           {"type", llvm::to_string(value.getType())},
                           {"choice", stringifySavedChoice(value.getChoice())},
                           {"bytes", value.getBytes()},
                           {"bytes_as_is", value.getBytesAsIs()}});
  return values;
}
