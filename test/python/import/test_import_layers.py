"""Imported layers (matmuls, convolutions, pools, norms, losses, attention) compute the
values of the onnx package's reference evaluator."""

import pytest
from support.imported_graphs import EVAL, TRANSLATE, check_outputs

pytestmark = pytest.mark.skipif(
    not (TRANSLATE.exists() and EVAL.exists()), reason="the tools are not built"
)

# name: (opset, graph). Integer inputs are drawn below the number in their name
# ("labels_below_5"), booleans at random, floats from a normal distribution.
CASES = {
    "gemm": (
        13,
        """g (float[3,4] x, float[4,5] w, float[5,4] v, float[5] b, float[3,1] c,
            float[1,5] d, float e) => (float[3,5] a, float[3,5] f, float[3,5] h,
            float[3,5] i, float[3,5] j) {
          a = Gemm(x, w)  f = Gemm <transB = 1> (x, v, b)
          h = Gemm <alpha = 0.5, beta = 2.0> (x, w, c)  i = Gemm <beta = 3.0> (x, w, d)
          t = Transpose(x)  j = Gemm <transA = 1, alpha = 2.0> (t, w, e)
        }""",
    ),
    "gemm_of_one_column": (
        13,
        """g (float[3,4] x, float[4,1] w, float[3,1] c, float[1] b) => (float[3,1] a,
            float[3,1] d) {
          a = Gemm(x, w, c)  d = Gemm(x, w, b)
        }""",
    ),
    "matmul": (
        20,
        """g (float[2,3,4] x, float[4,5] w, float[2,4,5] y, float[1,4,5] z, float[4] v,
            float[6,1,3,4] q) => (float[2,3,5] a, float[2,3,5] b, float[2,3,5] c,
            float[2,3] d, float[2,5] e, float[6,2,3,5] f, float h) {
          a = MatMul(x, w)  b = MatMul(x, y)  c = MatMul(x, z)  d = MatMul(x, v)
          e = MatMul(v, y)  f = MatMul(q, y)  h = MatMul(v, v)
        }""",
    ),
    "matmul_of_transposed": (
        20,
        """g (float[2,3,4] x, float[5,4] w, float[2,5,4] y, float[2,4,3] z) =>
            (float[2,3,5] a, float[2,3,5] b, float[2,3,5] c) {
          wt = Transpose(w)  a = MatMul(x, wt)
          yt = Transpose <perm = [0, 2, 1]> (y)  b = MatMul(x, yt)
          zt = Transpose <perm = [0, 2, 1]> (z)  c = MatMul(zt, yt)
        }""",
    ),
    "conv_2d": (
        20,
        """g (float[2,4,7,6] x, float[6,2,3,2] w, float[6] b, float[3,4,3,3] v) =>
            (float[2,6,4,3] a, float[2,3,5,4] c, float[2,3,7,6] d, float[2,3,4,3] e,
             float[2,3,4,3] f) {
          a = Conv <group = 2, strides = [2, 2], pads = [1, 0, 1, 1]> (x, w, b)
          c = Conv(x, v)  d = Conv <pads = [2, 2, 2, 2], dilations = [2, 2]> (x, v)
          e = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, v)
          f = Conv <auto_pad = "SAME_LOWER", strides = [2, 2]> (x, v)
        }""",
    ),
    "conv_1d_and_3d": (
        20,
        """g (float[2,3,8] x, float[4,3,3] w, float[1,2,4,4,4] y, float[2,1,2,2,2] v) =>
            (float[2,4,6] a, float[1,2,3,3,3] b) {
          a = Conv <auto_pad = "VALID"> (x, w)  b = Conv <group = 2> (y, v)
        }""",
    ),
    "pools": (
        20,
        """g (float[2,3,6,7] x) => (float[2,3,3,3] a, float[2,3,3,4] b, float[2,3,5,6] c,
            float[2,3,3,4] d, float[2,3,3,4] e, float[2,3,1,1] f) {
          a = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
          b = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)
          c = AveragePool <kernel_shape = [2, 2]> (x)
          d = AveragePool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)
          e = AveragePool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1],
                           count_include_pad = 1> (x)
          f = GlobalAveragePool(x)
        }""",
    ),
    "reductions": (
        20,
        """g (float[2,3,4] x) => (float[1,1,1] a, float[2,4] b, float[2,1,4] c, float[3] d,
            float[2,3,4] e, float[2,3] f)
          <int64[1] one = {1}, int64[2] ends = {0, -1}, int64[1] last = {-1},
           int64[0] none = {}> {
          a = ReduceSum(x)  b = ReduceMean <keepdims = 0> (x, one)  c = ReduceMax(x, one)
          d = ReduceSum <keepdims = 0> (x, ends)
          e = ReduceSum <noop_with_empty_axes = 1> (x, none)
          f = ReduceMin <keepdims = 0> (x, last)
        }""",
    ),
    "reductions_of_old_opset": (
        13,
        """g (float[2,3,4] x) => (float[2,1,4] a, float[2,3] b) {
          a = ReduceMean <axes = [1]> (x)  b = ReduceMax <axes = [-1], keepdims = 0> (x)
        }""",
    ),
    "softmax": (
        13,
        """g (float[2,3,4] x) => (float[2,3,4] a, float[2,3,4] b, float[2,3,4] c) {
          a = Softmax(x)  b = Softmax <axis = 1> (x)  c = LogSoftmax <axis = 0> (x)
        }""",
    ),
    "layer_norm": (
        17,
        """g (float[2,3,4] x, float[4] s, float[4] b, float[3,4] t) => (float[2,3,4] a,
            float[2,3,4] c, float[2,3,4] d, float[2,3,1] m) {
          a, m = LayerNormalization <epsilon = 0.1> (x, s, b)
          c = LayerNormalization <axis = 1> (x, t)
          d = LayerNormalization <axis = -2> (x, t, t)
        }""",
    ),
    "layer_norm_from_primitives": (
        13,
        """g (float[2,3,4] x, float[4] s, float[4] b) => (float[2,3,4] y)
          <float two = {2.0}, float epsilon = {0.001}> {
          m = ReduceMean <axes = [-1]> (x)  d = Sub(x, m)  p = Pow(d, two)
          v = ReduceMean <axes = [-1]> (p)  e = Add(v, epsilon)  r = Sqrt(e)
          n = Div(d, r)  t = Mul(n, s)  y = Add(t, b)
        }""",
    ),
    "batch_norm_inference": (
        15,
        """g (float[4,3,2,2] x, float[3] s, float[3] b, float[3] m) => (float[4,3,2,2] y)
          <float[3] v = {0.5, 1.0, 2.0}> {
          y = BatchNormalization <epsilon = 0.01> (x, s, b, m, v)
        }""",
    ),
    "batch_norm_training": (
        15,
        """g (float[4,3,2,2] x, float[3] s, float[3] b, float[3] m, float[3] v) =>
            (float[4,3,2,2] y, float[3] nm, float[3] nv) {
          y, nm, nv = BatchNormalization <epsilon = 0.01, momentum = 0.75,
                                          training_mode = 1> (x, s, b, m, v)
        }""",
    ),
    "cross_entropy": (
        13,
        """g (float[6,5] x, int64[6] n_below_5) => (float a, float b, float[6] c, float d,
            float[6,5] e) {
          a = SoftmaxCrossEntropyLoss(x, n_below_5)
          b = SoftmaxCrossEntropyLoss <reduction = "sum"> (x, n_below_5)
          c = SoftmaxCrossEntropyLoss <reduction = "none"> (x, n_below_5)
          d, e = SoftmaxCrossEntropyLoss <ignore_index = 2> (x, n_below_5)
        }""",
    ),
    "cross_entropy_of_images": (
        13,
        """g (float[2,5,3,2] x, int64[2,3,2] n_below_5) => (float a, float[2,3,2] b,
            float[2,5,3,2] c) {
          a = SoftmaxCrossEntropyLoss <ignore_index = 0> (x, n_below_5)
          b, c = SoftmaxCrossEntropyLoss <reduction = "none"> (x, n_below_5)
        }""",
    ),
    "negative_log_likelihood": (
        13,
        """g (float[6,5] x, float[2,5,3] y, int64[6] n_below_5, int64[2,3] m_below_5) =>
            (float a, float b, float[2,3] c, float d) {
          l = LogSoftmax <axis = 1> (x)  a = NegativeLogLikelihoodLoss(l, n_below_5)
          b = NegativeLogLikelihoodLoss <ignore_index = 1> (y, m_below_5)
          c = NegativeLogLikelihoodLoss <reduction = "none"> (y, m_below_5)
          d = NegativeLogLikelihoodLoss <ignore_index = 3> (l, n_below_5)
        }""",
    ),
    "attention_decomposed": (
        20,
        """g (float[2,3,4,5] q, float[2,3,4,5] k, float[2,3,4,6] v) => (float[2,3,4,6] y)
          <int64[2] shape = {4, 4}, float low = {-3.0e38}, float root = {2.2360679775}> {
          one = ConstantOfShape <value = float[1] {1.0}> (shape)
          upper = Trilu <upper = 1> (one, diagonal)  mask = Mul(upper, low)
          kt = Transpose <perm = [0, 1, 3, 2]> (k)  s = MatMul(q, kt)
          d = Div(s, root)  m = Add(d, mask)  p = Softmax(m)  y = MatMul(p, v)
          diagonal = Constant <value_int = 1> ()
        }""",
    ),
    "attention": (
        23,
        """g (float[2,3,4,5] q, float[2,3,4,5] k, float[2,3,4,6] v, float[2,4,6] r) =>
            (float[2,3,4,6] a, float[2,3,4,6] b, float[2,4,6] c) {
          a = Attention(q, k, v)
          b = Attention <is_causal = 1, scale = 0.3> (q, k, v)
          c = Attention <q_num_heads = 2, kv_num_heads = 2> (r, r, r)
        }""",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_outputs(name, tmp_path):
    check_outputs(name, *CASES[name], tmp_path)
