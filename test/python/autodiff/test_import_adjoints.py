"""Compares the gradients of imported functions with those that PyTorch computes.

test/data/make_adjoints.py recorded the gradients that PyTorch computes in f64. Import lowers
each function to several ops; inputs include repeated indices, masks and empty tensors. The
ONNX graphs below define the same functions, in double to keep rounding errors small.
"""

import json
import subprocess

import numpy as np
import pytest
from support.adjoint_records import RECORDS, read
from support.paths import BUILD
from support.reference import evaluate

onnx = pytest.importorskip("onnx")

TRANSLATE, OPT = BUILD / "bin" / "binade-translate", BUILD / "bin" / "binade-opt"
DTYPES = {"m": np.bool_, "n": np.int32, "w": np.float64}  # Of inputs without gradients.

# Inputs in the order and with the shapes of the record: x0, x1, ..., then others by name.
GRAPHS = {
    "scatter_add": 'y = ScatterElements <axis = 1, reduction = "add"> (x0, i, x1)',
    "scatter_replace": "y = ScatterElements <axis = 1> (x0, i, x1)",
    "scatter_many": "y = ScatterElements <axis = -1> (x0, i, x1)",
    "scatter_product": 'y = ScatterElements <axis = 1, reduction = "mul"> (x0, i, x1)',
    "scatter_largest": 'y = ScatterElements <axis = 1, reduction = "max"> (x0, i, x1)',
    "rows_added": """axis = Constant <value_ints = [-1]> ()  j = Unsqueeze(i, axis)
        y = ScatterND <reduction = "add"> (x0, j, x1)""",
    "rows_replaced": """axis = Constant <value_ints = [-1]> ()  j = Unsqueeze(i, axis)
        y = ScatterND(x0, j, x1)""",
    "scan": """one = Constant <value_int = 1> ()  a = CumSum(x0, one)
        r = CumSum <reverse = 1> (a, one)  s = Constant <value_ints = [-1]> ()
        e = Constant <value_ints = [-9]> ()  k = Constant <value_ints = [1]> ()
        y = Slice(r, s, e, k, s)""",
    "product_scan": "one = Constant <value_int = -1> ()  y = CumProd(x0, one)",
    "largest": "k = Constant <value_ints = [3]> ()  y, i = TopK(x0, k)",
    "smallest": """k = Constant <value_ints = [2]> ()
        y, i = TopK <axis = 1, largest = 0> (x0, k)""",
    "transposed_convolution": """y = ConvTranspose <strides = [2, 1],
        pads = [1, 0, 1, 0], output_padding = [1, 0], dilations = [1, 2]> (x0, x1, x2)""",
    "grouped": "y = ConvTranspose <strides = [3], group = 2> (x0, x1)",
    "reflected": """p = Constant <value_ints = [0, 0, 2, 0, 0, 1]> ()
        y = Pad <mode = "reflect"> (x0, p)""",
    "edges": """p = Constant <value_ints = [2, 1]> ()  a = Constant <value_ints = [-1]> ()
        y = Pad <mode = "edge"> (x0, p, , a)""",
    "wrapped": """p = Constant <value_ints = [2, 1]> ()
        a = Constant <value_ints = [2]> ()  y = Pad <mode = "wrap"> (x0, p, , a)""",
    "padded": """p = Constant <value_ints = [0, 0, 2, 0, 1, 1]> ()
        y = Pad(x0, p, x1)""",
    "upsampled": """s = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> ()
        y = Resize <mode = "linear"> (x0, , s)""",
    "cubic": """s = Constant <value_ints = [4, 7]> ()
        y = Resize <mode = "cubic", axes = [2, 3],
            coordinate_transformation_mode = "align_corners"> (x0, , , s)""",
    "smoothed": """s = Constant <value_ints = [3, 2]> ()
        y = Resize <mode = "linear", antialias = 1, exclude_outside = 1,
            axes = [2, 3]> (x0, , , s)""",
    "masked_attention": "y = Attention(x0, x1, x2, m)",
    "biased_attention": "y = Attention(x0, x1, x2, x3)",
    "grouped_attention": "y = Attention <is_causal = 1> (x0, x1, x2)",
    "capped_attention": "y = Attention <softcap = 1.5> (x0, x1, x2)",
    "trigonometry": """three = Constant <value = double {3.0}> ()  z = Div(x0, three)
        t0 = Tan(z)  t1 = Asin(z)  t2 = Acos(z)  t3 = Atan(x0)  t4 = Sinh(x0)
        t5 = Cosh(x0)  t6 = Asinh(x0)  more = Constant <value = double {1.5}> ()
        q = Mul(x0, x0)  c = Add(q, more)  t7 = Acosh(c)  t8 = Atanh(z)
        s = SequenceConstruct(t0, t1, t2, t3, t4, t5, t6, t7, t8)
        y = ConcatFromSequence <axis = 0, new_axis = 1> (s)""",
    "at_zero": """t0 = Asin(x0)  t1 = Sinh(x0)  t2 = Asinh(x0)  t3 = Atanh(x0)
        t4 = Softplus(x0)  t5 = Mish(x0)  s = SequenceConstruct(t0, t1, t2, t3, t4, t5)
        y = ConcatFromSequence <axis = 0, new_axis = 1> (s)""",
    "triangle": """up = Constant <value_int = 1> ()  down = Constant <value_int = -1> ()
        u = Trilu <upper = 1> (x0, up)  l = Trilu <upper = 0> (x0, down)
        y = Add(u, l)""",
    "weighted_loss": """y = SoftmaxCrossEntropyLoss <ignore_index = -100> (x0, t, w)""",
    "products": "a = Constant <value_ints = [1]> ()  y = ReduceProd <keepdims = 0> (x0, a)",
    "nothing": """c = Concat <axis = 1> (x0, x1)  one = Constant <value_int = 1> ()
        y = CumSum(c, one)""",
}  # fmt: skip
GRAPHS |= {
    "looped": """n = Constant <value_int = 3> ()  y = Loop (n, , x0) <
        body = b (int64 i, bool go, double[3, 4] v) => (more, w) {
          more = Identity(go)  d = Cast <to = 11> (i)  p = Mul(v, x0)  s = Add(p, d)
          w = Tanh(s) }>""",
    "scanned": """last, y = Scan <num_scan_inputs = 1, scan_input_directions = [1],
        scan_output_directions = [1], scan_output_axes = [1],
        body = b (double[2, 4] h, double[2, 3] x) => (g, out) {
          a = MatMul(x, x1)  c = MatMul(h, x2)  s = Add(a, c)  g = Tanh(s)
          out = Identity(g) }> (x3, x0)""",
    "ragged": """all, last = RNN <direction = "reverse", hidden_size = 3>
          (x0, x1, x2, , n)
        one = Constant <value_ints = [1]> ()  a = Squeeze(all, one)
        y = Concat <axis = 0> (a, last)""",
    "sampled": "y = GridSample(x0, x1)",
    "sampled_cubic": """y = GridSample <mode = "cubic", padding_mode = "reflection",
        align_corners = 1> (x0, x1)""",
    "sampled_volume": """y = GridSample <padding_mode = "border",
        align_corners = 1> (x0, x1)""",
    "affine_grid": "s = Constant <value_ints = [2, 1, 3, 2]> ()  y = AffineGrid(x0, s)",
    "compressed": """c = Constant <value = bool[4] {1, 0, 0, 1}> ()
        y = Compress <axis = -1> (x0, c)""",
    "convolution": """y = Conv <strides = [2, 1], pads = [1, 0, 1, 0],
        dilations = [1, 2], group = 2> (x0, x1, x2)""",
    "causal_convolution": """out, state = CausalConvWithState <activation = "silu">
        (x0, x1, x2, x3)  y = Concat <axis = 2> (out, state)""",
    "linear_attention": """out, state = LinearAttention <q_num_heads = 2,
        kv_num_heads = 1> (x0, x1, x2, x3, x4, x5)
        all = Constant <value_ints = [-1]> ()  a = Reshape(out, all)
        c = Reshape(state, all)  y = Concat <axis = 0> (a, c)""",
    "transforms": """n = Constant <value_int = 6> ()
        u = DFT <inverse = 1> (x0, n)  v = DFT <onesided = 1> (x1)
        re, im = Split <axis = 2, num_outputs = 2> (v)
        rr = Mul(re, re)  ii = Mul(im, im)  ri = Mul(re, im)
        q = Sub(rr, ii)  p = Add(ri, ri)  s = Concat <axis = 2> (q, p)
        w = DFT <onesided = 1, inverse = 1> (s)
        all = Constant <value_ints = [-1]> ()  a = Reshape(u, all)  c = Reshape(v, all)
        d = Reshape(w, all)  y = Concat <axis = 0> (a, c, d)""",
    "joined_blocks": """s = Constant <value_ints = [4, 5]> ()
        k = Constant <value_ints = [2, 3]> ()  y = Col2Im <pads = [1, 1, 1, 1],
        strides = [2, 2], dilations = [1, 2]> (x0, s, k)""",
    "cache_written": 'y = TensorScatter <mode = "circular"> (x0, x1, i)',
    "root_mean_square": "y = RMSNormalization <epsilon = 1e-5> (x0, x1)",
    "slices": "y = GatherND(x0, i)",
    "quick_gelu": "y = com.microsoft.QuickGelu(x0)",
    "regions": """y = RoiAlign <output_height = 3, output_width = 2,
        sampling_ratio = 2> (x0, x1, i)""",
    "unpooled": """p, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x0)
        q = Mul(p, p)
        y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (q, i)""",
    "deformed": """y = DeformConv <strides = [2, 1], dilations = [1, 2],
        pads = [1, 0, 1, 0], group = 2, offset_group = 2> (x0, x1, x2, x3, x4)""",
    "determinants": """a = Det(x0)  c = Det(x1)  one = Constant <value_ints = [1]> ()
        d = Reshape(c, one)  y = Concat <axis = 0> (a, d)""",
    "frames": """last = Constant <value_ints = [-1]> ()  s = Unsqueeze(x0, last)
        step = Constant <value_int = 3> ()  y = STFT(s, step, x1)""",
    "modified_attention": """y = ai.onnx.preview.FlexAttention <
        score_mod = cap (double[1, 4, 3, 5] s) => (double[1, 4, 3, 5] t) {
          c = Constant <value = double {1.5}> ()  d = Div(s, c)  h = Tanh(d)
          t = Mul(h, c) },
        prob_mod = square (double[1, 4, 3, 5] p) => (double[1, 4, 3, 5] r) {
          r = Mul(p, p) }> (x0, x1, x2)""",
}  # fmt: skip
# Binade computes these partly in f32, PyTorch in f64.
TOLERANCES = {"weighted_loss": 1e-6, "grouped_attention": 1e-6, "masked_attention": 1e-6,
              "capped_attention": 1e-6, "root_mean_square": 2e-6,
              "quick_gelu": 1e-7}  # fmt: skip


