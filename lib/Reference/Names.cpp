//===- Names.cpp - Names of inputs and outputs ----------------------------===//

#include "binade/IR/Interface.h"
#include "binade/Reference/Interpreter.h"

using namespace mlir;
using namespace mlir::binade;

template <typename Get>
static SmallVector<std::string> getNames(unsigned count, StringRef kind,
                                         Get getAttributes) {
  SmallVector<std::string> names;
  llvm::StringMap<unsigned> uses;
  for (unsigned i = 0; i < count; ++i) {
    DictionaryAttr attributes = getAttributes(i);
    auto name = attributes ? attributes.getAs<StringAttr>(kNameAttr) : nullptr;
    names.push_back(name ? name.str() : (kind + Twine(i)).str());
    ++uses[names.back()];
  }
  for (unsigned i = 0; i < count; ++i) {
    DictionaryAttr attributes = getAttributes(i);
    auto role = attributes ? attributes.getAs<RoleAttr>(kRoleAttr) : nullptr;
    if (role && uses[names[i]] > 1)
      names[i] = (stringifyRole(role.getValue()) + "/" + names[i]).str();
  }
  return names;
}

SmallVector<std::string> mlir::binade::getArgumentNames(func::FuncOp function) {
  return getNames(function.getNumArguments(), "arg",
                  [&](unsigned i) { return function.getArgAttrDict(i); });
}

SmallVector<std::string> mlir::binade::getResultNames(func::FuncOp function) {
  return getNames(function.getNumResults(), "result",
                  [&](unsigned i) { return function.getResultAttrDict(i); });
}
