//===- Policy.cpp - Fuzz the policy parser --------------------------------===//

#include "binade/Precision/Policy.h"
#include "Context.h"

void binade::fuzz::readPolicy(Bytes bytes) {
  Context &context = Context::get();
  auto text = mlir::StringAttr::get(&context.mlir, toText(bytes));
  auto name = mlir::StringAttr::get(&context.mlir, "f.yaml");
  auto policy = mlir::binade::readPolicy(mlir::binade::PolicyAttr::get(
      &context.mlir, name, /*hash=*/name, text, /*costs=*/{}, /*extends=*/{}));
  context.checkResult(failed(policy));
}