def test_every_record_has_a_graph():
    assert set(GRAPHS) == set(RECORDS)


def import_graph(name, inputs, folder):
    """The module of a graph whose loss is the sum of its result times `weights`."""
    record = RECORDS[name]
    kinds = {np.dtype(np.float64): "double", np.dtype(np.int64): "int64",
             np.dtype(np.int32): "int32", np.dtype(np.bool_): "bool"}  # fmt: skip
    declared = ", ".join(
        f"{kinds[value.dtype]}{list(value.shape) if value.shape else ''} {key}"
        for key, value in inputs.items()
    )
    axes = list(range(len(record["y"]["shape"])))
    text = f"""<ir_version: 10, opset_import: ["" : 27, "com.microsoft" : 1,
                                   "ai.onnx.preview" : 1]>
    g ({declared}) => (double loss) {{
      {GRAPHS[name]}
      weighted = Mul(y, weights)
      {"loss = ReduceSum <keepdims = 0> (weighted)" if axes else "loss = Identity(weighted)"}
    }}"""
    model = onnx.parser.parse_model(text)
    init = {f"x{i}": {"rule": "zeros"} for i in range(len(record["inputs"]))}
    entry = model.metadata_props.add()
    entry.key, entry.value = "binade.init", json.dumps(init)
    entry = model.metadata_props.add()
    entry.key, entry.value = "binade.trainable", json.dumps(list(init))
    source, module = folder / "m.onnx", folder / "m.mlir"
    onnx.save(model, source)
    subprocess.run(
        [TRANSLATE, "--import-onnx", source, "-o", module], check=True, timeout=600
    )
    gradient = folder / "gradient.mlir"
    subprocess.run(
        [OPT, module, "--binade-build-gradient", "-o", gradient],
        check=True,
        timeout=600,
    )
    return gradient.read_text()


@pytest.mark.parametrize("name", GRAPHS)
def test_gradients_match_pytorch(name, tmp_path):
    record = RECORDS[name]
    inputs = {f"x{i}": read(x) for i, x in enumerate(record["inputs"])}
    count = len(inputs)
    for key, value in record["others"].items():
        inputs[key] = read(value, DTYPES.get(key, np.int64))
    y = read(record["y"])
    inputs["weights"] = np.linspace(-1.0, 1.5, y.size).reshape(y.shape)
    outputs = evaluate(import_graph(name, inputs, tmp_path), inputs)
    tolerance = TOLERANCES.get(name, 1e-9)
    expected = np.sum(y * inputs["weights"])
    np.testing.assert_allclose(outputs["loss"], expected, rtol=1e-5, atol=1e-6)
    for i in range(count):
        expected = read(record["gradients"][i])
        found = outputs[f"x{i}"]
        assert found.shape == expected.shape
        atol = tolerance * max(1.0, np.abs(expected).max(initial=0.0))
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=atol)
