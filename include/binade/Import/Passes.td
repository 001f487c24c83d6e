//===- Passes.td - passes of the Import station ---------------------------===//

#ifndef BINADE_IMPORT_PASSES_TD
#define BINADE_IMPORT_PASSES_TD

include "mlir/Pass/PassBase.td"

def RecognizeCompositesPass
    : Pass<"binade-recognize-composites", "::mlir::func::FuncOp"> {
  let summary = "rewrite spelled-out composites to the ops that they are";
  let description = [{
    Exporters spell some functions out op by op. Policies, adjoints and kernels
    know them by name, so each is put together again:

    - `gelu`: `x 0.5 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))` and `x 0.5 (1 +
      erf(x / sqrt(2)))`, their products in any order;
    - `attention`: `softmax(scale q k^T + mask) v`, without a mask or with a constant
      one that hides exactly the later positions (-inf, or at most -1e30);
    - `layer_norm`: mean, variance, root and the affine part;
    - the bias of `matmul`: one number per column, added to the product.

    Constants have to be equal to the last bit to those of the function, rounded to
    the tensor's format, and no value inside the composite may have another use. What
    differs stays as it is.

    The new op's location names all nodes that it stands for, the last one first.

    Example:

    ```mlir
    %h = binade.mul %x, %half : ...
    %d = binade.div %x, %root2 : ...      // 1.41421354
    %e = binade.erf %d : ...
    %s = binade.add %e, %one : ...
    %y = binade.mul %h, %s : ...          // becomes binade.gelu %x
    ```
  }];
}

#endif // BINADE_IMPORT_PASSES_TD
