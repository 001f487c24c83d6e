"""Quantized matmuls with block scales or power-of-two scales, as ONNX nodes: their operands equal,
bit by bit, the values that numpy computes by the definitions of the formats."""

import functools
import subprocess

import ml_dtypes
import numpy as np
import onnx
import pytest
from binade import safetensors
from onnx import TensorProto
from support.convert import add_tensor, convert, draw, evaluate, find_types, parse, run
from support.paths import BUILD

F32, BF16 = np.float32, ml_dtypes.bfloat16
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
# Neither rows nor columns are whole blocks; the policies keep the last layer in bf16.
ROWS, IN, HIDDEN = 40, 70, 150
LAYERS = f"""
g (float[{ROWS}, {IN}] x) => (float[{ROWS}, 5] y) {{
  h = MatMul(x, u)
  t = MatMul(h, v)
  y = MatMul(t, w)
}}"""
GRADIENTS = f"""
g (float[{ROWS}, {IN}] x, float[{IN}, {HIDDEN}] u, float[{HIDDEN}, {HIDDEN}] v,
   float[{HIDDEN}, 5] w)
    => (float loss, float[{IN}, {HIDDEN}] du, float[{HIDDEN}, {HIDDEN}] dv,
        float[{HIDDEN}, 5] dw) {{
  a = MatMul(x, u)
  h = Mul(a, a)
  b = MatMul(h, v)
  y = MatMul(b, w)
  s = Mul(y, y)
  loss = ReduceSum <keepdims = 0> (s)
  dy = Add(y, y)
  bt = Transpose <perm = [1, 0]> (b)
  dw = MatMul(bt, dy)
  wt = Transpose <perm = [1, 0]> (w)
  db = MatMul(dy, wt)
  ht = Transpose <perm = [1, 0]> (h)
  dv = MatMul(ht, db)
  vt = Transpose <perm = [1, 0]> (v)
  dh = MatMul(db, vt)
  twice = Add(a, a)
  da = Mul(dh, twice)
  xt = Transpose <perm = [1, 0]> (x)
  du = MatMul(xt, da)
}}"""


# --- Definitions of the formats -----------------------------------------------------------------


def power_below(x):
    return np.ldexp(F32(1), np.frexp(x)[1] - 1).astype(F32)


def round_up(amax, most):
    """The scale of mxfp8, rounded up to a power of two."""
    exact = amax * (F32(1) / most)
    below = power_below(np.maximum(exact, F32(2.0**-127)))
    scale = np.where(below < exact, below * 2, below)
    return scale, scale


def inverse_power(amax, most):
    with np.errstate(divide="ignore"):
        factor = np.where(amax > 0, np.minimum(most / amax, np.finfo(F32).max), F32(1))
    scale = F32(1) / power_below(factor)
    return scale, scale


def in_bf16(amax, most):
    """The scale of COAT, one per tensor, rounded to bf16."""
    scale = (amax / most).astype(BF16).astype(F32)
    return scale, scale


def read_back(x, block, rule, dtype):
    """Quantizes and dequantizes `x`, with a scale for each `block` (rows, columns)."""
    rows, columns = (n or size for n, size in zip(block, x.shape))
    most = F32(ml_dtypes.finfo(dtype).max)
    result = np.empty_like(x)
    for i in range(0, x.shape[0], rows):
        for j in range(0, x.shape[1], columns):
            part = x[i : i + rows, j : j + columns]
            divisor, factor = rule(np.abs(part).max(), most)
            codes = np.clip(part / divisor, -most, most).astype(dtype)
            result[i : i + rows, j : j + columns] = codes.astype(F32) * factor
    return result


def get_format(policy, name, side):
    """Returns block, scale rule and element type of a matmul operand; `side` 0 is the lhs."""
    along = {0: lambda n: (1, n), 1: lambda n: (n, 1)}[side]
    if policy == "mxfp8":
        return along(32), round_up, E4M3
    if policy == "fp8-block":
        block = (128, 128) if name in ("u", "v", "w", "vt") else along(128)
        return block, inverse_power, E4M3
    if policy == "fp8-lm":
        return (0, 0), inverse_power, E4M3
    return (0, 0), in_bf16, E5M2 if name.startswith("d") else E4M3


