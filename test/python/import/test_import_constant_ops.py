"""Ops that import folds because their inputs are constant: NonZero, Unique,
NonMaxSuppression, MelWeightMatrix, Binarizer, and ops on optional values. NumPy and ONNX
Runtime compute the expected values."""

import numpy as np
import onnx
import pytest
from support.onnx_nodes import BinadeBackend, Refused

onnxruntime = pytest.importorskip("onnxruntime")

DRAW = np.random.default_rng(5)


def parse(text, known=None, results="y", opset=20, inputs="float[2] x"):
    """Parses a model whose constant inputs are `known`."""
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : {opset}]> '
        f"g ({inputs}) => ({results}) {{ {text} }}"
    )
    for name, value in (known or {}).items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    return model


def run(model, x=np.float32([1.5, -2.0])):
    return BinadeBackend.prepare(model, "reference").run([x])


@pytest.mark.parametrize(
    "x",
    [np.float32([[0.0, -1.5, np.nan], [-0.0, 0.0, 2.0]]), np.int64([0, 0]),
     DRAW.integers(0, 2, (2, 3, 4)).astype(bool)],
    ids=["floats", "none", "flags"],
)  # fmt: skip
def test_nonzero(x):
    (found,) = run(parse("y = NonZero(c)", {"c": x}))
    np.testing.assert_array_equal(found, np.nonzero(x))


TABLE = DRAW.integers(0, 3, (3, 12, 2)) - 1
UNIQUE = {
    "of all": (TABLE.astype("f4"), None),
    "along an axis": (TABLE, 1),
    "from the end": (TABLE.astype("f8"), -1),
    "NaN": (np.float32([np.nan, 1.0, np.nan, -np.inf]), None),
    "without sign": (np.uint64([2**63 + 1, 3, 2**63 + 1, 0]), 0),
}


@pytest.mark.parametrize("case", UNIQUE)
def test_unique_equals_that_of_numpy(case):
    x, axis = UNIQUE[case]
    form = "" if axis is None else f"<axis = {axis}>"
    model = parse(f"y, i, j, n = Unique {form} (c)", {"c": x}, "y, i, j, n")
    expected = np.unique(x, True, True, True, axis=axis)
    for found, value in zip(run(model), expected, strict=True):
        np.testing.assert_array_equal(found, value.reshape(found.shape))


def test_unsorted_unique():
    x = np.int64([5, 2, 5, 9, 2, 5])
    model = parse("y, i, j, n = Unique <sorted = 0> (c)", {"c": x}, "y, i, j, n")
    expected = [5, 2, 9], [0, 1, 3], [0, 1, 0, 2, 1, 0], [3, 2, 1]
    for found, value in zip(run(model), expected, strict=True):
        np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize("is_centered", [0, 1])
