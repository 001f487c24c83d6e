//===- CompletenessTest.cpp - Every op has a reference function -----------===//

#include "binade/Reference/Reference.h"
#include "gtest/gtest.h"
#include <set>

using namespace mlir;
using namespace mlir::binade;

TEST(Completeness, EveryOpHasAFunction) {
  // Parts of other ops, which evaluate them.
  const std::set<StringRef> parts = {"binade.optimizer", "binade.yield"};
  MLIRContext context;
  context.loadDialect<BinadeDialect>();
  unsigned count = 0;
  for (RegisteredOperationName op : context.getRegisteredOperations()) {
    if (op.getDialectNamespace() != BinadeDialect::getDialectNamespace())
      continue;
    ++count;
    bool isKnown = Reference::get().find(op.getStringRef());
    EXPECT_NE(isKnown, parts.count(op.getStringRef()) == 1)
        << op.getStringRef().str()
        << (isKnown ? " is declared to have no function"
                    : " has no function in lib/Reference");
  }
  EXPECT_GT(count, 50u);
}
