"""If, Loop and Scan: import selects branches and unrolls loops. ONNX Runtime computes the
expected values."""

import subprocess

import numpy as np
import pytest
from support.paths import BUILD
from support.reference import evaluate

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

TRANSLATE = BUILD / "bin" / "binade-translate"
HEADER = '<ir_version: 10, opset_import: ["" : 18, "local" : 1]>\n'
X = np.linspace(-2.0, 3.0, 12, dtype=np.float32).reshape(3, 4)

GRAPHS = {
    # The length of an axis selects the branch, which reads names of the outer graph.
    "branch": """g (float[3, 4] x) => (y) {
        s = Shape(x)  zero = Constant <value_int = 0> ()  n = Gather(s, zero)
        three = Constant <value_int = 3> ()  is = Equal(n, three)
        twice = Add(x, x)
        y = If (is) <then_branch = t () => (r) { r = Mul(twice, x) },
                     else_branch = e () => (r) { r = NoSuchOp(x) }>
        }""",
    "nested": """g (float[3, 4] x) => (y) <bool yes = {1}, bool no = {0}> {
        y = If (yes) <then_branch = t () => (r) {
              a = Neg(x)
              r = If (no) <then_branch = tt () => (q) { q = Identity(a) },
                           else_branch = te () => (q) <float[1] half = {0.5}>
                             { q = Mul(a, half) }>
            }, else_branch = e () => (r) { r = Identity(x) }>
        }""",
    "loop": """g (float[3, 4] x) => (y, all) <int64 n = {3}> {
        y, all = Loop (n, , x) <body = b (int64 i, bool go, float[3, 4] v)
            => (more, w, kept) {
              more = Identity(go)  f = Cast <to = 1> (i)  s = Add(v, x)
              w = Mul(s, f)  kept = ReduceSum <keepdims = 0> (w) }>
        }""",
    # The condition ends the outer loop, which contains another loop.
    "condition": """g (float[3, 4] x) => (y) <bool yes = {1}, int64 two = {2}> {
        y = Loop (, yes, x) <body = b (int64 i, bool go, float[3, 4] v) => (more, w) {
              more = Less(i, two)
              w = Loop (two, , v) <body = c (int64 j, bool on, float[3, 4] p)
                => (on2, q) { on2 = Identity(on)  k = Add(i, j)  f = Cast <to = 1> (k)
                              q = Add(p, f) }> }>
        }""",
    "never": """g (float[3, 4] x) => (y, all) <int64 n = {0}> {
        y, all = Loop (n, , x) <body = b (int64 i, bool go, float[3, 4] v)
            => (more, w, float[2] kept) {
              more = Identity(go)  w = Neg(v)  kept = Constant <value_floats = [1.0, 2.0]> () }>
        }""",
    "sequence": """g (float[3, 4] x) => (y) <int64 n = {3}> {
        empty = SequenceEmpty()
        s = Loop (n, , empty) <body = b (int64 i, bool go, seq(float[3, 4]) v)
            => (more, seq(float[3, 4]) w) {
              more = Identity(go)  f = Cast <to = 1> (i)  e = Add(x, f)
              w = SequenceInsert(v, e) }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (s)
        }""",
    "scan": """g (float[3, 4] x) => (y, sums) {
        zero = Constant <value_floats = [0.0, 0.0, 0.0]> ()
        y, sums = Scan <num_scan_inputs = 1, scan_input_axes = [1],
              scan_input_directions = [1], scan_output_axes = [-1],
              scan_output_directions = [1],
              body = b (float[3] v, float[3] e) => (float[3] w, float[3] out)
                { w = Add(v, e)  out = Mul(w, e) }> (zero, x)
        }""",
    # A constant that passes through a sequence.
    "split": """g (float[3, 4] x) => (y) <int64[2] c = {6, 1}, int64 one = {1}> {
        s = SplitToSequence <axis = 0> (c)  a = SequenceAt(s, one)
        two = Constant <value_ints = [2]> ()  h = Mul(a, two)
        six = Constant <value_ints = [6]> ()
        shape = Concat <axis = 0> (h, six)  y = Reshape(x, shape)
        }""",
}  # fmt: skip
FUNCTIONS = """g (float[3, 4] x) => (y) <bool yes = {1}> {
  a = local.choose <factor = 3.0> (x, yes)
  y = If (yes) <then_branch = t () => (r) { r = local.twice(a) },
                else_branch = e () => (r) { r = Identity(a) }>
}
<domain: "local", opset_import: ["" : 18, "local" : 1]>
twice (p) => (q) { q = Add(p, p) }
<domain: "local", opset_import: ["" : 18, "local" : 1]>
choose <factor> (p, which) => (q) {
  s = local.twice(p)
  q = If (which) <then_branch = t () => (r) {
        f = Constant <value_float: float = @factor> ()  m = local.twice(s)  r = Mul(m, f) },
      else_branch = e () => (r) { r = Identity(s) }>
}"""


