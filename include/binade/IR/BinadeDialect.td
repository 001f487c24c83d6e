//===- BinadeDialect.td - the dialect and its op base classes -------------===//

#ifndef BINADE_IR_BINADEDIALECT_TD
#define BINADE_IR_BINADEDIALECT_TD

include "mlir/IR/OpBase.td"

def Binade_Dialect : Dialect {
  let name = "binade";
  let cppNamespace = "::mlir::binade";
  let summary = "training graphs with explicit numeric precision";
  let description = [{
    A value-semantics tensor dialect for whole training steps: forward graph,
    gradients, loss scaling and optimizer updates, at the level at which lists
    of mixed precision speak. Shapes are static. Precision is part of the IR,
    never a side table: `#binade.precision` on an op is a decision, and after
    `binade-materialize-precision` every cast is an op.

    Function arguments and results carry `binade.role` and `binade.name`; a
    result replaces the argument of the same role and name after the step.
    Every op knows its phase (`binade.phase`, forward when absent) and, by its
    location, the node of the imported graph that it came from.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = "void registerAttributes();";
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::math::MathDialect"];
}

class Binade_Op<string mnemonic, list<Trait> traits = []>
    : Op<Binade_Dialect, mnemonic, traits>;

#endif // BINADE_IR_BINADEDIALECT_TD
