"""The PTX of fused attention computes attention and stays within its budgets."""

import json

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.cuda_runs import CUDA, run
from support.gpu_code import assemble, check_instructions, find_ptxas, read_saved
from support.paths import ROOT
from support.ptx import run as run_ptx

BF16 = ml_dtypes.bfloat16
BUDGETS = json.loads((ROOT / "test/data/gpu-attention-budgets.json").read_text())


def compile_attention(folder, shape, causal):
    """Compiles attention whose query, key and value are the input times a weight each."""
    names = ["query", "key", "value"]
    nodes = [helper.make_node("Mul", ["x", f"w.{name}"], [name]) for name in names]
    nodes.append(
        helper.make_node("Attention", names, ["y"], is_causal=causal, scale=SCALE)
    )
    weights = [
        numpy_helper.from_array(np.ones(shape[-1], np.float32), f"w.{name}")
        for name in names
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "attention", [info("x", TensorProto.FLOAT, shape)],
        [info("y", TensorProto.FLOAT, shape)], weights,
    )  # fmt: skip
    opset = [helper.make_opsetid("", 23)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=10)
    path = folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, size_threshold=0)
    run(
        "binade", "compile", path, *CUDA, "--policy", "bf16-amp", "--loss",
        "mse(y, target)", "--save-kernels", folder / "kernels", "-o", folder / "model.bnd",
    )  # fmt: skip
    kernels = [k for k in read_saved(folder) if "mma.sync" in k.ptx]
    forward, backward = sorted(kernels, key=lambda kernel: len(kernel.entries))
    assert len(forward.entries) == 1 and len(backward.entries) == 2
    return forward, backward


SCALE = 0.3


def attend(query, key, value, causal):
    """Returns the probabilities in f64, the same rounded to bf16, and log-sum-exp."""
    scores = SCALE * query @ key.swapaxes(-1, -2)
    if causal:
        scores[..., ~np.tri(*scores.shape[-2:], dtype=bool)] = -np.inf
    lse = np.logaddexp.reduce(scores, -1)
    p = np.exp(scores - lse[..., None])
    return p, p.astype(BF16).astype(float), lse


@pytest.mark.parametrize("causal", [0, 1])
def test_ptx_computes_attention(causal, tmp_path):
    shape = (1, 2, 80, 32)
    forward, backward = compile_attention(tmp_path, shape, causal)
    assert "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in forward.ptx
    random = np.random.default_rng(9)
    query, key, value, dy = (
        random.standard_normal(shape).astype(np.float32).astype(BF16) for _ in range(4)
    )
    wide = [x.astype(float) for x in (query, key, value, dy)]
    p, rounded, lse = attend(*wide[:3], causal)
    types = {"bf16": BF16, "f32": np.float32}
    memories = [np.zeros(n, types[t]) for n, t in forward.arguments]
    for memory, tensor in zip(memories, (query, key, value)):
        memory[:] = tensor.ravel()
    run_ptx(forward.entries[0], [memory.view(np.uint8) for memory in memories])
    np.testing.assert_allclose(memories[4].reshape(lse.shape), lse, atol=1e-5)
    # A probability and the result may each be off by one unit of bf16.
    y = rounded @ wide[2]
    bound = 2.0**-8 * (p @ abs(wide[2])) + 2.0**-8 * abs(y)
    assert (abs(memories[3].reshape(shape).astype(float) - y) <= bound).all()

    arguments = [np.zeros(n, types.get(t, np.float32)) for n, t in backward.arguments]
    given = [query, key, value, memories[3], memories[4], dy]
    for memory, tensor in zip(arguments, given):
        memory[:] = tensor.ravel()
    for entry in backward.entries:
        run_ptx(entry, [memory.view(np.uint8) for memory in arguments])
    dp = wide[3] @ wide[2].swapaxes(-1, -2)
    products = wide[3] * memories[3].reshape(shape).astype(float)
    ds = SCALE * p * (dp - products.sum(-1, keepdims=True))
    # f32 sums that nearly cancel: the error is relative to their terms.
    size = abs(wide[3]) @ abs(wide[2]).swapaxes(-1, -2)
    size += abs(products).sum(-1, keepdims=True)
    error = 2.0**-7 * abs(ds) + 2.0**-20 * SCALE * p * size
    expected = [
        (ds, error, wide[1]),
        (ds.swapaxes(-1, -2), error.swapaxes(-1, -2), wide[0]),
        (p.swapaxes(-1, -2), 2.0**-7 * p.swapaxes(-1, -2), wide[3]),
    ]
    for found, (weights, error, rows) in zip(arguments[6:9], expected):
        exact = weights @ rows
        bound = error @ abs(rows) + 2.0**-8 * abs(exact)
        assert (abs(found.reshape(shape).astype(float) - exact) <= bound).all()
        assert abs(exact).max() > 0.1


@pytest.mark.parametrize("width", BUDGETS)
def test_attention_stays_within_its_budgets(width, tmp_path):
    """Limits PTX instructions in the innermost loops, one with masks and one without, and
    registers. Only exponentials are approximate."""
    forward, backward = compile_attention(tmp_path, (2, 2, 1024, int(width)), 1)
    used = {}
    if find_ptxas():
        for kernel in (forward, backward):
            used |= assemble(kernel.ptx, "sm_90", tmp_path)
    entries = [*forward.entries, *backward.entries]
    check_instructions(entries)
    over = []
    for (name, budget), entry in zip(BUDGETS[width].items(), entries):
        found = {"loops": len(entry.hot()), "shared": entry.shared}
        if usage := used.get(entry.symbol):
            found |= {
                "registers": usage.registers,
                "spills": usage.spills + usage.stack,
            }
        print(f"{width} {name:8}", found)
        most = {"spills": 0} | budget
        over += [f"{name}: {what}" for what in found if found[what] > most[what]]
    assert not over, over
