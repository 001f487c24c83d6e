"""Exported training steps: lowered by the pipelines and compared with onnxruntime."""

import re

import numpy as np
import onnx
from support import training_graphs as graphs
from support.paths import BUILD
from support.processes import call
from support.reference import EVAL, safetensors

PIPELINES = [
    f"--binade-{phase}-pipeline" for phase in ("import", "autodiff", "optimizer")
]


def lower(folder, model, *pipelines):
    onnx.save(model, folder / "m.onnx")
    imported = folder / "imported.mlir"
    call(BUILD / "bin" / "binade-translate", "--import-onnx", folder / "m.onnx",
         "-o", imported)  # fmt: skip
    return call(BUILD / "bin" / "binade-opt", imported, *pipelines)


def get_roles(text, function):
    """{name: role} of the arguments."""
    arguments = text.split(f"func.func @{function}(")[1].split(") -> (")[0]
    return dict(
        re.findall(
            r'binade.name = "([^"]*)", (?:binade.optimizer = [^,]*, )?'
            r"binade.role = #binade.role<(\w+)>",
            arguments,
        )
    )


def evaluate(folder, module, inputs):
    (folder / "step.mlir").write_text(module)
    safetensors.save(folder / "in.safetensors", inputs)
    call(EVAL, folder / "step.mlir", "--inputs", folder / "in.safetensors",
         "--out", folder / "out.safetensors")  # fmt: skip
    return safetensors.load(folder / "out.safetensors")


class Exported:
    """A training step without names, which onnxruntime runs step by step."""

    def __init__(self, optimizer, seed, **numbers):
        model = graphs.make_step(optimizer, numbers)
        self.model, self.old = graphs.scramble(model, seed)
        self.new = {old: new for new, old in self.old.items()}
        self.inputs = {self.new[k]: v for k, v in graphs.draw_inputs(model).items()}

    def step(self):
        outputs = graphs.run(self.model, self.inputs)
        for name in self.inputs:
            updated = self.new.get(f"n_{self.old[name]}")
            if updated in outputs:
                self.inputs[name] = outputs[updated]
        return outputs[self.new["loss"]]

    def pick(self, names):
        return {self.new[name]: self.inputs[self.new[name]] for name in names}


def compare_steps(exported, module, folder, rate=0.01, steps=3):
    """Compares several steps of `module` with those of `exported`, which keeps its state.
    Returns the last outputs of `module`."""
    roles, batch = get_roles(module, "step"), exported.pick("xy")
    state = exported.pick(graphs.SHAPES)
    for count in range(1, steps + 1):
        outputs = evaluate(folder, module, state | batch)
        np.testing.assert_allclose(outputs["loss"], exported.step(), rtol=1e-5)
        state = {n: v for n, v in outputs.items() if roles.get(n, "") in
                 ("parameter", "state", "step")}  # fmt: skip
        for name, value in exported.pick(graphs.SHAPES).items():
            # In f32 1 - 0.999^t, which the graph has, is wrong by 1.3e-5 at first:
            # half of that of a step, and as much for all other roundings.
            allowed = 1.3e-5 * rate * count
            np.testing.assert_allclose(state[name], value, rtol=1e-5, atol=allowed)
    return outputs
