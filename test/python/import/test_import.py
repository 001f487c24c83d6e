"""Imported graphs compute the values of the onnx package's reference evaluator.

Every case is a small graph with random inputs. The reference interpreter computes
the outputs of the imported module and bounds by which a correct result may differ.
"""

import shutil

import numpy as np
import pytest
from binade import safetensors
from support.imported_graphs import EVAL, TRANSLATE, check_outputs, run
from support.paths import MODELS
from support.shared_models import FOLD

pytestmark = pytest.mark.skipif(
    not (TRANSLATE.exists() and EVAL.exists()), reason="the tools are not built"
)

# name: (opset, graph). Integer inputs are drawn below the number in their name
# ("labels_below_5"), booleans at random, floats from a normal distribution.
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
    # A small k of many elements is selected one by one; otherwise, all pairs are compared.
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


@pytest.mark.parametrize("name", CASES)
def test_outputs(name, tmp_path):
    check_outputs(name, *CASES[name], tmp_path)


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
    """The first loss and prediction equal those of PyTorch."""
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