@pytest.mark.parametrize("threshold", [None, 0.4])
def test_non_max_suppression(is_centered, threshold):
    known = {
        "b": DRAW.random((2, 40, 4), np.float32),
        "s": np.round(DRAW.random((2, 3, 40), np.float32), 1),  # Some are equal.
        "n": np.int64(7),
        "t": np.float32(0.3),
    }
    if threshold:
        known["l"] = np.float32(threshold)
    form = f"<center_point_box = {is_centered}>"
    text = f"y = NonMaxSuppression {form} (b, s, n, t{', l' if threshold else ''})"
    model = parse(text, known, "int64[k, 3] y")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"x": np.zeros(2, np.float32)})
    (found,) = run(model)
    assert len(found) > 9
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "bands, low, high", [(8, 0.0, 8000.0), (20, 300.0, 3400.0), (1, 0.0, 1.0)]
)
def test_mel_weight_matrix(bands, low, high):
    known = {"m": np.int64(bands), "n": np.int64(64), "r": np.int64(16000),
             "l": np.float32(low), "h": np.float32(high)}  # fmt: skip
    model = parse("y = MelWeightMatrix(m, n, r, l, h)", known, "float[33, k] y")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"x": np.zeros(2, np.float32)})
    (found,) = run(model)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_optional_values():
    """Optional values inside a graph: present, absent, and a sequence."""
    text = """some = Optional(x)  none = Optional <type = tensor(float)> ()
        c = OptionalHasElement(some)  d = OptionalHasElement(none)
        e = OptionalHasElement()
        s = SequenceConstruct(x, x)  list = Optional(s)  t = OptionalGetElement(list)
        one = Constant <value_int = 1> ()  z = SequenceAt(t, one)
        y = If (c) <
          then_branch = then () => (a) { v = OptionalGetElement(some)  a = Neg(v) },
          else_branch = else () => (b) { b = Identity(x) }>"""
    model = parse(text.replace(" <type = tensor(float)>", ""), results="c, d, e, z, y")
    found = run(model)
    assert [bool(flag) for flag in found[:3]] == [True, False, False]
    np.testing.assert_array_equal(found[3], [1.5, -2.0])
    np.testing.assert_array_equal(found[4], [-1.5, 2.0])


def test_binarizer():
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 20, "ai.onnx.ml" : 4]>
        g (int64[3] i, float[3] x) => (y, z) {
          y = ai.onnx.ml.Binarizer <threshold = 1.5> (i)
          z = ai.onnx.ml.Binarizer <threshold = 1.5> (x) }"""
    )
    given = [np.int64([1, 2, -3]), np.float32([1.5, 1.6, np.nan])]
    found = BinadeBackend.prepare(model, "reference").run(given)
    for value, expected in zip(found, ([0, 1, 0], [0.0, 1.0, 0.0]), strict=True):
        np.testing.assert_array_equal(value, expected)


BOXES = {"b": np.zeros((1, 2, 4), np.float32), "s": np.zeros((1, 1, 3), np.float32)}
MEL = {"m": np.int64(8), "n": np.int64(64), "r": np.int64(16000),
       "l": np.float32(0.0), "h": np.float32(15000.0)}  # fmt: skip
BAD = {
    "unknown": ("y = NonZero(x)", {}, "operand 'x' depends on the data"),
    "another axis": ("y = Unique <axis = 1> (c)", {"c": np.int64([1])}, "axis 1 is outside of a tensor of rank 1"),
    "other scores": ("y = NonMaxSuppression(b, s)", BOXES, "cannot choose boxes 'tensor<1x2x4xf32>' by 'tensor<1x1x3xf32>'"),
    "too high": ("y = MelWeightMatrix(m, n, r, l, h)", MEL, "has bands up to"),
    "no bands": ("y = MelWeightMatrix(m, n, r, l, h)", MEL | {"m": np.int64(0)}, "expected one positive num_mel_bins"),
    "below 0": ("y = MelWeightMatrix(m, n, r, l, h)", MEL | {"l": np.float32(-1)}, "expected lower_edge_hertz to be at least 0"),
    "nothing": ("n = Optional()  y = OptionalGetElement(n)", {}, "'n' is an optional value without element"),
    "nothing as a tensor": ("n = Optional()  y = Relu(n)", {}, "expected 'n' to be a tensor, got an optional value without element"),
    "nothing as a result": ("y = Optional()", {}, "expected output 'y' to be a tensor, got an optional value without element"),
    "no matrix": ("y = Det(x)", {}, "expected square matrices of 1 to 10 rows, got 'tensor<2xf32>'"),
    "a large matrix": ("y = Det(c)", {"c": np.eye(11, dtype=np.float32)}, "of 1 to 10 rows"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_rejected_folds(case):
    text, known, message = BAD[case]
    with pytest.raises(Refused, match=message):
        model = parse(
            text, known, inputs="float[99] x" if case == "unknown" else "float[2] x"
        )
        run(model, np.zeros(99, np.float32))
