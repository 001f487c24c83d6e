"""Large short-lived values are computed in tiles: logits of many classes, attention.

Losses and gradients are compared with numpy in float64, and no buffer of the plan may be
larger than a tile.
"""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.paths import ROOT
from support.reference import binade, safetensors

ROWS, WIDTH, CLASSES = 512, 8, 20000


def run(*arguments):
    process = binade(*arguments)
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A linear classifier with many classes, its weights and its data."""
    folder = tmp_path_factory.mktemp("classes")
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(CLASSES, WIDTH)).astype(np.float32)
    initial = helper.make_tensor(
        "weight", TensorProto.FLOAT, weight.shape, weight.tobytes(), raw=True
    )
    nodes = [
        helper.make_node("Transpose", ["weight"], ["wt"], "turn", perm=[1, 0]),
        helper.make_node("MatMul", ["x", "wt"], ["logits"], "head"),
        helper.make_node(
            "SoftmaxCrossEntropyLoss", ["logits", "labels"], ["loss"], "loss",
            ignore_index=-100, reduction="mean",
        ),
    ]  # fmt: skip
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "classes",
        [
            value("x", TensorProto.FLOAT, [ROWS, WIDTH]),
            value("labels", TensorProto.INT64, [ROWS]),
        ],
        [value("loss", TensorProto.FLOAT, [])],
        [initial],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    helper.set_model_props(made, {"binade.trainable": json.dumps(["weight"])})
    onnx.save(made, folder / "model.onnx")
    data = {
        "x": rng.normal(size=(ROWS, WIDTH)).astype(np.float32),
        "labels": rng.integers(0, CLASSES, ROWS),
    }
    data["labels"][[3, 400]] = -100
    safetensors.save(folder / "data.safetensors", data)
    return folder, weight.astype(float), data


def expected(weight, data):
    x, labels = data["x"].astype(float), data["labels"]
    logits = x @ weight.T
    logits -= logits.max(1, keepdims=True)
    p = np.exp(logits)
    p /= p.sum(1, keepdims=True)
    counted = labels >= 0
    rows = np.flatnonzero(counted)
    loss = -np.log(p[rows, labels[rows]]).mean()
    p[rows, labels[rows]] -= 1
    p[~counted] = 0
    return loss, p.T @ x / len(rows)


def records(plan):
    for record in plan:
        yield record
        yield from records(record.get("body", []))


# Tolerances relative to the largest value. In bf16, logits of magnitude 10 have errors of
# up to 0.03, and so, relatively, have their exponentials.
@pytest.mark.parametrize(("policy", "allowed"), [("fp32", 1e-5), ("bf16-amp", 5e-2)])
def test_loss_and_gradient_of_tiled_logits(model, policy, allowed, tmp_path):
    folder, weight, data = model
    run(
        "train", folder / "model.onnx", "--data", folder / "data.safetensors",
        "--order", "sequential", "--policy", policy, "--optimizer", "sgd",
        "--steps", 1, "--save-grads", 1, "--out", tmp_path / "run",
    )  # fmt: skip
    metrics = json.loads((tmp_path / "run" / "metrics.jsonl").read_text())
    gradient = safetensors.load(tmp_path / "run" / "grads-000001.safetensors")
    loss, exact = expected(weight, data)
    assert abs(metrics["loss"] - loss) <= allowed * loss
    found = gradient["weight"].astype(float)
    assert np.abs(found - exact).max() <= allowed * np.abs(exact).max()


def test_the_plan_stores_only_a_tile_of_the_logits(model):
    folder, *_ = model
    text = run("inspect", folder / "model.onnx", "--optimizer", "sgd", "--json")
    plan = json.loads(text)
    loops = [r for r in records(plan["records"]) if r["kind"] == "loop"]
    assert [loop["count"] for loop in loops] == [4]
    sizes = [np.prod(buffer["shape"]) for buffer in plan["buffers"]]
    assert max(sizes) == ROWS // 4 * CLASSES
    labels = next(p for p in plan["ports"] if p["name"] == "labels")
    assert labels["check"] == {"low": 0, "high": CLASSES, "ignored": -100}


@pytest.mark.parametrize("policy", ["fp32", "bf16-amp"])
def test_statistics_change_no_bit(model, policy, tmp_path):
    """Watched logits are computed in the same tiles; statistics cover all rows."""
    folder, weight, data = model
    runs, loops = [], []
    for name, watched in {
        "plain": [],
        "watched": ["--stats", "*:norm,absmax,std,zeros,exponents,underflow(f16)"],
    }.items():
        options = ["--policy", policy, "--optimizer", "sgd", *watched]
        run(
            "train", folder / "model.onnx", "--data", folder / "data.safetensors",
            "--order", "sequential", "--steps", 3, "--save-grads", 3,
            "--out", tmp_path / name, *options,
        )  # fmt: skip
        files = ["metrics.jsonl", "grads-000003.safetensors", "final.safetensors"]
        lines = [
            {k: v for k, v in json.loads(line).items() if "second" not in k}
            for line in (tmp_path / name / files[0]).read_text().splitlines()
        ]
        tensors = [safetensors.load(tmp_path / name / file) for file in files[1:]]
        runs.append(
            ([line["loss"] for line in lines],
             [{k: v.tobytes() for k, v in found.items()} for found in tensors])
        )  # fmt: skip
        plan = json.loads(run("inspect", folder / "model.onnx", "--json", *options))
        loops.append(
            [r["count"] for r in records(plan["records"]) if r["kind"] == "loop"]
        )
    assert loops == [[4], [4]]
    assert runs[0] == runs[1]
    first = next(
        line
        for line in map(
            json.loads, (tmp_path / "watched" / "stats.jsonl").read_text().splitlines()
        )
        if (line["step"], line["kind"], line["layer"]) == (1, "output", "head")
    )
    logits = data["x"].astype(float) @ weight.T
    assert first["absmax"] == pytest.approx(np.abs(logits).max(), rel=1e-2)
    assert sum(first["exponents"].values()) == logits.size


def views(record):
    """Yields all parts of a record and of its nested records that refer to a buffer."""
    if isinstance(record, dict):
        if "buffer" in record:
            yield record
        record = record.values()
    if not isinstance(record, (str, int, float, bool, type(None))):
        for part in record:
            yield from views(part)


def test_threads_of_a_parallel_loop_share_no_memory():
    """Iterations run concurrently, each at any point of the loop's body. In TF32, CPUs have no
    attention kernel, so that each head is an iteration."""
    mini = ROOT / "examples" / "char-gpt" / "mini.onnx"
    plan = json.loads(
        run("inspect", mini, "--json", "--policy", "tf32", "--threads", 3)
    )
    parallel = [r for r in records(plan["records"]) if r.get("slots", 0)]
    assert len(parallel) == 8  # Four layers, forward and backward.
    for loop in parallel:
        assert loop["slots"] == 3
        used = {view["buffer"] for view in views(loop["body"])}
        own = [b for b in map(plan["buffers"].__getitem__, used) if "slot" in b]
        first = min(buffer["offset"] for buffer in own)
        last = max(buffer["offset"] + buffer["bytes"] for buffer in own)
        assert {buffer["slot"] for buffer in own} == {own[0]["slot"]}
        assert last - first <= own[0]["slot"]
        # No other buffer that the loop uses overlaps this memory.
        end = first + 3 * own[0]["slot"]
        for buffer in map(plan["buffers"].__getitem__, used):
            if "slot" not in buffer:
                assert buffer["offset"] + buffer["bytes"] <= first or (
                    buffer["offset"] >= end
                )
