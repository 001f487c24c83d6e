"""Gradients that the compiler derives of a module, evaluated by the reference."""

import subprocess

from support.paths import BUILD
from support.reference import evaluate

OPT = BUILD / "bin" / "binade-opt"


def axes(*values):
    listed = ", ".join(map(str, values))
    return f"axes = array<i64: {listed}>" if values else "axes = array<i64>"


RESULTS_IN_F32 = {"cross_entropy"}


def gradients_of(module, inputs, folder):
    source, target = folder / "forward.mlir", folder / "gradient.mlir"
    source.write_text(module)
    subprocess.run(
        [OPT, source, "--binade-build-gradient", "-o", target], check=True, timeout=600
    )
    outputs = evaluate(target.read_text(), inputs)
    return {n.removeprefix("gradient/"): v for n, v in outputs.items() if n != "loss"}
