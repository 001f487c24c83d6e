//===- RuleLibrary.h - the optimizers that exist ----------------*- C++ -*-===//

#ifndef BINADE_OPTIMIZER_RULELIBRARY_H
#define BINADE_OPTIMIZER_RULELIBRARY_H

#include "binade/IR/Binade.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include <memory>

namespace mlir::binade {

/// A rule: a module that holds one `binade.optimizer` and its functions.
struct Rule {
  OwningOpRef<ModuleOp> module;
  OptimizerOp optimizer;
  /// For the kinds of parameters that this one is not for; or null.
  std::unique_ptr<Rule> others;
};

/// The setting whose value is a name: that of a rule's `prepare`.
inline constexpr StringLiteral kFormSetting = "form";

/// The rule of a model that came without one, where none is named.
inline constexpr StringLiteral kDefaultRule = "adamw";

/// Names of the rules that Binade ships, sorted.
std::vector<StringRef> getRuleNames();

/// What stands before and behind the `:` of "tiger:cv".
std::pair<StringRef, StringRef> splitVariant(StringRef optimizer);

/// The rule called `name`, or the one in the file `name` (when it ends in
/// .mlir). Emits a diagnostic that lists the names when there is none, or when
/// the file's functions do not fit its states and hyper-parameters.
FailureOr<Rule> loadRule(StringRef name, MLIRContext *context);

/// Values of hyper-parameters by name.
using Settings = llvm::StringMap<double>;

/// What the variant `name` of `rule` sets, by setting. Emits at `location` that
/// there is none.
FailureOr<DictionaryAttr> findVariant(OptimizerOp rule, StringRef name,
                                      Location location);

/// What the settings of `optimizer` ("adamw", "tiger:cv", "own.mlir") are
/// where nobody sets them. Emits what is wrong with the name or the file.
FailureOr<Settings> getDefaults(StringRef optimizer, MLIRContext *context);

/// A copy of the rule `name` in `module`, with `settings` for defaults; one
/// that is there already where all of them and the formulas agree. Null where
/// the rule does not allow a value.
FailureOr<OptimizerOp> addRule(ModuleOp module, StringRef name,
                               const Settings &settings);

} // namespace mlir::binade

#endif // BINADE_OPTIMIZER_RULELIBRARY_H
