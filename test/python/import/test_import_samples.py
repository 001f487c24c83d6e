"""Ops that sample images: RoiAlign, DeformConv, Resize and Upsample, and MaxUnpool. ONNX
Runtime, the reference evaluator of the `onnx` package or NumPy computes the expected
values."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from support.onnx_nodes import BinadeBackend, Refused

onnxruntime = pytest.importorskip("onnxruntime")

DRAW = np.random.default_rng(11)
IMAGE = DRAW.standard_normal((2, 4, 6, 7), np.float32)
# Inside, across the border, outside, of size 0, and with corners swapped.
REGIONS = np.float32([
    [1.2, 0.4, 9.1, 7.3], [-3.0, -2.0, 4.5, 15.0], [30.0, 2.0, 40.0, 9.0],
    [3.3, 2.2, 3.3, 2.2], [9.0, 8.0, 2.0, 1.0],
])  # fmt: skip
IMAGES = np.int64([0, 1, 0, 1, 1])
KINDS = {np.dtype(np.float32): "float", np.dtype(np.int64): "int64",
         np.dtype(np.float16): "float16", np.dtype(np.int32): "int32"}  # fmt: skip


def parse(text, inputs, known=(), opset=22, results="y"):
    """Parses a model whose inputs have the types of `inputs`; `known` are initializers."""
    declared = ", ".join(
        f"{KINDS[x.dtype]}[{', '.join(map(str, x.shape))}] {name}"
        for name, x in inputs.items()
        if name not in known
    )
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> '
        f"g ({declared}) => ({results}) {{ {text} }}"
    )
    for name in known:
        model.graph.initializer.append(onnx.numpy_helper.from_array(inputs[name], name))
    return model


def run(model, inputs, backend="reference"):
    given = [inputs[value.name] for value in model.graph.input]
    return BinadeBackend.prepare(model, backend).run(given)


def expect(model, inputs):
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {v.name: inputs[v.name] for v in model.graph.input})


ROI = {"x": IMAGE, "rois": REGIONS, "i": IMAGES}
HALF = 'coordinate_transformation_mode = "half_pixel"'
WHOLE = 'coordinate_transformation_mode = "output_half_pixel"'
BINS = "output_height = 3, output_width = 2, spatial_scale = 0.5"
# name: (opset, nodes, inputs, names of constants).
CASES = {
    "regions": (16, f"y = RoiAlign <{BINS}, sampling_ratio = 2> (x, rois, i)", ROI, ""),
    "regions of pixels": (16, f"y = RoiAlign <{BINS}, sampling_ratio = 3, {WHOLE}> (x, rois, i)", ROI, ""),
    "old regions": (10, f"y = RoiAlign <{BINS}, sampling_ratio = 1> (x, rois, i)", ROI, ""),
    "as many samples as pixels": (16, f"y = RoiAlign <{BINS}, {HALF}> (x, rois, i)", ROI, ["rois"]),
    "as many, at least one": (16, f"y = RoiAlign <{BINS}, {WHOLE}> (x, rois, i)", ROI, ["rois"]),
    "nearest": (9, "y = Upsample(x, s)", {"x": IMAGE, "s": np.float32([1, 1, 2.0, 1.5])}, ["s"]),
    "linear": (9, 'y = Upsample <mode = "linear"> (x, s)', {"x": IMAGE, "s": np.float32([1, 1, 2.0, 3.0])}, ["s"]),
    "nearest by attribute": (7, "y = Upsample <scales = [1.0, 1.0, 2.5, 2.0]> (x)", {"x": IMAGE}, ""),
    "resized": (10, "y = Resize(x, s)", {"x": IMAGE, "s": np.float32([1, 1, 0.5, 2.3])}, ["s"]),
    "resized, linear": (10, 'y = Resize <mode = "linear"> (x, s)', {"x": IMAGE, "s": np.float32([1, 1, 0.6, 2])}, ["s"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_samples_equal_those_of_onnx_runtime(case):
    opset, text, inputs, known = CASES[case]
    model = parse(text, inputs, known, opset)
    for found, expected in zip(run(model, inputs), expect(model, inputs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


# ONNX Runtime returns the largest interpolated sample; the reference evaluator returns the
# largest of the weighted pixels.
MAXIMUM = f'y = RoiAlign <mode = "max", {BINS}, sampling_ratio = 2> (x, rois, i)'
MOVED = {
    "x": IMAGE,
    "w": DRAW.standard_normal((6, 2, 2, 3), np.float32),
    "offset": DRAW.standard_normal((2, 24, 3, 3), np.float32) * 2,
    "b": DRAW.standard_normal(6, np.float32),
    "mask": DRAW.standard_normal((2, 12, 3, 3), np.float32),
}
CONVOLUTION = """y = DeformConv <group = 2, offset_group = 2, strides = [2, 2],
    dilations = [1, 2], pads = [1, 2, 0, 1]> (x, w, offset, b, mask)"""


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize(
    "text, inputs", [(MAXIMUM, ROI), (CONVOLUTION, MOVED)], ids=["maximum", "moved"]
)
def test_samples_equal_those_of_the_onnx_evaluator(text, inputs, backend):
    model = parse(text, inputs)
    (expected,) = ReferenceEvaluator(model).run(None, inputs)
    (found,) = run(model, inputs, backend)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("rank", [1, 3])
def test_zero_offsets_give_a_convolution(rank):
    """Tests one and three spatial axes, which the reference evaluator does not support."""
    kernel = [2, 3, 2][:rank]
    inputs = {
        "x": DRAW.standard_normal((1, 4, *[6, 5, 4][:rank]), np.float32),
        "w": DRAW.standard_normal((2, 4, *kernel), np.float32),
    }
    plain = parse("y = Conv(x, w)", inputs)
    (expected,) = expect(plain, inputs)
    places = 2 * rank * int(np.prod(kernel))
    inputs["offset"] = np.zeros((1, places, *expected.shape[2:]), np.float32)
    (found,) = run(
        parse("y = DeformConv <offset_group = 2> (x, w, offset)", inputs), inputs
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def unpool(x, kernel, stride):
    """Puts the maximum of each window where it comes from, and 0 elsewhere."""
    y = np.zeros_like(x)
    for n, c in np.ndindex(x.shape[:2]):
        for i in range(0, x.shape[2] - kernel + 1, stride):
            for j in range(0, x.shape[3] - kernel + 1, stride):
                window = x[n, c, i : i + kernel, j : j + kernel]
                a, b = np.unravel_index(window.argmax(), window.shape)
                y[n, c, i + a, j + b] = window[a, b]
    return y


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("kernel, stride", [(2, 2), (3, 2), (3, 1)])
def test_unpooling_restores_the_places_of_maxima(kernel, stride, backend):
    """Tests adjacent windows, and windows that overlap and may share their maximum."""
    inputs = {"x": DRAW.standard_normal((2, 3, 7, 7), np.float32)}
    x = inputs["x"] = inputs["x"][:, :, : 6 + kernel % 2, : 6 + kernel % 2].copy()
    form = f"kernel_shape = [{kernel}, {kernel}], strides = [{stride}, {stride}]"
    text = f"p, i = MaxPool <{form}> (x)  y = MaxUnpool <{form}> (p, i)"
    (found,) = run(parse(text, inputs), inputs, backend)
    np.testing.assert_array_equal(found, unpool(x, kernel, stride))


SMALL = {"x": IMAGE, "rois": REGIONS[:1], "i": IMAGES[:1]}
MANY = {"x": IMAGE, "rois": np.tile(REGIONS, (5, 1)), "i": np.tile(IMAGES, 5)}
PARTS = {"x": IMAGE, "i": np.zeros((2, 4, 6, 7), np.int64)}
BAD = {
    "unknown regions": ("y = RoiAlign(x, rois, i)", MANY, "regions 'rois' depends on the data"),
    "no mode": ('y = RoiAlign <mode = "min"> (x, rois, i)', SMALL, "expected mode avg or max"),
    "other regions": ("y = RoiAlign(x, rois, i)", SMALL | {"rois": REGIONS}, "cannot take regions 'tensor<5x4xf32>' of images 'tensor<1xi64>'"),
    "many bins": ("y = RoiAlign <output_width = 5000> (x, rois, i)", SMALL, "expected 1 to 4096 bins along an axis, got 5000"),
    "many samples": ("y = RoiAlign <sampling_ratio = 1000> (x, rois, i)", SMALL, "takes 1000 samples of a bin"),
    "other offsets": (CONVOLUTION, MOVED | {"offset": MOVED["offset"][:, :23]}, "expected offsets of type 'tensor<2x24x3x3xf32>', got 'tensor<2x23x3x3xf32>'"),
    "other masks": (CONVOLUTION, MOVED | {"mask": MOVED["mask"][:1]}, "expected a mask of type"),
    "three groups": ("y = DeformConv <offset_group = 3> (x, w, offset)", MOVED | {"w": MOVED["w"][:, [0, 1, 0, 1]]}, "in 3 offset groups"),
    "a small image": ("s = Constant <value_ints = [2, 4, 5, 5]> () y = MaxUnpool <kernel_shape = [1, 1]> (x, i, s)", PARTS, r"into images of \[2, 4, 5, 5\]: its windows cover \[2, 4, 6, 7\]"),
    "other indices": ("y = MaxUnpool <kernel_shape = [1, 1]> (x, i)", PARTS | {"i": PARTS["i"][:1]}, "as many indices"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_rejected_samples(case):
    text, inputs, message = BAD[case]
    with pytest.raises(Refused, match=message):
        run(parse(text, inputs), inputs)
