//===- ExchangeEnums.td - enumerations of exchanges -----------------------===//

#ifndef BINADE_IR_OPS_EXCHANGEENUMS_TD
#define BINADE_IR_OPS_EXCHANGEENUMS_TD

include "mlir/IR/EnumAttr.td"

// The format in which gradients travel.
def Binade_ExchangeFormat : I32EnumAttr<"ExchangeFormat",
    "format in which gradients are exchanged", [
      I32EnumAttrCase<"F32", 0, "f32">,
      I32EnumAttrCase<"BF16", 1, "bf16">,
      I32EnumAttrCase<"E4M3", 2, "e4m3">,
      I32EnumAttrCase<"Exact", 3, "exact">,
    ]> {
  let cppNamespace = "::mlir::binade";
}

#endif // BINADE_IR_OPS_EXCHANGEENUMS_TD
