//===- Passes.td - Import passes ------------------------------------------===//

#ifndef BINADE_IMPORT_PASSES_TD
#define BINADE_IMPORT_PASSES_TD

include "mlir/Pass/PassBase.td"

def RecognizeCompositesPass
    : Pass<"binade-recognize-composites", "::mlir::func::FuncOp"> {
  let summary = "Replace decomposed composites by single ops";
  let description = [{
    Exporters decompose some functions into elementary ops: a GELU becomes five nodes of
    an ONNX graph, a layer norm nine. Precision policies, adjoints and kernels know these
    functions as ops of their own.

    The pass replaces each decomposition by the op that it computes:

    - `gelu`: `x 0.5 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))` and `x 0.5 (1 +
      erf(x / sqrt(2)))`, with the factors in any order;
    - `silu`: `x sigmoid(x)`;
    - `attention`: `softmax(scale q k^T + mask) v`, without a mask or with a constant
      causal mask (-inf, or at most -1e30, at exactly the later positions);
    - `layer_norm`: `(x - mean) / sqrt(variance + epsilon) scale + bias` over the last
      axes, with the sums and products in any order. A scale and a bias per channel, as in
      a group norm or an instance norm, stay separate ops after it;
    - `rms_norm`: `x / sqrt(mean(x^2) + epsilon) scale` over the last axes, likewise;
    - `batch_norm` and `batch_norm_statistics`: the same over all axes but one, in f32;
    - `softmax` and `log_softmax`: over one axis, of `x - max(x)`;
    - `cross_entropy`: the negative logarithm of the softmax at the label;
    - the bias of `matmul`: a vector with one element per column, added to the result.

    Constants have to equal those of the function, rounded to the format of the tensor, bit
    for bit. Intermediate values must have no other use, except for the statistics of a
    batch norm, which may also update running statistics. Anything else stays as it is.

    Example:

    ```mlir
    // Before
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %half = binade.constant dense<0.5> : tensor<8xf32>
      %one = binade.constant dense<1.0> : tensor<8xf32>
      %root = binade.constant dense<1.41421354> : tensor<8xf32>
      %h = binade.mul %x, %half : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %d = binade.div %x, %root : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %e = binade.erf %d : (tensor<8xf32>) -> tensor<8xf32>
      %s = binade.add %e, %one : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %y = binade.mul %h, %s : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      return %y : tensor<8xf32>
    }
    ```

    ```mlir
    // After
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = binade.gelu %x : (tensor<8xf32>) -> tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    ```

    Requires: an imported graph whose shapes are bound and whose constants are folded.

    Preserves: the function of real numbers; the rounding of intermediate values changes.
    The location of the new op lists all nodes that it replaces, the last one first.
  }];
  let options = [
    Option<"dropped", "dropped", "bool", "false",
           "Visit only functions whose imported backward pass was removed by "
           "binade-drop-backward: values that it read may be intermediate values of "
           "a composite now.">
  ];
}

#endif // BINADE_IMPORT_PASSES_TD
