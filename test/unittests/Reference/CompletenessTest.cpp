//===- CompletenessTest.cpp - every op has a meaning ----------------------===//

#include "binade/Reference/Reference.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::binade;

TEST(Completeness, EveryOpHasAFunction) {
  // Names a rule, which other ops evaluate.
  const StringRef declaration = "binade.optimizer";
  MLIRContext context;
  context.loadDialect<BinadeDialect>();
  unsigned count = 0;
  for (RegisteredOperationName op : context.getRegisteredOperations()) {
    if (op.getDialectNamespace() != BinadeDialect::getDialectNamespace())
      continue;
    ++count;
    bool isKnown = Reference::get().find(op.getStringRef());
    EXPECT_NE(isKnown, op.getStringRef() == declaration)
        << op.getStringRef().str()
        << (isKnown ? " is declared to have no function"
                    : " has no function in lib/Reference");
  }
  EXPECT_GT(count, 50u);
}
