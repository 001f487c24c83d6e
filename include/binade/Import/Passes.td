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
    - `silu`: `x sigmoid(x)`;
    - `attention`: `softmax(scale q k^T + mask) v`, without a mask or with a constant
      one that hides exactly the later positions (-inf, or at most -1e30);
    - `layer_norm`: `(x - mean) / sqrt(variance + epsilon) scale + bias` over the last
      axes, in any order of sums and products; scale and bias that are of channels, as
      in a group or instance norm, stay ops of their own behind it;
    - `rms_norm`: `x / sqrt(mean(x^2) + epsilon) scale` over the last axes, likewise;
    - `batch_norm` and `batch_norm_statistics`: the same over all axes but one, of f32;
    - `softmax` and `log_softmax`: over one axis, of `x - max(x)`;
    - `cross_entropy`: the negative logarithm of softmax at the label;
    - the bias of `matmul`: one number per column, added to the product.

    Constants have to be equal to the last bit to those of the function, rounded to
    the tensor's format, and no value inside the composite may have another use. Only
    the statistics of a batch may have one, by running statistics, on which no loss
    depends. What differs stays as it is.

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
  let options = [
    Option<"dropped", "dropped", "bool", "false",
           "Only where a backward part was dropped, which read values inside">
  ];
}

#endif // BINADE_IMPORT_PASSES_TD
