"""Parameters that the loss does not depend on. As in PyTorch, they have no gradient, and
optimizers do not update them: they get no weight decay and no state."""

import json

import numpy as np
import pytest
from support.reference import binade, safetensors

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

STEPS = 4
# No node reads `unread`, no node reads the result computed from `dead`, `side` affects only
# another output, and `limit` is only compared. `flat` has a gradient, which is 0: it decays.
GRAPH = """
<ir_version: 10, opset_import: ["" : 20]>
g (float[8, 4] x) => (float loss, float[8, 2] other)
  <float[4, 3] weight, float[3] bias, float[5] unread, float[3] dead, float[3, 2] side,
   float[3] limit, float[3] flat> {
  product = MatMul(x, weight)
  y = Add(product, bias)
  nothing = Mul(y, dead)
  other = MatMul(y, side)
  isLarge = Greater(y, limit)
  negative = Neg(y)
  bent = Where(isLarge, y, negative)
  cubes = Mul(bent, product)
  rise = Mul(flat, flat)
  sign = Sign(rise)
  all = Add(cubes, sign)
  loss = ReduceMean <keepdims = 0> (all)
}
"""
SHAPES = {"weight": (4, 3), "bias": (3,), "unread": (5,), "dead": (3,), "side": (3, 2),
          "limit": (3,), "flat": (3,)}  # fmt: skip
TRAINED = ["weight", "bias", "flat"]
RULES = {
    "adamw": (torch.optim.AdamW, {"weight_decay": 0.5}),
    "sgd": (torch.optim.SGD, {"weight_decay": 0.5, "momentum": 0.9}),
}


@pytest.fixture(scope="module")
def values():
    draw = np.random.default_rng(3)
    return {name: draw.standard_normal(s, np.float32) for name, s in SHAPES.items()}


@pytest.fixture(scope="module")
def folder(values, tmp_path_factory):
    path = tmp_path_factory.mktemp("untrained")
    model = onnx.parser.parse_model(GRAPH)
    for name, value in values.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    model.metadata_props.add(key="binade.trainable", value=json.dumps(list(values)))
    onnx.save(model, path / "m.onnx")
    x = np.random.default_rng(4).standard_normal((8 * STEPS, 4), np.float32)
    safetensors.save(path / "data.safetensors", {"x": x})
    return path


def train_with_pytorch(rule, values, x):
    parameters = {n: torch.nn.Parameter(torch.tensor(v)) for n, v in values.items()}
    make, options = RULES[rule]
    optimizer = make(parameters.values(), lr=0.1, **options)
    for batch in torch.tensor(x).split(8):
        optimizer.zero_grad()
        product = batch @ parameters["weight"]
        y = product + parameters["bias"]
        bent = torch.where(y > parameters["limit"], y, -y)
        rise = parameters["flat"] * parameters["flat"]
        (bent * product + torch.sign(rise)).mean().backward()
        optimizer.step()
    states = {n for n, p in parameters.items() if optimizer.state.get(p)}
    return {n: p.detach().numpy() for n, p in parameters.items()}, states


@pytest.mark.parametrize("more", [[], ["--accumulate", 1, "--clip", 1e6]], ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_parameters_without_gradient_are_not_updated(
    rule, more, folder, values, tmp_path
):
    settings = [f"{name}={value}" for name, value in RULES[rule][1].items()]
    done = binade(
        "train", folder / "m.onnx", "--data", folder / "data.safetensors", "--order",
        "sequential", "--optimizer", rule, "--lr", 0.1, "--steps", STEPS, "--out",
        tmp_path / "run", *(word for text in settings for word in ("--set", text)), *more,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    final = safetensors.load(tmp_path / "run/final.safetensors")
    x = safetensors.load(folder / "data.safetensors")["x"]
    expected, states = train_with_pytorch(rule, values, x)
    assert states == set(TRAINED)
    assert {
        name.split("/")[-1] for name in final if name.startswith("state/")
    } == states
    for name, value in values.items():
        if name in TRAINED:
            np.testing.assert_allclose(
                final[name], expected[name], rtol=1e-4, atol=1e-5
            )
            assert not np.array_equal(final[name], value)
        else:
            assert final[name].tobytes() == expected[name].tobytes() == value.tobytes()
            assert f"does not depend on parameter '{name}'" in done.stderr


def test_init_file_may_contain_untrained_parameters(folder, values, tmp_path):
    given = {name: value + 1 for name, value in values.items()}
    safetensors.save(tmp_path / "init.safetensors", given)
    done = binade(
        "train", folder / "m.onnx", "--data", folder / "data.safetensors", "--init",
        tmp_path / "init.safetensors", "--steps", 1, "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    final = safetensors.load(tmp_path / "run/final.safetensors")
    for name in set(values) - set(TRAINED):
        assert final[name].tobytes() == given[name].tobytes()


def test_a_loss_without_parameters_is_rejected(folder, tmp_path):
    done = binade(
        "train", folder / "m.onnx", "--data", folder / "data.safetensors", "--freeze",
        "weight", "--freeze", "bias", "--freeze", "flat", "--steps", 1, "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.returncode == 3
    assert "has no parameter to train" in done.stderr
    assert "if the loss depends on them" in done.stderr


def test_import_report_names_untrained_parameters(folder):
    done = binade("import", folder / "m.onnx", "--report", "-o", folder / "m.mlir")
    assert done.returncode == 0, done.stderr
    assert (
        "not trained: the loss does not depend on 'unread', 'dead', 'side', 'limit'"
        in done.stderr + done.stdout
    )
