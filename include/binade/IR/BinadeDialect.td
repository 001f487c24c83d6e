//===- BinadeDialect.td - the dialect and its op base classes -------------===//

#ifndef BINADE_IR_BINADEDIALECT_TD
#define BINADE_IR_BINADEDIALECT_TD

include "mlir/IR/OpBase.td"

def Binade_Dialect : Dialect {
  let name = "binade";
  let cppNamespace = "::mlir::binade";
  let summary = "training graphs with explicit numeric precision";
  let description = [{
    Tensor ops with value semantics for whole training steps: forward pass, backward pass,
    loss scaling, optimizer updates. Shapes are static. An op is one entry of the lists of
    mixed precision, such as a matmul, a softmax or a layer norm.

    The number formats are part of the IR. A decision (`#binade.precision`) is an attribute
    of an op; after `binade-materialize-precision` every conversion is a `binade.cast`. A
    value is rounded to a narrower format where the IR says so, and nowhere else: in general
    an op widens its operands to f32, computes in f32, and rounds each result once to its
    element type.

    Arguments and results of a program have the attributes `binade.role` and `binade.name`.
    After a step, a result replaces the argument of the same role and name. The attribute
    `binade.phase` of an op is the part of the step that it belongs to, forward by default.
    The location of an op names the node of the imported graph.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    /// Reports an unknown op, with the nearest name.
    ::std::optional<ParseOpHook>
    getParseOperationHook(::llvm::StringRef name) const override;
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::math::MathDialect"];
}

// Rejects attributes without a dialect's prefix that the op does not declare: such a
// misspelled attribute would have no effect.
def OnlyDeclaredAttributes : NativeOpTrait<"OnlyDeclaredAttributes"> {
  let cppNamespace = "::mlir::binade";
}

class Binade_Op<string mnemonic, list<Trait> traits = []>
    : Op<Binade_Dialect, mnemonic, !listconcat([OnlyDeclaredAttributes], traits)>;

#endif // BINADE_IR_BINADEDIALECT_TD
