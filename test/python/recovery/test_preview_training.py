"""Steps whose optimizer is a node of ai.onnx.preview.training train as ONNX's evaluator.

The node becomes a rule of the library where one computes the same: then it fuses, and
its states take every format that there is.
"""

import re

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from support import training_graphs as graphs
from support.recovery import PIPELINES, compare_steps, lower
from support.reference import binade

# The op, its states, its attributes; the rule that it is, and settings of that.
NODES = {
    "adam": ("Adam", "mv", {"alpha": 0.9, "beta": 0.999, "epsilon": 1e-4},
             "adam_onnx", {"eps": 1e-4, "weight_decay": 0.0}),
    "adam-decay": ("Adam", "mv", {"norm_coefficient": 0.01},
                   "adam_onnx", {"weight_decay": 0.01, "norm_coefficient_post": 0.0}),
    "adagrad": ("Adagrad", "m", {"decay_factor": 0.5, "epsilon": 1e-5},
                "adagrad", {"lr_decay": 0.5, "eps": 1e-5}),
    "adagrad-decay": ("Adagrad", "m", {"norm_coefficient": 0.01},
                      "adagrad", {"lr_decay": 0.0, "weight_decay": 0.01}),
    "momentum": ("Momentum", "m", {"alpha": 0.9, "beta": 1.0, "mode": "standard",
                                   "norm_coefficient": 0.0},
                 "sgd", {"momentum": 0.9, "dampening": 0.0, "nesterov": 0.0}),
    "nesterov": ("Momentum", "m", {"alpha": 0.9, "beta": 1.0, "mode": "nesterov",
                                   "norm_coefficient": 0.01},
                 "sgd", {"momentum": 0.9, "weight_decay": 0.01, "nesterov": 1.0}),
    # Damped, which no spelling says: a rule of the module's own.
    "damped": ("Momentum", "m", {"alpha": 0.9, "beta": 0.5, "mode": "standard",
                                 "norm_coefficient": 0.0}, "exported", {}),
}  # fmt: skip


RATE = 0.01


def make_step(op, states, attributes, is_given=False):
    """The network of `training_graphs` with one node for all of its updates, by a rate
    and a count that are inputs, or a constant and a value that is counted up."""
    names = list(graphs.SHAPES)
    kinds = ["", *(f"{state}_" for state in states)]
    inputs = ["rate", "step", *names, *(f"grad_{name}" for name in names)]
    inputs += [kind + name for kind in kinds[1:] for name in names]
    outputs = [f"n_{kind}{name}" for kind in kinds for name in names]
    numbers = ["int64 step", *(["float rate"] if is_given else [])]
    nodes = "" if is_given else (
        f"  rate = Constant <value_float = {RATE}> ()\n"
        "  unit1 = Constant <value_int = 1> ()\n  n_step = Add(step, unit1)\n"
    )  # fmt: skip
    model = graphs.parse(
        [graphs.declare(kind + name, graphs.SHAPES[name])
         for kind in kinds for name in names] + [*numbers, *graphs.DATA],
        ["float loss", *([] if is_given else ["int64 n_step"])]
        + [graphs.declare(f"n_{kind}{name}", graphs.SHAPES[name])
           for kind in kinds for name in names],
        graphs.FORWARD + graphs.BACKWARD + nodes,
    )  # fmt: skip
    domain = "ai.onnx.preview.training"
    model.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    model.graph.node.append(
        onnx.helper.make_node(op, inputs, outputs, domain=domain, **attributes)
    )
    return model


class Exported:
    """A step without names, and ONNX's evaluator of it."""

    def __init__(self, op, states, attributes, is_given=False):
        model = make_step(op, states, attributes, is_given)
        self.model, old = graphs.scramble(model)
        self.new = {name: fresh for fresh, name in old.items()}
        self.inputs = graphs.draw_inputs(model) | {"step": np.int64(0)}
        if is_given:
            self.inputs["rate"] = np.float32(RATE)
        self.outputs = [output.name for output in model.graph.output]
        # It takes sorted graphs only.
        self.evaluator = ReferenceEvaluator(model)

    def step(self):
        outputs = dict(zip(self.outputs, self.evaluator.run(None, self.inputs)))
        for name in self.inputs:
            if f"n_{name}" in outputs:
                self.inputs[name] = np.asarray(outputs[f"n_{name}"])
        if "n_step" not in outputs:
            self.inputs["step"] = self.inputs["step"] + 1
        return outputs["loss"]

    def pick(self, names):
        return {self.new[name]: self.inputs[name] for name in names}


@pytest.mark.parametrize(
    "node, is_given",
    [(node, is_given) if (node, is_given) in
     {("adam-decay", False), ("adagrad", False), ("nesterov", False),
      ("adam", True), ("damped", True)}
     else pytest.param(node, is_given, marks=pytest.mark.nightly)
     for node in NODES for is_given in (False, True)],
)  # fmt: skip
def test_steps_train_as_onnx_says(node, is_given, tmp_path):
    *described, rule, settings = NODES[node]
    exported = Exported(*described, is_given)
    imported = lower(tmp_path, exported.model, *PIPELINES[:1])
    rules = re.findall(r"binade.optimizer @(\w+) ", imported)
    # One for each order of the states, where the rule is the module's own.
    assert {name.rstrip("23456") for name in rules} == {rule}
    found = dict(re.findall(r'#binade.setting<"(\w+)" = (\S+) : f64', imported))
    for name, value in settings.items():
        assert np.float32(float(found[name])) == np.float32(value), name

    optimizer = f"{PIPELINES[2]}=settings=lr={RATE}" if is_given else PIPELINES[2]
    module = lower(tmp_path, exported.model, *PIPELINES[:2], optimizer)
    compare_steps(exported, module, tmp_path, RATE)


def test_states_of_a_node_take_formats(tmp_path):
    onnx.save(Exported(*NODES["adam"][:3]).model, tmp_path / "m.onnx")
    process = binade(
        "compile", tmp_path / "m.onnx", "--states", "bf16", "-o", tmp_path / "step.bnd"
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda node: node.input.pop(), "expected R, T and 3 tensors"),
        (lambda node: node.attribute.pop(), "expected an attribute"),
    ],
    ids=["inputs", "attributes"],
)
def test_incomplete_nodes_are_refused(change, message, tmp_path):
    model = make_step(*NODES["momentum"][:3])
    change(model.graph.node[-1])
    onnx.save(model, tmp_path / "m.onnx")
    process = binade("import", tmp_path / "m.onnx", "-o", tmp_path / "m.mlir")
    assert process.returncode == 3
    assert message in process.stderr