def run_part(folder, feeds, outputs, how=run):
    """Computes `outputs` of a converted graph. Omits the last layer, which is in bf16, because
    onnxruntime has no bf16 ops."""
    model = onnx.shape_inference.infer_shapes(onnx.load(folder / "out.onnx"))
    part = onnx.utils.Extractor(model).extract_model(list(feeds), sorted(outputs))
    onnx.save(part, folder / "part.onnx")
    return how(folder / "part.onnx", feeds)


# --- Operands of matmuls ------------------------------------------------------------------------


def read_operands(folder, converted, feeds, how=run):
    """Returns the source and the dequantized value of each matmul operand, by name and side."""
    makers = {output: n for n in converted.graph.node for output in n.output}
    found = {}
    for node in converted.graph.node:
        for side, name in enumerate(node.input):
            maker = makers.get(name)
            if (
                node.op_type == "MatMul"
                and maker
                and maker.op_type == "DequantizeLinear"
            ):
                source = makers.get(maker.input[0])
                found[name, side] = source.input[0] if source else maker.input[0]
    known = {tensor.name for tensor in converted.graph.initializer}
    given = {value.name for value in converted.graph.input}
    wanted = {name for name, _ in found} | set(found.values()) - known - given
    values = feeds | run_part(folder, feeds, wanted, how)
    return {
        (source, side): (values.get(source), values[name])
        for (name, side), source in found.items()
    }


def make(opset=21, model=LAYERS):
    model = parse(model)
    model.opset_import[0].version = opset
    return model


def make_layers(opset=21, **scales):
    model = make(opset)
    shapes = {"u": (IN, HIDDEN), "v": (HIDDEN, HIDDEN), "w": (HIDDEN, 5)}
    weights = {}
    for seed, (name, shape) in enumerate(shapes.items()):
        # Rows and columns differ in magnitude, and so do the scales of blocks.
        weights[name] = draw(*shape, seed=seed) * np.exp2(draw(*shape[1:], seed=9) * 3)
        weights[name] *= F32(0.1)
        add_tensor(model, name, weights[name])
    return model, weights


def check(policy, operands, weights):
    assert operands
    for (name, side), (source, got) in operands.items():
        source = weights[name] if source is None else source
        expected = read_back(source, *get_format(policy, name, side))
        assert np.array_equal(expected, got), (name, side)


