"""Formats for each product of a layer: the forward product, the gradient of the input and the
gradient of the weight, compared with numpy."""

import json
import re
import sys

import ml_dtypes
import numpy as np
import onnx
import pytest
from support.paths import ROOT
from support.quantized_products import (
    BACKENDS,
    check,
    draw,
    materialize,
    product,
    quantize,
    round_bias,
)
from support.reference import binade, evaluate

sys.path.append(str(ROOT / "test/data"))
import make_nvfp4 as published  # noqa: E402

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
BF16 = ml_dtypes.bfloat16
HEAD = "name: mine\nextends: bf16-amp\nrules:\n- match: { op: matmul, role: weight }\n"
LAST = "- { match: { op: matmul, role: weight, layer: last }, class: allow }\n"
MINI, GPT = (ROOT / f"examples/char-gpt/{name}.onnx" for name in ("mini", "char-gpt"))


def write(tmp_path, quantize, head=HEAD):
    policy = tmp_path / "mine.yaml"
    policy.write_text(f"{head}  quantize: {quantize}\n{LAST}")
    return policy


def narrow(x):
    return x.astype(BF16).astype(float)


@BACKENDS
def test_each_product_has_its_own_formats(tmp_path, backend):
    """Keys of a product replace those for all products, also by none."""
    policy = write(
        tmp_path,
        """{ activation: e4m3-tensor, weight: e4m3-tensor,
    gradient: e4m3-tensor, dgrad: { gradient: e5m2-tensor, weight: e4m3-power }, wgrad: {} }""",
    )
    v = draw(11)
    outputs = evaluate(materialize(policy), v, "--backend", backend)
    h, w, dy = -v["x"], v["w"], -v["g"]
    y = product(quantize(h, E4M3), quantize(w, E4M3), round_bias(v["b"]))
    dx = product(quantize(dy, E5M2), quantize(w, E4M3, power=True).T)
    check(outputs, {"y": y, "dx": dx, "w": product(narrow(h).T, narrow(dy))})
    with pytest.raises(AssertionError):
        check(outputs, {"w": product(quantize(h, E4M3).T, quantize(dy, E5M2))})


@BACKENDS
def test_nvfp4_shares_the_weight_between_both_passes(tmp_path, backend):
    policy = write(
        tmp_path,
        """
    fprop: { activation: nvfp4, weight: nvfp4-16x16 }
    dgrad: { gradient: nvfp4, weight: nvfp4-16x16 }
    wgrad: { activation: nvfp4, gradient: nvfp4 }""",
    )
    v = draw(12, 1e-6)
    text = materialize(policy)
    assert len(re.findall(r"binade.quantize %arg2\b", text)) == 1
    outputs = evaluate(text, v, "--backend", backend)

    def rounded(x, rows=1):
        parts = published.quantize(x, rows)
        return published.dequantize(*parts, rows).astype(float)

    h, w, dy = -v["x"], rounded(v["w"], 16), -v["g"]
    y = product(rounded(h), w, round_bias(v["b"]))
    dx = product(rounded(dy), w.T)
    # Along the rows of the batch, over which the gradient of the weight sums.
    dw = product(rounded(h.T.copy()), rounded(dy.T.copy()).T)
    check(outputs, {"y": y, "dx": dx, "w": dw})


@BACKENDS
def test_rows_in_e4m3_with_weight_gradients_in_bf16(backend):
    v = draw(13)
    outputs = evaluate(materialize("fp8-gw-hp"), v, "--backend", backend)

    def rows(x):
        return np.stack([quantize(row, E4M3, power=True) for row in x])

    h, w, dy = -v["x"], v["w"], -v["g"]
    y = product(rows(h), rows(w.T).T, round_bias(v["b"]))
    dx = product(rows(dy), quantize(w, E4M3, power=True).T)
    check(outputs, {"y": y, "dx": dx, "w": product(narrow(h).T, narrow(dy))})


def test_only_gradients_are_rounded_stochastically_in_nvfp4():
    """The gradient is quantized along the rows for dgrad, along the columns for wgrad."""
    lines = re.findall(
        r"binade\.quantize (%\w+).*per_block<(\d+, \d+)>(.*)", materialize("nvfp4")
    )
    blocks = {random: {extent for _, extent, rest in lines if ("stochastic" in rest) == random}
              for random in (True, False)}  # fmt: skip
    assert blocks == {True: {"1, 16", "16, 1"}, False: {"1, 16", "16, 1", "16, 16"}}
    assert len({value for value, _, rest in lines if "stochastic" in rest}) == 1


def explain(policy, *more, model=MINI):
    process = binade("explain", model, "--policy", policy, *more)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_explain_shows_the_products_of_each_layer():
    text = explain("nvfp4").split("\nproducts of layers\n")[1]
    layer = re.search(r"blocks\.1\.mlp\.2/\w+\n(  .*\n){3}", text)[0]
    one, block = "f4E2M1FN/1/16 in two levels", "f4E2M1FN/16/16 in two levels"
    random = f"{one} stochastic"
    assert f"  fprop  bf16, sums f32, operands {one} x {block}" in layer
    assert f"  dgrad  bf16, sums f32, operands {random} x {block}" in layer
    # The weight is transposed, so that its gradient is the gradient times the activation.
    assert f"  wgrad  bf16, sums f32, operands {random} x {one}" in layer


