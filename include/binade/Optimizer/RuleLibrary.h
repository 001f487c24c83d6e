//===- RuleLibrary.h - The shipped optimizer rules --------------*- C++ -*-===//

#ifndef BINADE_OPTIMIZER_RULELIBRARY_H
#define BINADE_OPTIMIZER_RULELIBRARY_H

#include "binade/IR/Binade.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include <memory>

namespace mlir::binade {

/// A rule: a module that contains one `binade.optimizer` and its functions.
struct Rule {
  OwningOpRef<ModuleOp> module;
  OptimizerOp optimizer;
  /// The rule for the kinds of parameters that this one does not update; or
  /// null.
  std::unique_ptr<Rule> others;
};

/// The setting that selects a form of a rule's `prepare` by name.
inline constexpr StringLiteral kFormSetting = "form";

/// The rule for models without imported updates, if the user names none.
inline constexpr StringLiteral kDefaultRule = "adamw";

/// Returns the names of the rules that Binade ships, sorted.
std::vector<StringRef> getRuleNames();

/// Returns the texts before and after the `:` of "tiger:cv".
std::pair<StringRef, StringRef> splitVariant(StringRef optimizer);

/// Loads the rule called `name`, or the file `name` if that ends in .mlir.
/// Emits an error, with the known names if there is no such rule, or if the
/// file's functions do not fit its states and hyper-parameters.
FailureOr<Rule> loadRule(StringRef name, MLIRContext *context);

/// Values of hyper-parameters by name.
using Settings = llvm::StringMap<double>;

/// Returns the values that the variant `name` of `rule` sets. Emits an error at
/// `location` if there is no such variant.
FailureOr<DictionaryAttr> findVariant(OptimizerOp rule, StringRef name,
                                      Location location);

/// Returns the default values of the settings of `optimizer` ("adamw",
/// "tiger:cv", "own.mlir"). Emits an error about the name or the file.
FailureOr<Settings> getDefaults(StringRef optimizer, MLIRContext *context);

/// Copies the rule `name` into `module`, with `settings` as defaults. Returns
/// an existing rule if it has the same defaults and formulas, and null if the
/// rule does not allow a value.
FailureOr<OptimizerOp> addRule(ModuleOp module, StringRef name,
                               const Settings &settings);

} // namespace mlir::binade

#endif // BINADE_OPTIMIZER_RULELIBRARY_H
