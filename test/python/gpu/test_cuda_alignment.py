"""Tiles whose size in bytes is not a multiple of a kernel's vector loads."""

import json
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.cuda_runs import need_simulated_driver, run
from support.reference import safetensors

# Attention is tiled to one sample at a time, which has 7 * 31 rows of scores and
# 7 * 31 * 3 elements of queries.
SAMPLES, HEADS, LENGTH, WIDTH = 10, 7, 31, 3


def make_attention(path):
    rng = np.random.default_rng(0)
    width = HEADS * WIDTH
    nodes, constants = [], []

    def constant(name, value):
        kind = TensorProto.INT64 if value.dtype == np.int64 else TensorProto.FLOAT
        constants.append(
            helper.make_tensor(name, kind, value.shape, value.tobytes(), raw=True)
        )

    def node(kind, inputs, output, **attributes):
        nodes.append(helper.make_node(kind, inputs, [output], output, **attributes))

    constant("heads", np.array([SAMPLES, LENGTH, HEADS, WIDTH]))
    constant("joined", np.array([SAMPLES, LENGTH, width]))
    constant("scale", np.array(WIDTH**-0.5, np.float32))
    constant("least", np.array(-1e30, np.float32))
    constant("fill", np.array(np.inf, np.float32))
    for name, limit in {"start": 0, "end": 1, "axis": 2}.items():
        constant(name, np.array([limit]))
    constant("of_keys", np.array([SAMPLES, 1, 1, LENGTH]))
    for name in "qkv":
        weight = rng.normal(size=(width, width)) / width**0.5
        constant("w" + name, weight.astype(np.float32))
        node("MatMul", ["x", "w" + name], name)
        node("Reshape", [name, "heads"], name + "_heads")
        axes = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        node("Transpose", [name + "_heads"], name + "_transposed", perm=axes)
    node("Slice", ["x", "start", "end", "axis"], "column")
    node("Reshape", ["column", "of_keys"], "first_column")
    node("MatMul", ["q_transposed", "k_transposed"], "scores")
    node("Mul", ["scores", "scale"], "scaled")
    # Attention with a mask that fills with infinity is decomposed into tiles. No score is
    # masked.
    node("Greater", ["first_column", "least"], "visible")
    node("Where", ["visible", "scaled", "fill"], "filled")
    node("Softmax", ["filled"], "weights", axis=-1)
    node("MatMul", ["weights", "v_transposed"], "mixed")
    node("Transpose", ["mixed"], "merged_heads", perm=[0, 2, 1, 3])
    node("Reshape", ["merged_heads", "joined"], "prediction")
    value = helper.make_tensor_value_info
    shape = [SAMPLES, LENGTH, width]
    graph = helper.make_graph(
        nodes, "attention", [value("x", TensorProto.FLOAT, shape)],
        [value("prediction", TensorProto.FLOAT, shape)], constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    helper.set_model_props(model, {"binade.trainable": json.dumps(["wq", "wk", "wv"])})
    onnx.save(model, path)
    draw = {name: rng.normal(size=(2 * SAMPLES, LENGTH, width)) for name in "xy"}
    data = {name: array.astype(np.float32) for name, array in draw.items()}
    safetensors.save(path.with_name("data.safetensors"), data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    need_simulated_driver()
    folder = tmp_path_factory.mktemp("alignment")
    make_attention(folder / "model.onnx")
    return folder


@pytest.mark.parametrize("policy", ["fp32", "bf16-amp"])
def test_kernels_assume_the_alignment_of_their_operands(policy, folder):
    losses = {}
    # Tiled for a CPU's cache: a GPU's tiles are too large for a test. The module is
    # compiled for both targets, and therefore must not name the CPU as its own.
    module = folder / f"{policy}.mlir"
    run("binade", "compile", folder / "model.onnx", "--loss", "mse(prediction, y)",
        "--policy", policy, "--optimizer", "sgd", "--to=kernels", "-o", module)  # fmt: skip
    text, count = re.subn(r', binade.target = #binade.target<"cpu"[^>]*>', "",
                          module.read_text())  # fmt: skip
    assert count == 1
    module.write_text(text)
    for target in ("cpu", "cuda"):
        bundle, out = folder / f"{target}.bnd", folder / f"{target}-{policy}"
        more = ["--target", "cuda:sm_90", "--save-kernels", folder]
        run("binade", "compile", module, "--from=kernels",
            *(more if target == "cuda" else []), "-o", bundle)  # fmt: skip
        run("binade-run", bundle, "--data", folder / "data.safetensors", "--steps", 2,
            "--out", out, "--device", target, BINADE_SIMULATED_KERNELS=str(folder))  # fmt: skip
        lines = (out / "metrics.jsonl").read_text().splitlines()
        losses[target] = [json.loads(line)["loss"] for line in lines]
    # The targets sum in different orders; bf16 rounds to 8 significant bits.
    allowed = 1e-6 if policy == "fp32" else 1e-2
    np.testing.assert_allclose(losses["cuda"], losses["cpu"], rtol=allowed)
    plan = json.loads(safetensors.load(folder / "cuda.bnd")["plan"].tobytes())
    found = [
        a for kernel in plan["device_kernels"] for a in kernel.get("alignments", [])
    ]
    # Tiles begin at multiples of 217 and 651 elements, which are odd, and of 31 bytes of the
    # mask.
    assert sorted(set(found))[:2] == [1, 4 if policy == "fp32" else 2]
