"""`--ledger=paper` reproduces Table 2 of COAT (Xi et al., 2024): the memory that a Llama layer
saves for backward, per operator, in units of batch x sequence x hidden x 2 bytes."""

import json

import numpy as np
import pytest
from support.paths import ROOT
from support.reference import binade

onnx = pytest.importorskip("onnx")
from onnx import helper  # noqa: E402

BATCH, LENGTH, HIDDEN, INNER, HEADS, WORDS = 4, 32, 96, 256, 6, 64
UNIT = BATCH * LENGTH * HIDDEN * 2
assert INNER * 3 == HIDDEN * 8  # The ratio in the paper.
NORM, LINEAR, ROTATION = "rms_norm", "matmul", "neg mul add"
FLASH, SILU, GATE = "attention", "silu", "mul"


class Llama:
    """A Llama as frameworks export it: norms and rotations are decomposed."""

    def __init__(self, layers):
        self.nodes, self.weights, self.constants = [], {}, {}
        x = self.node("Gather", self.weight("embedding", WORDS, HIDDEN), "tokens")
        for i in range(layers):
            x = self.layer(f"layers.{i}", x)
        logits = self.linear("head", self.norm("norm", x), HIDDEN, WORDS)
        logits = self.node("Reshape", logits, self.constant([BATCH * LENGTH, WORDS]))
        self.node("SoftmaxCrossEntropyLoss", logits, "labels", outputs=["loss"])

    def node(self, kind, *inputs, name=None, outputs=None, **attributes):
        outputs = outputs or [f"v{len(self.nodes)}"]
        name = name or f"{kind}_{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(kind, inputs, outputs, name=name, **attributes)
        )
        return outputs[0]

    def weight(self, name, *shape):
        draw = np.random.default_rng(len(self.weights))
        self.weights[name] = draw.standard_normal(shape, np.float32) / shape[0] ** 0.5
        return name

    def constant(self, values, dtype=np.int64):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.array(values, dtype)
        return name

    def number(self, value):
        return self.constant(value, np.float32)

    def linear(self, name, x, rows, columns):
        return self.node("MatMul", x, self.weight(f"{name}.weight", rows, columns),
                         name=name)  # fmt: skip

    def norm(self, name, x):
        square = self.node("Pow", x, self.number(2))
        mean = self.node("ReduceMean", square, self.constant([-1]), keepdims=1)
        root = self.node("Sqrt", self.node("Add", mean, self.number(1e-5)))
        scaled = self.node("Mul", x, self.node("Reciprocal", root))
        return self.node("Mul", self.weight(f"{name}.weight", HIDDEN), scaled)

    def heads(self, name, x):
        x = self.linear(name, x, HIDDEN, HIDDEN)
        shape = self.constant([BATCH, LENGTH, HEADS, HIDDEN // HEADS])
        return self.node("Transpose", self.node("Reshape", x, shape), perm=[0, 2, 1, 3])

    def rotate(self, name, x):
        half = HIDDEN // HEADS // 2
        angle = np.arange(LENGTH)[:, None] / 100 ** (np.arange(2 * half) % half / half)
        ends = [0, half, 2 * half]
        first, second = (
            self.node("Slice", x, *(self.constant([v]) for v in (start, stop, 3)))
            for start, stop in zip(ends, ends[1:])
        )
        rotated = self.node("Concat", self.node("Neg", second), first, axis=3)
        kept = self.node("Mul", x, self.number(np.cos(angle)))
        return self.node("Add", kept, self.node("Mul", rotated, self.number(np.sin(angle))),
                         name=f"{name}.rotate")  # fmt: skip

    def layer(self, name, x):
        y = self.norm(f"{name}.norm1", x)
        q, k, v = (self.heads(f"{name}.{part}", y) for part in "qkv")
        y = self.node("Attention", self.rotate(f"{name}.q", q),
                      self.rotate(f"{name}.k", k), v, is_causal=1)  # fmt: skip
        y = self.node("Transpose", y, perm=[0, 2, 1, 3])
        y = self.node("Reshape", y, self.constant([BATCH, LENGTH, HIDDEN]))
        x = self.node("Add", x, self.linear(f"{name}.o", y, HIDDEN, HIDDEN))
        y = self.norm(f"{name}.norm2", x)
        gate, up = (self.linear(f"{name}.{part}", y, HIDDEN, INNER)
                    for part in ("gate", "up"))  # fmt: skip
        y = self.node("Mul", gate, self.node("Sigmoid", gate))
        y = self.node("Mul", y, up)
        return self.node("Add", x, self.linear(f"{name}.down", y, INNER, HIDDEN))

    def save(self, path):
        def describe(name, kind, *shape):
            return helper.make_tensor_value_info(name, kind, shape)

        integer = onnx.TensorProto.INT64
        initializers = [onnx.numpy_helper.from_array(value, name)
                        for name, value in (self.weights | self.constants).items()]  # fmt: skip
        graph = helper.make_graph(
            self.nodes, "llama",
            [describe("tokens", integer, BATCH, LENGTH),
             describe("labels", integer, BATCH * LENGTH)],
            [describe("loss", onnx.TensorProto.FLOAT)], initializers,
        )  # fmt: skip
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10
        )
        model.metadata_props.add(
            key="binade.trainable", value=json.dumps(list(self.weights))
        )
        onnx.save(model, path)
        return path


def inspect(model, policy):
    process = binade("inspect", model, "--loss-output", "loss", "--policy", policy,
                     "--ledger=paper", "--json")  # fmt: skip
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    return {row["name"]: row for row in found["paper"]}, found["plan"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models of two and of three layers; their difference is one layer."""
    folder = tmp_path_factory.mktemp("llama")
    return [Llama(n).save(folder / f"llama{n}.onnx") for n in (2, 3)]


def measure_layer(models, policy):
    """The bytes of each operator of one layer, in units, and the bytes of all scales."""
    less, more = (inspect(model, policy)[0] for model in models)
    assert less.keys() == more.keys()
    change = {name: (more[name]["bytes"] - less[name]["bytes"]) / UNIT for name in more}
    scales = sum(more[name]["scale_bytes"] - less[name]["scale_bytes"] for name in more)
    return {name: units for name, units in change.items() if units}, scales


POLICIES = {
    # FP8 linear layers as in Transformer Engine; all other ops are bf16.
    "te": """
name: te
extends: bf16
rules:
- match: { op: matmul, role: weight }
  quantize: { activation: e4m3-tensor, weight: e4m3-tensor, gradient: e5m2-tensor }
""",
    # The inputs of attention are saved in bf16, as FlashAttention does.
    "coat-flash": """
name: coat-flash
extends: coat
rules:
- { match: { op: add, name: "*.rotate" }, saved: bf16 }
""",
}


@pytest.mark.parametrize("name, norm, active, linear, total", [
    ("bf16-amp", 4, 8, 5.66, 22.66), ("te", 2, 8, 3.33, 18.33),
    ("coat-flash", 1, 4, 3.33, 13.33),
])  # fmt: skip
def test_table_2(models, tmp_path, name, norm, active, linear, total):
    policy = name
    if name in POLICIES:
        policy = tmp_path / f"{name}.yaml"
        policy.write_text(POLICIES[name])
    units, scales = measure_layer(models, policy)
    assert units.pop(NORM) == norm
    assert units.pop(SILU) + units.pop(GATE) == pytest.approx(active)
    assert units.pop(ROTATION) == 2 and units.pop(FLASH) == 3
    found = units.pop(LINEAR)
    assert found == pytest.approx(linear, abs=0.01) and not units
    everything = norm + active + 2 + 3 + found
    assert everything == pytest.approx(total, abs=0.01)
    # The paper does not count scales. Three of the four inputs of a layer's matmuls have one
    # scale each, and attention saves the fourth in bf16. Coat's other saved values have a
    # scale of 2 bytes per 16 elements.
    groups = (norm + active) * UNIT / 16 * 2
    assert scales == {"bf16-amp": 0, "te": 3 * 4, "coat-flash": 3 * 2 + groups}[name]


def test_a_shared_tensor_counts_once(models):
    rows, _ = inspect(models[0], "fp32")
    # The seven linear ops of a layer read four different tensors; the head reads another
    # one. No other op reads the inputs of the norms.
    assert (
        rows[LINEAR]["operators"] == 2 * 7 + 1 and rows[LINEAR]["tensors"] == 2 * 4 + 1
    )
    assert rows[NORM]["tensors"] == rows[NORM]["operators"] == 5
    assert rows[FLASH]["tensors"] == 2 * 3
    assert rows[NORM]["bytes"] == 5 * 2 * UNIT


def test_the_widest_format_counts(tmp_path):
    """A matmul reads a value in FP8 that a GELU reads in bf16: it counts as bf16."""
    model = onnx.parser.parse_model("""
      <ir_version: 9, opset_import: ["" : 20]>
      net (float[8, 16] x, int64[8] labels) => (float loss)
        <float[16, 32] up, float[32, 32] turn, float[32, 4] down> {
        a = MatMul(x, up)
        b = MatMul(a, turn)
        c = Gelu(a)
        d = Add(b, c)
        logits = MatMul(d, down)
        loss = SoftmaxCrossEntropyLoss(logits, labels)
      }""")
    weights = {"up": (16, 32), "turn": (32, 32), "down": (32, 4)}
    for name, shape in weights.items():
        value = np.ones(shape, np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    model.metadata_props.add(key="binade.trainable", value=json.dumps(list(weights)))
    onnx.save(model, tmp_path / "net.onnx")
    rows, _ = inspect(tmp_path / "net.onnx", "fp8-current")
    # a and d, both in bf16: the last layer is not FP8.
    assert rows[LINEAR]["tensors"] == 2 and "gelu" not in rows
    assert rows[LINEAR]["bytes"] == 2 * 8 * 32 * 2


def test_the_plan_saves_less_than_the_paper_counts(models):
    """The plan saves only what the backward pass reads, not the inputs of every operator."""
    (less, before), (more, after) = (inspect(model, "fp32") for model in models)
    paper = sum(more[name]["bytes"] - less[name]["bytes"] for name in more)
    plan = after["saved"] - before["saved"]
    assert 0.5 * paper < plan < 0.8 * paper


def test_the_ledger_as_text(models):
    process = binade("inspect", models[0], "--loss-output", "loss", "--policy", "coat",
                     "--ledger=paper")  # fmt: skip
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    width = len("cross_entropy reduce_sum")
    rows = {line[:width].strip(): line[width:].split() for line in lines[2:]}
    assert rows["attention"][:2] == ["2", "6"]
    assert rows["total"][0] == str(sum(int(row[1]) for name, row in rows.items()
                                       if len(row) == 6 and name != "operator"))  # fmt: skip
    assert lines[-1].startswith("the plan: saved ")


def test_a_bundle_has_no_paper_ledger(tmp_path):
    bundle = tmp_path / "step.bnd"
    process = binade("compile", ROOT / "examples/mlp/mlp.onnx", "--loss",
                     "cross_entropy(prediction, labels)", "-o", bundle)  # fmt: skip
    assert process.returncode == 0, process.stderr
    process = binade("inspect", bundle, "--ledger=paper")
    assert process.returncode == 2
    assert "counts values of a model, which a bundle has no more" in process.stderr
