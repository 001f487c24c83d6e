//===- PortAttributes.h - Attributes of arguments and results ---*- C++ -*-===//

#ifndef BINADE_IR_PORTATTRIBUTES_H
#define BINADE_IR_PORTATTRIBUTES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// Changes attributes of many arguments and results of a function. MLIR stores
/// those of all arguments in one attribute, which each single change would
/// copy.
class PortAttributes {
public:
  explicit PortAttributes(func::FuncOp function);

  /// Sets an attribute, or removes it if `value` is null.
  void setOfArgument(unsigned index, StringRef name, Attribute value);
  void setOfResult(unsigned index, StringRef name, Attribute value);

  /// Writes the changes to the function, whose arguments and results must have
  /// the same indices as before.
  void apply();

private:
  func::FuncOp function;
  SmallVector<DictionaryAttr> ofArguments, ofResults;
};

} // namespace mlir::binade

#endif // BINADE_IR_PORTATTRIBUTES_H