def import_graph(text, folder):
    """Imports a graph given as text with binade-translate and returns the process."""
    onnx.save(onnx.parser.parse_model(HEADER + text), folder / "m.onnx")
    return subprocess.run(
        [TRANSLATE, "--import-onnx", folder / "m.onnx", "-o", folder / "m.mlir"],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip


def check(text, folder, expected):
    process = import_graph(text, folder)
    assert process.returncode == 0, process.stderr
    found = evaluate((folder / "m.mlir").read_text(), {"x": X})
    for name, value in expected.items():
        assert found[name].shape == value.shape
        np.testing.assert_allclose(found[name], value, rtol=1e-6)


@pytest.mark.parametrize("name", GRAPHS)
def test_values_equal_those_of_onnx_runtime(name, tmp_path):
    # ONNX Runtime rejects unknown ops even in a branch that is never taken.
    known = GRAPHS[name].replace("NoSuchOp", "Identity")
    model = onnx.parser.parse_model(HEADER + known)
    session = ort.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    expected = dict(zip(names, session.run(names, {"x": X})))
    check(GRAPHS[name], tmp_path, expected)


def test_functions_contain_branches_and_branches_call_functions(tmp_path):
    check(FUNCTIONS, tmp_path, {"y": X * 2 * 2 * 3 * 2})


ERRORS = {
    "condition": (
        """g (float[2] x, bool c) => (float[2] y) { y = If (c) <
            then_branch = t () => (r) { r = Neg(x) },
            else_branch = e () => (r) { r = Abs(x) }> }""",
        "'If_0' (If): error: condition 'c' depends on the data; it has to be known when",
    ),
    "endless": (
        """g (float[2] x) => (float[2] y) { y = Loop (, , x) <
            body = b (int64 i, bool go, float[2] v) => (go, w) { w = Neg(v) }> }""",
        "'Loop_0' (Loop): error: runs so many iterations that its nodes, "
        "unrolled, are more than 262144",
    ),
    "next condition": (
        """g (float[2] x) => (float[2] y) { y = Loop (, , x) <
            body = b (int64 i, bool go, float[2] v) => (more, w) {
              w = Neg(v)  s = ReduceSum <keepdims = 0> (w)  more = Less(s, s) }> }""",
        "'Loop_0' (Loop): error: the next condition depends on the data; it has to be",
    ),
    "inner op": (
        """g (float[2] x) => (float[2] y) <int64 n = {2}> { y = Loop (n, , x) <
            body = b (int64 i, bool go, float[2] v) => (go, w) { w = NoSuchOp(v) }> }""",
        "error: has ops that cannot be imported: NoSuchOp (1)",
    ),
    "inner error": (
        """g (float[2] x) => (float[2] y) <int64 n = {2}> { y = Loop (n, , x) <
            body = b (int64 i, bool go, float[2] v) => (go, w) {
              three = Constant <value_ints = [3]> ()  w = Reshape(v, three) }> }""",
        "'Loop_0/0/Reshape_1' (Reshape): error:",
    ),
    "inputs": (
        """g (float[2] x) => (float[2] y) <int64 n = {2}> { y = Loop (n, , x) <
            body = b (int64 i, bool go) => (go, w) { w = Neg(x) }> }""",
        "'Loop_0' (Loop): error: passes 3 inputs to 'body', which has 2",
    ),
    "undefined": (
        """g (float[2] x) => (float[2] y) <bool yes = {1}> { y = If (yes) <
            then_branch = t () => (r) { r = Neg(z) },
            else_branch = e () => (r) { r = Abs(x) }> }""",
        "'If_0' (If): error: reads 'z', which nothing defines",
    ),
    "hidden": (
        """g (float[2] x) => (float[2] y) <bool yes = {1}> { y = If (yes) <
            then_branch = t () => (r) { x = Neg(x)  r = Abs(x) },
            else_branch = e () => (r) { r = Abs(x) }> }""",
        "'If_0' (If): error: value 'x' of 'then_branch' has the name of a value of an "
        "enclosing graph",
    ),
    "graph of another type": (
        """g (float[1,1,2,4] x) => (y) { y = ai.onnx.preview.FlexAttention <
            score_mod = m (float[1,1,2,2] s) => (t) { t = Cast <to = 11> (s) }> (x, x, x) }""",
        "expected 'score_mod' to return one tensor of type 'tensor<1x1x2x2xf32>'",
    ),
    "graph of two": (
        """g (float[1,1,2,4] x) => (y) { y = ai.onnx.preview.FlexAttention <
            prob_mod = m (float[1,1,2,2] s, float f) => (t) { t = Mul(s, f) }> (x, x, x) }""",
        "gives 'prob_mod' 1 inputs, it has 2",
    ),
    "heads": (
        """g (float[1,3,2,4] x, float[1,2,2,4] k) => (y) {
            y = ai.onnx.preview.FlexAttention(x, k, k) }""",
        "cannot attend with queries 'tensor<1x3x2x4xf32>', keys 'tensor<1x2x2x4xf32>'",
    ),
    "precision": (
        """g (float[1,1,2,4] x) => (y) {
            y = ai.onnx.preview.FlexAttention <softmax_precision = 7> (x, x, x) }""",
        "expected a softmax_precision of 16 bits or more, got 'i64'",
    ),
    "lengths": (
        """g (float[2] x, float[3] z) => (y) { y = Scan <num_scan_inputs = 2,
            body = b (float a, float c) => (r) { r = Add(a, c) }> (x, z) }""",
        "'Scan_0' (Scan): error: scans axes of 2 and of 3 entries",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_loops_that_cannot_be_unrolled_are_rejected(name, tmp_path):
    text, expected = ERRORS[name]
    process = import_graph(text, tmp_path)
    assert process.returncode == 1 and not (tmp_path / "m.mlir").exists()
    assert expected in process.stderr
