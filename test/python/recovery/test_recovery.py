"""Recovers forward pass, backward pass and updates from ONNX graphs of whole steps.

onnxruntime runs the exported graph, the reference runs the recovered step, and both must
train equally. Names in the graphs are random, and nodes, inputs and outputs are in
random order.
"""

import re
import subprocess

import numpy as np
import onnx
import pytest
from support import training_graphs as graphs
from support.paths import BUILD, ROOT
from support.processes import call
from support.recovery import (
    PIPELINES,
    Exported,
    compare_steps,
    evaluate,
    get_roles,
    lower,
)
from support.reference import ELEMENTS


def change_backward(monkeypatch, before, after):
    assert before in graphs.BACKWARD
    monkeypatch.setattr(graphs, "BACKWARD", graphs.BACKWARD.replace(before, after))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("optimizer", graphs.UPDATES)
def test_steps_train_as_they_were_exported(optimizer, seed, tmp_path):
    check_training(Exported(optimizer, seed), "forward", tmp_path)


def test_another_backward_part_is_kept(tmp_path, monkeypatch):
    """Twice the gradients: linear in the seed, and not those of the loss."""
    change_backward(
        monkeypatch, "dr = Mul(d, mean_slope)",
        "half = Mul(d, mean_slope)\n  dr = Add(half, half)",
    )  # fmt: skip
    check_training(Exported("momentum", 0), "gradient", tmp_path)


def check_training(exported, imported, tmp_path):
    """Against onnxruntime; what is imported is `imported`."""
    text = lower(tmp_path, exported.model, *PIPELINES[:1])
    assert f"func.func @{imported}(" in text
    module = lower(tmp_path, exported.model, *PIPELINES)
    roles = get_roles(module, "step")
    trained = {exported.new[name] for name in graphs.SHAPES}
    assert {name for name, role in roles.items() if role == "parameter"} == trained
    batch = set(exported.pick("xy"))
    assert {name for name, role in roles.items() if role == "batch"} == batch
    outputs = compare_steps(exported, module, tmp_path, steps=4)
    assert outputs["step"] == 4


@pytest.mark.parametrize(
    "optimizer, rule, settings",
    [
        ("sgd", "sgd", {"lr": 0.01, "momentum": 0.0}),
        ("momentum", "sgd", {"lr": 0.01, "momentum": 0.9, "nesterov": 0.0}),
        ("adamw", "adamw",
         {"lr": 0.01, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.1}),
        ("unknown", "exported", {}),
    ],
)  # fmt: skip
def test_updates_become_rules_of_the_library(optimizer, rule, settings, tmp_path):
    text = lower(tmp_path, Exported(optimizer, 0).model, *PIPELINES[:1])
    assert re.findall(r"binade.optimizer @(\w+) ", text) == [rule]
    found = dict(re.findall(r'#binade.setting<"(\w+)" = (\S+) : f64', text))
    for name, value in settings.items():
        assert float(found[name]) == value
    assert len(re.findall(f"binade.optimizer = @{rule}[,}} ]", text)) == len(
        graphs.SHAPES
    )


@pytest.mark.parametrize(
    "numbers",
    [{"eps": 0.0}, {"c1": 0.11}, {"c001": 0.002}, {"one": 1.5}],
    ids=["no epsilon", "other weight", "other weight of squares", "other one"],
)
def test_graphs_that_resemble_a_rule_are_kept(numbers, tmp_path):
    text = lower(tmp_path, Exported("adamw", 0, **numbers).model, *PIPELINES[:1])
    rules = re.findall(r"binade.optimizer @(\w+) ", text)
    if "eps" in numbers:
        # It is AdamW's, with the epsilon that it has.
        assert rules == ["adamw"] and '"eps" = 0.000000e+00' in text
    else:
        assert "adamw" not in rules


