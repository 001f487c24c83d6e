"""Casts are fused into the kernel that computes or reads the value.

Reads the kernels of the examples' models in the IR. Only casts of parameters may have kernels
of their own, because no kernel computes a parameter.
"""

import re

import pytest
from support.paths import ROOT
from support.reference import binade, without_evaluation

EXAMPLE = ROOT / "examples" / "char-gpt"
KERNEL = re.compile(r"func\.func private @(\w+)\((.*?)\n  \}", re.DOTALL)
OP = re.compile(r"^    (?:%\S+(?:, %\S+)* = )?(binade\.\w+)", re.MULTILINE)
LAUNCH = re.compile(r"^ +(%.*) = binade\.launch \[([^]]*)\]\(([^)]*)\)", re.MULTILINE)
# Ops that only move data.
MOVES = {
    f"binade.{op}"
    for op in ("reshape", "transpose", "slice", "concat", "broadcast", "pad")
}
VIEW = re.compile(r"(%\S+) = binade\.(?:reshape|slice|save) (%\w+)")
PARAMETER = re.compile(
    r'(%arg\d+): [^%]*?binade\.name = "([^"]*)", binade\.role = #binade\.role<parameter>'
)
LINEAR = ("attention.qkv", "attention.proj", "mlp.0", "mlp.2")  # Layers of a block.


class Kernels:
    """The kernels and launches of a module after the phase `kernels`."""

    def __init__(self, text):
        step = text[text.index("func.func @step") :]
        self.parameters = dict(PARAMETER.findall(step[: step.index("\n")]))
        self.views = dict(VIEW.findall(step))
        self.ops = {name: OP.findall(body) for name, body in KERNEL.findall(text)}
        self.launches = [
            (symbol.strip("@ "), [operand.strip() for operand in operands.split(",")])
            for _, symbols, operands in LAUNCH.findall(step)
            for symbol in symbols.split(",")
        ]

    def only_casts(self, kernel):
        ops = set(self.ops[kernel])
        return "binade.cast" in ops and ops <= MOVES | {"binade.cast"}

    def find_parameter(self, value):
        """Returns the name of the parameter of which `value` is a view, or None."""
        while value in self.views:
            value = self.views[value]
        return self.parameters.get(value)


@pytest.mark.parametrize("model", ["char-gpt", "mini"])
@pytest.mark.parametrize("policy", ["bf16-amp", "fp16-amp"])
def test_only_casts_of_parameters_have_their_own_kernels(model, policy, tmp_path):
    path = tmp_path / "kernels.mlir"
    process = binade(
        "compile", EXAMPLE / f"{model}.onnx", "--policy", policy,
        "--activation-memory", "100%",  # Casts of large weights are not recomputed.
        "--to=kernels", "-o", path,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    kernels = Kernels(without_evaluation(path.read_text()))
    casts = [launch for launch in kernels.launches if kernels.only_casts(launch[0])]
    found = [
        kernels.find_parameter(value) for _, operands in casts for value in operands
    ]
    # One for each weight and each bias of a matmul: four of both in each block, and the
    # weight of the head, which has no bias.
    blocks = {"char-gpt": 6, "mini": 4}[model]
    expected = {
        f"blocks.{block}.{layer}.{kind}"
        for block in range(blocks)
        for layer in LINEAR
        for kind in ("weight", "bias")
    } | {"head.weight"}
    assert len(casts) == len(expected) == 8 * blocks + 1
    assert set(found) == expected
    # Other casts are in kernels with other ops.
    assert any(
        "binade.cast" in kernels.ops[kernel] and not kernels.only_casts(kernel)
        for kernel, _ in kernels.launches
    )