def get_macs(policy, model=MINI):
    report = json.loads(explain(policy, "--format", "json", model=model))
    return report["summary"]["multiply_adds"], report["ops"]


@pytest.mark.parametrize("policy", ["nvfp4", "mxfp4"])
def test_most_multiply_adds_are_in_4_bits(policy):
    """Layers at the ends of the chain of blocks, the head and attention stay wide."""
    macs, ops = get_macs(policy, GPT)
    share = macs["4 bits"] / sum(macs.values())
    assert share >= 0.7
    assert f"{100 * share:.1f}% in 4 bits" in explain(policy, "--summary", model=GPT)
    quantized = {op["name"] for op in ops if "product" in op}
    assert {name.split(".")[1] for name in quantized} == set("01234")  # of 6 blocks
    products = [op["product"] for op in ops if "product" in op]
    assert {products.count(p) for p in ("fprop", "dgrad", "wgrad")} == {len(quantized)}


def test_a_model_without_multiply_adds_has_no_shares(tmp_path):
    float_, vector = onnx.TensorProto.FLOAT, [4]
    names = {
        name: onnx.helper.make_tensor_value_info(name, float_, vector) for name in "xy"
    }
    weight = onnx.numpy_helper.from_array(np.ones(4, np.float32), "w")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Mul", ["x", "w"], ["y"])],
        "scale", [names["x"]], [names["y"]], [weight],
    )  # fmt: skip
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8
    )
    onnx.save(model, tmp_path / "scale.onnx")
    loss = ["--loss", "mse(y, target)", "--train", "w"]
    text = explain("nvfp4", "--summary", *loss, model=tmp_path / "scale.onnx")
    assert "forward" in text and "multiply-adds" not in text


BLOCKS = "- match: { op: matmul, role: weight, blocks: %s }\n  class: allow\n"


@pytest.mark.parametrize("blocks, left", [
    ("{ first: 1 }", {"1", "2", "3"}), ("{ last: 2 }", {"0", "1"}),
    ("{ first: 1, last: 1 }", {"1", "2"}), ("{ first: 25%, last: 50% }", {"1"}),
    ("{ first: 3%, last: 13% }", {"0", "1", "2"}), ("{ first: 9 }", set()),
])  # fmt: skip
def test_blocks_at_the_ends_of_the_chain(tmp_path, blocks, left):
    policy = tmp_path / "mine.yaml"
    policy.write_text(
        HEAD + "  quantize: { activation: nvfp4, weight: nvfp4-16x16, gradient: nvfp4 }\n"
        + BLOCKS % blocks + LAST
    )  # fmt: skip
    _, ops = get_macs(policy)
    assert {op["name"].split(".")[1] for op in ops if "product" in op} == left


@pytest.mark.parametrize("text, line, message", [
    (HEAD + "  quantize: { fprop: { gradient: nvfp4 } }\n", 5,
     "unknown key 'gradient' in fprop; expected one of activation, weight"),
    (HEAD + "  quantize:\n    wgrad: { weight: nvfp4 }\n", 6, "unknown key 'weight' in wgrad"),
    (HEAD + "  quantize:\n    dgrad: { weight: nvfp4 }\n", 6,
     "a product quantizes both of its operands, or none"),
    (HEAD + "  quantize:\n    fprop: { activation: nvfp5, weight: nvfp4 }\n", 6,
     "unknown format 'nvfp5'"),
    (HEAD + "  class: allow\n" + BLOCKS % "{ first: 3.5 }", 6,
     "expected a number of blocks from 0 to 100, or a share of them such as 13%, got '3.5'"),
    (HEAD + "  class: allow\n" + BLOCKS % "{ last: 130% }", 6, "got '130%'"),
    (HEAD + "  class: allow\n" + BLOCKS % "{ first: 0 }", 6,
     "expected 'first' or 'last' with at least one block"),
])  # fmt: skip
def test_contradicting_keys_are_rejected(tmp_path, text, line, message):
    policy = tmp_path / "mine.yaml"
    policy.write_text(text)
    process = binade("policy", "show", policy)
    assert process.returncode == 3
    assert f"mine.yaml:{line}:" in process.stderr and message in process.stderr


def test_a_rule_about_blocks_needs_a_chain(tmp_path):
    policy = tmp_path / "mine.yaml"
    policy.write_text(HEAD + "  class: deny\n" + BLOCKS % "{ first: 1 }")
    process = binade("explain", ROOT / "examples/mlp/mlp.onnx", "--policy", policy,
                     "--loss", "cross_entropy(prediction, labels)")  # fmt: skip
    assert process.returncode == 3
    assert "mine.yaml:6:" in process.stderr and "matches no op" in process.stderr


def test_policies_are_shown_with_all_keys():
    process = binade("policy", "show", "nvfp4")
    assert (
        "quantize wgrad gradient f4E2M1FN/1/16 in two levels stochastic"
        in process.stdout
    )
    assert (
        "op matmul, role weight, blocks first 3% and last 13% -> class allow"
        in process.stdout
    )
