//===- PortAttributes.cpp - Attributes of arguments and results -----------===//

#include "binade/IR/PortAttributes.h"

using namespace mlir;
using namespace mlir::binade;

PortAttributes::PortAttributes(func::FuncOp function) : function(function) {
  function.getAllArgAttrs(ofArguments);
  function.getAllResultAttrs(ofResults);
}

static void set(DictionaryAttr &attributes, MLIRContext *context,
                StringRef name, Attribute value) {
  NamedAttrList list(attributes);
  if (value)
    list.set(name, value);
  else
    list.erase(name);
  attributes = list.getDictionary(context);
}

void PortAttributes::setOfArgument(unsigned index, StringRef name,
                                   Attribute value) {
  set(ofArguments[index], function.getContext(), name, value);
}

void PortAttributes::setOfResult(unsigned index, StringRef name,
                                 Attribute value) {
  set(ofResults[index], function.getContext(), name, value);
}

void PortAttributes::apply() {
  function.setAllArgAttrs(ofArguments);
  function.setAllResultAttrs(ofResults);
}