def add_linear_term(monkeypatch):
    """A term of the loss whose gradient is a constant."""
    monkeypatch.setattr(graphs, "FORWARD", graphs.FORWARD.replace("loss =", "mean =") + """
  share = Constant <value_float = 0.125> ()
  all = ReduceSum <keepdims = 0> (r)
  term = Mul(all, share)
  loss = Add(mean, term)
""")  # fmt: skip
    change_backward(
        monkeypatch, "dr = Mul(d, mean_slope)",
        "ds = Mul(d, mean_slope)\n  dr = Add(ds, share)",
    )  # fmt: skip


@pytest.mark.parametrize(
    "optimizer, is_linear", [("momentum", False), ("adamw", False), ("momentum", True)]
)
def test_a_loss_scale_enters_the_backward_part(
    optimizer, is_linear, tmp_path, monkeypatch
):
    """Scaled and unscaled by a power of two: the step is the same to the last bit."""
    if is_linear:
        add_linear_term(monkeypatch)
    exported = Exported(optimizer, 1)
    kept = lower(tmp_path, exported.model, "--binade-split-training-step")
    (tmp_path / "kept.mlir").write_text(kept)
    module = call(BUILD / "bin" / "binade-opt", tmp_path / "kept.mlir", *PIPELINES[1:])
    assert module.count("binade.gradient_seed") == 1
    policy = tmp_path / "scaled.yaml"
    policy.write_text("name: scaled\nnarrow: bf16\nwide: f32\nloss_scale: { static: 1024 }\n"
                      "rules:\n  - { match: {}, class: deny }\n")  # fmt: skip
    (tmp_path / "step.mlir").write_text(module)
    scaled = call(
        BUILD / "bin" / "binade-opt", tmp_path / "step.mlir",
        f"--binade-assign-pipeline=policy={{{policy}}}", "--binade-materialize-pipeline",
    )  # fmt: skip
    inputs = exported.pick(graphs.SHAPES) | exported.pick("xy")
    one, other = (evaluate(tmp_path, text, inputs) for text in (module, scaled))
    assert float(other["loss_scale"]) == 1024
    for name in exported.pick(graphs.SHAPES):
        np.testing.assert_array_equal(one[name], other[name])


def draw_gradients(seed):
    """A joint graph without names, its inputs, and the gradients by parameter."""
    model = graphs.make_gradients()
    scrambled, old = graphs.scramble(model, seed)
    new = {name: fresh for fresh, name in old.items()}
    inputs = {new[name]: value for name, value in graphs.draw_inputs(model).items()}
    outputs = graphs.run(scrambled, inputs)
    expected = {new[name]: outputs[new[f"grad_{name}"]] for name in graphs.SHAPES}
    return scrambled, inputs, expected, outputs[new["loss"]]


@pytest.mark.parametrize("seed", range(4))
def test_gradients_belong_to_their_parameters(seed, tmp_path):
    model, inputs, expected, loss = draw_gradients(seed)
    module = lower(tmp_path, model, *PIPELINES[:2])
    roles = get_roles(module, "gradient")
    assert {n for n, role in roles.items() if role == "parameter"} == set(expected)
    outputs = evaluate(tmp_path, module, inputs)
    np.testing.assert_allclose(outputs["loss"], loss, rtol=1e-5)
    for name, gradient in expected.items():
        np.testing.assert_allclose(outputs[name], gradient, rtol=1e-4, atol=1e-5)


