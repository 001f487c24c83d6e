"""What imported graphs compute, against the evaluator of the onnx package.

Every case is a small graph. The evaluator computes its outputs from random
inputs; the reference interpreter computes the imported module's, and how far a
correct result may be from them.
"""

import shutil
import subprocess

import numpy as np
import pytest
from binade import safetensors
from support.paths import BUILD, MODELS
from support.shared_models import FOLD

onnx = pytest.importorskip("onnx")
inliner = pytest.importorskip("onnx.inliner")
from onnx.reference import ReferenceEvaluator  # noqa: E402

TRANSLATE = BUILD / "bin" / "binade-translate"
EVAL = BUILD / "bin" / "binade-eval"

pytestmark = pytest.mark.skipif(
    not (TRANSLATE.exists() and EVAL.exists()), reason="the tools are not built"
)

# name: (opset, graph). Integer inputs are drawn below the number in their name
# ("labels_below_5"), boolean ones at random, floats from a normal distribution.
CASES = {
    "unary": (
        20,
        """g (float[2,3] x) => (float[2,3] a, float[2,3] b, float[2,3] c,
            float[2,3] d, float[2,3] e, float[2,3] f, float[2,3] h, float[2,3] i) {
          a = Relu(x)  b = Tanh(x)  c = Sigmoid(x)  d = Erf(x)
          e = Exp(x)  f = Neg(x)  h = Abs(x)  i = Sign(x)
        }""",
    ),
    "positive_unary": (
        13,
        """g (float[7] x) => (float[7] a, float[7] b, float[7] c) {
          p = Exp(x)  a = Log(p)  b = Sqrt(p)  c = Reciprocal(p)
        }""",
    ),
    "gelu": (
        20,
        """g (float[9] x) => (float[9] a, float[9] b) {
          a = Gelu(x)  b = Gelu <approximate = "tanh"> (x)
        }""",
    ),
    "broadcast": (
        20,
        """g (float[2,1,4] x, float[3,1] y, float z) => (float[2,3,4] a, float[2,3,4] b,
            float[2,3,4] c, float[2,1,4] d) {
          a = Add(x, y)  b = Sub(y, x)  c = Mul(x, y)  d = Div(x, z)
        }""",
    ),
    "scalar_constants": (
        20,
        """g (float[2,3] x) => (float[2,3] y)
          <float half = {0.5}, float[1] two = {2.0}, float[3] row = {1.0, 2.0, 3.0}> {
          a = Mul(x, half)  b = Pow(a, two)  c = Add(b, row)  y = Sub(two, c)
        }""",
    ),
    "pow_of_integer_exponent": (
        15,
        """g (float[4] x) => (float[4] y) <int64 three = {3}> { y = Pow(x, three) }""",
    ),
    # Of many elements a few, picked one by one; all pairs are compared of the others.
    "few_of_many": (
        13,
        """g (float[2,90] x, float[90,2] y) => (float[2,2] a, int64[2,2] i, float[2,2] b,
            int64[2,2] j, float[2,40] c, int64[2,40] k, float[1,2] d, int64[1,2] l)
          <int64[1] two = {2}, int64[1] forty = {40}, int64[1] one = {1}> {
          tied = Round(x)
          a, i = TopK(tied, two)  b, j = TopK <largest = 0> (tied, two)
          c, k = TopK(tied, forty)  d, l = TopK <axis = 0> (y, one)
        }""",
    ),
    "min_max_sum": (
        13,
        """g (float[2,3] x, float[3] y, float[2,1] z) => (float[2,3] a, float[2,3] b,
            float[2,3] c) {
          a = Max(x, y, z)  b = Min(x, y, z)  c = Sum(x, y, z)
        }""",
    ),
    "clip": (
        13,
        """g (float[9] x) => (float[9] a, float[9] b, float[9] c)
          <float low = {-0.5}, float high = {0.25}> {
          a = Clip(x, low, high)  b = Clip(x, low)  c = Clip(x, , high)
        }""",
    ),
    "comparison": (
        20,
        """g (float[2,3] x, float[3] y) => (bool[2,3] a, bool[2,3] b, bool[2,3] c,
            bool[2,3] d, bool[2,3] e) {
          a = Less(x, y)  b = LessOrEqual(x, y)  c = Greater(x, y)
          d = GreaterOrEqual(x, y)  e = Equal(x, x)
        }""",
    ),
    "logic": (
        20,
        """g (bool[2,3] p, bool[3] q, float[2,3] x) => (float[2,3] a, bool[2,3] b,
            bool[2,3] c)
          <float zero = {0.0}> {
          n = Not(p)  o = And(n, q)  b = Or(o, p)  a = Where(o, x, zero)  c = And(b, n)
        }""",
    ),
    "cast": (
        20,
        """g (float[8] x, int64[8] n_below_3) => (int64[8] a, float[8] b, bool[8] c,
            bool[8] d, float[8] e) {
          h = Mul(x, x)  a = Cast <to = 7> (h)  b = Cast <to = 1> (n_below_3)
          c = Cast <to = 9> (n_below_3)  d = Cast <to = 9> (x)  e = Cast <to = 1> (c)
        }""",
    ),
    "integers": (
        20,
        """g (int64[6] n_below_9, int64[6] m_below_4) => (int64[6] a, int64[6] b,
            int64[6] c, int64[6] d, bool[6] e) {
          a = Add(n_below_9, m_below_4)  s = Sub(m_below_4, n_below_9)  b = Neg(s)
          c = Abs(s)  d = Mul(s, m_below_4)  e = Equal(n_below_9, m_below_4)
        }""",
    ),
    "reshape": (
        20,
        """g (float[2,3,4] x) => (float[6,4] a, float[2,12] b, float[2,3,4] c,
            float[2,12] d, float[24,1] e)
          <int64[2] s = {-1, 4}, int64[2] t = {0, -1}, int64[3] u = {2, 3, 4}> {
          a = Reshape(x, s)  b = Reshape(x, t)  c = Reshape <allowzero = 1> (b, u)
          d = Flatten(x)  e = Flatten <axis = 3> (x)
        }""",
    ),
    "unit_axes": (
        20,
        """g (float[3,1,4,1] x) => (float[3,4] a, float[3,4,1] b, float[1,3,1,4,1,1] c)
          <int64[1] one = {1}, int64[2] ends = {0, -1}> {
          a = Squeeze(x)  b = Squeeze(x, one)  c = Unsqueeze(x, ends)
        }""",
    ),
    "transpose": (
        20,
        """g (float[2,3,4] x) => (float[4,3,2] a, float[3,2,4] b) {
          a = Transpose(x)  b = Transpose <perm = [1, 0, 2]> (x)
        }""",
    ),
    "concat_and_split": (
        20,
        """g (float[2,3] x, float[2,4] y) => (float[2,7] a, float[2,2] b, float[2,5] c,
            float[2,3] d, float[2,3] e, float[2,1] f, float[1,7] h, float[1,7] i)
          <int64[2] sizes = {2, 5}> {
          a = Concat <axis = -1> (x, y)  b, c = Split <axis = 1> (a, sizes)
          d, e, f = Split <axis = 1, num_outputs = 3> (a)
          h, i = Split <num_outputs = 2> (a)
        }""",
    ),
    "split_of_old_opset": (
        13,
        """g (float[6] x) => (float[3] a, float[3] b) { a, b = Split(x) }""",
    ),
    "slice": (
        20,
        """g (float[5,6] x) => (float[3,6] a, float[5,3] b, float[2,2] c, float[5,0] d)
          <int64[1] one = {1}, int64[1] four = {4}, int64[1] two = {2},
           int64[1] far = {9223372036854775807}, int64[2] s = {-4, -5},
           int64[2] e = {-1, 100}, int64[2] axes = {0, 1}, int64[2] steps = {2, 3}> {
          a = Slice(x, one, four)  b = Slice(x, one, far, one, two)
          c = Slice(x, s, e, axes, steps)  d = Slice(x, four, one, one)
        }""",
    ),
    "expand_and_tile": (
        20,
        """g (float[3,1] x) => (float[2,3,4] a, float[3,5] b, float[6,3] c)
          <int64[3] s = {2, 1, 4}, int64[2] t = {3, 5}, int64[2] r = {2, 3}> {
          a = Expand(x, s)  b = Expand(x, t)  c = Tile(x, r)
        }""",
    ),
    "gather": (
        20,
        """g (float[5,3,4] x, int64[2,2] n_below_3) => (float[2,2,3,4] a, float[5,2,2,4] b,
            float[5,3,2,2] c, float[5,4] d, float[5,3] e, float[2,3,4] f)
          <int64 one = {1}, int64 last = {-1}, int64[2] ends = {0, -1}> {
          a = Gather(x, n_below_3)  b = Gather <axis = 1> (x, n_below_3)
          c = Gather <axis = -1> (x, n_below_3)  d = Gather <axis = 1> (x, one)
          e = Gather <axis = 2> (x, last)  f = Gather(x, ends)
        }""",
    ),
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
    "attention_spelled_out": (
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
    "shape_arithmetic": (
        20,
        """g (float[2,3,4] x) => (float[2,12] a, float[6,4] b, float[3] c, float[2,3,4] d)
          <int64[1] zero = {0}, int64[1] minus = {-1}, int64 one = {1}, int64 four = {4},
           int64[1] two = {2}, int64 begin = {0}> {
          s = Shape(x)  f = Slice(s, zero, two)  p = ReduceProd(f)
          n = Size(x)  m = Div(n, p)  h = Gather(s, zero)
          t = Concat <axis = 0> (h, minus)  a = Reshape(x, t)
          g0 = Squeeze(m)  g1 = Unsqueeze(g0, zero)  u = Concat <axis = 0> (minus, g1)
          b = Reshape(x, u)
          r = Range(begin, three, one)  three = Sub(four, one)  c = Cast <to = 1> (r)
          e = Equal(s, minus)  ones = ConstantOfShape <value = int64[1] {1}> (rank)
          rank = Shape(s)  w = Where(e, ones, s)  d = Expand(x, w)
        }""",
    ),
    "constants_of_every_kind": (
        20,
        """g (float[2] x) => (float[2] a, float[2] b, float[2] c, float[2] d, float[2] e)
          {
          v = Constant <value = float[2] {1.5, -2.0}> ()  a = Add(x, v)
          f = Constant <value_float = 0.75> ()  b = Add(x, f)
          h = Constant <value_floats = [3.0, 4.0]> ()  c = Add(x, h)
          i = Constant <value_int = 3> ()  j = Cast <to = 1> (i)  d = Add(x, j)
          k = Constant <value_ints = [5, -7]> ()  l = Cast <to = 1> (k)  e = Add(x, l)
        }""",
    ),
    "rotary_table": (
        20,
        """g (float[4,6] x) => (float[4,6] a, float[4,6] b)
          <float[1,3] frequency = {1.0, 0.1, 0.01}, int64 n = {4}, int64 o = {0},
           int64 s = {1}, int64[2] column = {4, 1}> {
          r = Range(o, n, s)  p = Cast <to = 1> (r)  q = Reshape(p, column)
          t = MatMul(q, frequency)  u = Concat <axis = 1> (t, t)  c = Cos(u)  d = Sin(u)
          a = Mul(x, c)  b = Mul(x, d)
        }""",
    ),
    "causal_mask_arithmetic": (
        20,
        """g (float[3,3] x) => (float[3,3] y)
          <int64[3,1] i = {0, 1, 2}, int64[1,3] j = {0, 1, 2}, float zero = {0.0},
           float low = {-1.0}, int64[1] two = {2}, bool always = {1}> {
          k = LessOrEqual(j, i)  l = And(always, k)  n = Not(l)  o = Or(n, n)
          m = Where(o, low, zero)  h = Mod(i, two)  f = Cast <to = 1> (h)
          e = Expand(f, shape)  shape = Shape(x)  t = Add(m, e)  y = Add(x, t)
        }""",
    ),
    "functions": (
        '20, "local" : 1',
        """g (float[2,3] x) => (float[2,3] y, float[2,3] z) {
          y = local.gate <slope = 2.0, other = 0.5> (x)  a, z = local.twice(x)
        }
        <opset_import: ["" : 20], domain: "local">
        leak <alpha> (x) => (y) { y = LeakyRelu <alpha : float = @alpha> (x) }
        <opset_import: ["" : 20, "local" : 1], domain: "local">
        gate <slope, other> (x) => (y) {
          l = local.leak <alpha : float = @slope> (x)  s = Elu <alpha : float = @other> (x)
          y = Mul(l, s)
        }
        <opset_import: ["" : 20], domain: "local">
        twice (x) => (w, y) { w = Neg(x)  y = Add(x, x) }""",
    ),
    "half_precision": (
        20,
        """g (float16[2,3] x, bfloat16[2,3] z) => (float[2,3] a, float[2,3] b)
          <float16 half = {14336}> {
          y = Mul(x, half)  a = Cast <to = 1> (y)  w = Neg(z)  b = Cast <to = 1> (w)
        }""",
    ),
}


def make_inputs(model, random):
    inputs = {}
    for value in model.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if dtype == np.int64:
            bound = int(value.name.rsplit("_", 1)[1])
            inputs[value.name] = random.integers(0, bound, shape)
        elif dtype == np.bool_:
            inputs[value.name] = random.random(shape) < 0.5
        else:
            inputs[value.name] = random.normal(size=shape).astype(dtype)
    return inputs


def run(*command):
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("name", CASES)
def test_outputs(name, tmp_path):
    opset, graph = CASES[name]
    text = f'<ir_version: 10, opset_import: ["" : {opset}]> {graph}'
    model = onnx.parser.parse_model(text)
    onnx.save(model, tmp_path / "model.onnx")
    inputs = make_inputs(model, np.random.default_rng(len(name)))
    flat = inliner.inline_local_functions(model)
    values = ReferenceEvaluator(sort_nodes(flat)).run(None, inputs)
    safetensors.save(tmp_path / "inputs.safetensors", inputs)
    run(TRANSLATE, "--import-onnx", tmp_path / "model.onnx", "-o", tmp_path / "m.mlir")
    run(
        EVAL, tmp_path / "m.mlir", "--inputs", tmp_path / "inputs.safetensors",
        "--out", tmp_path / "results.safetensors",
    )  # fmt: skip
    results = safetensors.load(tmp_path / "results.safetensors")
    assert set(results) == {output.name for output in model.graph.output}
    for output, expected in zip(model.graph.output, values, strict=True):
        result, expected = results[output.name], np.asarray(expected)
        assert result.dtype == expected.dtype
        assert result.shape == expected.shape
        if result.dtype.kind == "f":
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(result, expected)


def sort_nodes(model):
    """A copy in which producers come first: the evaluator runs in file order."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    known = {""} | {i.name for i in model.graph.input}
    known |= {t.name for t in model.graph.initializer}
    pending = list(model.graph.node)
    del result.graph.node[:]
    while pending:
        ready = [n for n in pending if set(n.input) <= known]
        pending = [n for n in pending if not set(n.input) <= known]
        result.graph.node.extend(ready)
        known |= {name for n in ready for name in n.output}
    return result


@pytest.mark.skipif(not MODELS.is_dir(), reason=f"{MODELS} is absent")
@pytest.mark.parametrize(
    "name",
    [
        "mlp-digits",
        "gpt2-tiny",
        "llama-tiny",
        "resnet18-cifar-w8",
        "lstm-char",
        "detector-tiny",
    ],
)
def test_loss_of_exported_model(name, tmp_path):
    """The first loss and prediction, against those of PyTorch."""
    folder = MODELS / name
    inputs = np.load(folder / "inputs.npz")
    reference = np.load(folder / "reference.npz")
    shutil.copy(folder / "weights.safetensors", tmp_path)
    safetensors.save(
        tmp_path / "inputs.safetensors", {name: inputs[name][0] for name in inputs}
    )
    run(
        TRANSLATE, "--import-onnx", folder / "loss.onnx", "-o", tmp_path / "m.mlir",
        *FOLD.get(name, []),
    )  # fmt: skip
    run(
        EVAL, tmp_path / "m.mlir", "--inputs", tmp_path / "inputs.safetensors",
        "--out", tmp_path / "results.safetensors",
    )  # fmt: skip
    results = safetensors.load(tmp_path / "results.safetensors")
    np.testing.assert_allclose(
        results["loss"], reference["loss.adamw.fp64"][0], rtol=2e-6
    )
    prediction = reference["prediction"]
    tolerance = 2e-5 * np.abs(prediction).max()
    np.testing.assert_allclose(results["prediction"], prediction, atol=tolerance)