POLICIES = ["mxfp8", "fp8-block", "coat", "fp8-lm"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("optimizes", [False, True])
def test_matmuls_read_quantized_operands(tmp_path, policy, external, optimizes):
    model, weights = make_layers()
    save = {"save_as_external_data": True, "size_threshold": 0} if external else {}
    converted, text = convert(model, tmp_path, policy, **save)
    assert "not as decided" not in text
    x = draw(ROWS, IN, seed=5) * np.exp2(draw(IN, seed=6) * 4)
    x[3], x[:, 40:] = 0, x[:, 40:] * F32(1e-30)
    how = functools.partial(run, optimizes=optimizes)
    operands = read_operands(tmp_path, converted, {"x": x}, how)
    assert {("x", 0), ("u", 1), ("v", 1)} <= set(operands)
    check(policy, operands, weights)
    types = find_types(onnx.load(tmp_path / "out.onnx"))
    assert types["u"] == types["v"] == TensorProto.FLOAT8E4M3FN


@pytest.mark.parametrize("policy", POLICIES)
def test_gradients_read_quantized_operands(tmp_path, policy):
    converted, text = convert(make(model=GRADIENTS), tmp_path, policy)
    assert "not as decided" not in text
    feeds = {"x": draw(ROWS, IN), "u": draw(IN, HIDDEN, seed=1, scale=0.1)}
    feeds |= {"v": draw(HIDDEN, HIDDEN, seed=3), "w": draw(HIDDEN, 5, seed=2)}
    operands = read_operands(tmp_path, converted, feeds, evaluate)
    # A weight is quantized along each axis that a matmul contracts.
    assert {("h_f32", 0), ("v", 1), ("db_f32", 0), ("vt", 1)} <= set(operands)
    check(policy, operands, feeds)


@pytest.mark.parametrize("policy", ["mxfp8", "fp8-block"])
def test_block_scales_need_operator_set_21(tmp_path, policy):
    model, _ = make_layers(opset=20)
    converted, text = convert(model, tmp_path, policy)
    assert "not as decided: operator set 20, before 21, does not quantize to" in text
    assert not [n for n in converted.graph.node if n.op_type == "QuantizeLinear"]


def test_delayed_scales_are_not_converted(tmp_path):
    model, _ = make_layers()
    _, text = convert(model, tmp_path, "fp8-delayed")
    assert "not as decided: ONNX does not quantize to" in text
    assert "history = 1024" in text and "bf16 instead" in text


@pytest.mark.parametrize("external", [False, True])
def test_empty_weights_are_converted(tmp_path, external):
    model = parse(
        f"""g (float[{ROWS}, 5] x) => (float[{ROWS}, 0] h, float[{ROWS}, 5] y) {{
          h = MatMul(x, u)
          y = MatMul(x, w)
        }}"""
    )
    model.opset_import[0].version = 21
    add_tensor(add_tensor(model, "u", draw(5, 0)), "w", draw(5, 5))
    save = {"save_as_external_data": True, "size_threshold": 0} if external else {}
    convert(model, tmp_path, "fp8-block", **save)


@pytest.mark.parametrize("policy", ["mxfp8", "fp8-block"])
def test_leading_axes_do_not_change_blocks(tmp_path, policy):
    """Blocks extend along the last axis, for any number of leading axes."""
    model = parse(
        f"""g (float[2, 3, 20, {IN}] x) => (float[2, 3, 20, {HIDDEN}] h, float[2, 3, 20, 5] y) {{
          h = MatMul(x, u)
          y = MatMul(h, w)
        }}"""
    )
    model.opset_import[0].version = 21
    weights = {"u": draw(IN, HIDDEN, scale=0.1), "w": draw(HIDDEN, 5, seed=1)}
    for name, value in weights.items():
        add_tensor(model, name, value)
    convert(model, tmp_path, policy)
    x = draw(2, 3, 20, IN, seed=3)
    flat = read_back(x.reshape(-1, IN), *get_format(policy, "x", 0))
    u = read_back(weights["u"], *get_format(policy, "u", 1))
    exact = (flat.astype("f8") @ u).reshape(2, 3, 20, HIDDEN)
    # One rounding to bf16, plus the error of f32 sums where terms cancel.
    off = np.abs(run_part(tmp_path, {"x": x}, ["h"])["h"] - exact)
    size = (np.abs(flat).astype("f8") @ np.abs(u)).reshape(exact.shape)
    assert (off <= 2.0**-8 * np.abs(exact) + 1e-6 * size).all()


@pytest.mark.parametrize("policy", POLICIES)
def test_binade_imports_converted_models(tmp_path, policy):
    """Includes blocks longer than the axis. Binade and ONNX's reference must agree."""
    model, _ = make_layers()
    convert(model, tmp_path, policy)
    x = draw(ROWS, IN, seed=5)
    module, given, made = (tmp_path / name for name in ("m.mlir", "in", "out"))
    safetensors.save(given, {"x": x})
    for tool, *arguments in (
        ("binade-translate", "--import-onnx", tmp_path / "out.onnx", "-o", module),
        ("binade-interpret", module, "--backend=cpu", "--inputs", given, "--out", made),
    ):
        subprocess.run([BUILD / "bin" / tool, *arguments], check=True)
    expected = evaluate(tmp_path / "out.onnx", {"x": x})["y"]
    assert np.allclose(safetensors.load(made)["y"], expected, rtol=2.0**-8, atol=1e-3)