def test_hand_written_gradients_are_those_of_torch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    model = graphs.make_gradients()
    inputs = graphs.draw_inputs(model)
    outputs = graphs.run(model, inputs)
    given = {
        name: torch.tensor(value, requires_grad=name in graphs.SHAPES)
        for name, value in inputs.items()
    }
    hidden = torch.tanh(given["x"] @ given["w1"] + given["b1"] + given["b2"])
    result = hidden @ given["w2"] @ given["w3"] @ given["w4"]
    torch.nn.functional.mse_loss(result, given["y"]).backward()
    for name in graphs.SHAPES:
        np.testing.assert_allclose(
            outputs[f"grad_{name}"], given[name].grad, rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("what", ["Exp", "Add"])
def test_values_that_are_not_gradients_are_outputs(what, tmp_path):
    """Outputs that are not linear in the gradient, or that are twice the gradient."""
    model = graphs.make_gradients()
    last = next(n for n in model.graph.node if n.output[0] == "grad_w2")
    last.output[0] = "other"
    operands = ["other"] * (2 if what == "Add" else 1)
    model.graph.node.append(onnx.helper.make_node(what, operands, ["grad_w2"]))
    text = lower(tmp_path, model, *PIPELINES[:1])
    assert "func.func @forward(" in text


@pytest.mark.parametrize(
    "optimizer, update",
    [
        ("adamw", "by 'adamw', 2 states, lr = 0.01,"),
        ("unknown", "by 'exported', 1 states, as the graph has it"),
    ],
)
def test_the_report_says_what_was_recognized(optimizer, update, tmp_path):
    onnx.save(Exported(optimizer, 0).model, tmp_path / "m.onnx")
    done = subprocess.run(
        [BUILD / "bin" / "binade", "import", tmp_path / "m.onnx", "--report",
         "-o", tmp_path / "m.mlir"],
        capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip
    for line in (
        "graph: a loss with its gradients",
        "backward part: derived anew: the graph's has the same gradients",
        "parameter: 6 inputs, 90 elements: ",
        "batch: 2 inputs, 112 elements: ",
        f"update: 6 parameters {update}",
        "loss scale: enters the backward part",
    ):
        assert line in done.stderr


POLICIES = sorted(
    path.stem for path in (ROOT / "lib/Precision/Policies").glob("*.yaml")
)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_takes_a_graph_with_its_gradients(policy, tmp_path):
    """The loss is onnxruntime's, less what three bits of mantissa lose in FP8."""
    model, inputs, trained, loss = draw_gradients(0)
    module = lower(
        tmp_path, model, *PIPELINES, f"--binade-assign-pipeline=policy={{{policy}}}",
        "--binade-materialize-pipeline",
    )  # fmt: skip
    for name in trained:
        argument = rf'tensor<[0-9x]+x(\w+)> {{[^{{}}]*binade.name = "{name}"'
        element = re.search(argument, module).group(1)
        inputs[name] = inputs[name].astype(ELEMENTS[element])
    if 'binade.name = "rng"' in module:  # Gradients are rounded stochastically.
        inputs["rng"] = np.array([1, 0])
    outputs = evaluate(tmp_path, module, inputs)
    tolerance = 0.25 if "f8" in module else 0.05
    np.testing.assert_allclose(float(outputs["loss"]), loss, rtol=tolerance)
    moved = [not np.array_equal(outputs[n], inputs[n]) for n in trained]
    assert all(moved) != bool(outputs["found_inf"])


@pytest.mark.parametrize(
    "op, case, shapes",
    [
        ("softmax_grad", 0, [(2, 3, 4)] * 2),
        ("log_softmax_grad", 1, [(3, 4)] * 2),
        ("conv_weight_grad", 3, [(2, 3, 9, 8), (2, 4, 4, 8)]),
    ],
)
def test_recognized_gradients_have_the_same_values(op, case, shapes, tmp_path):
    """Evaluates the modules of the lit test, before and after the pass."""
    cases = (ROOT / "test/Raising/recognize-gradients.mlir").read_text()
    decomposed = cases.split("// -----")[case]
    (tmp_path / "m.mlir").write_text(decomposed)
    recognized = call(
        BUILD / "bin" / "binade-opt",
        tmp_path / "m.mlir",
        "--binade-recognize-gradients",
    )
    assert op in recognized
    assert "binade.sub" not in recognized and "binade.conv " not in recognized
    draw = np.random.default_rng(0)
    inputs = {
        f"arg{index}": draw.standard_normal(shape).astype(np.float32)
        for index, shape in enumerate(shapes)
    }
    (before,), (after,) = (
        evaluate(tmp_path, text, inputs).values() for text in (decomposed, recognized)
    )
    # Computed in f32, with sums of up to 64 values below 8.
    np.testing.assert_allclose(after, before, rtol=0, atol=4e-6)
