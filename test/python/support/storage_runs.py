"""Runs of the small example with parameters in 16 bits."""

import shutil

import numpy as np
from support.paths import ROOT
from support.reference import binade, safetensors

F32 = np.float32
LOSS = "cross_entropy(prediction, labels)"


def write_policy(folder, master, base="fp32", parameter="bf16", state="f32"):
    path = folder / f"{master}-{parameter}.yaml"
    path.write_text(
        f"name: kept\nextends: {base}\nrules:\n- {{match: {{op: optimizer_update}}, "
        f"parameter: {parameter}, master: {master}, state: {state}}}\n"
    )
    return path


class Mlp:
    """The small example, with a data file that repeats one batch."""

    def __init__(self, folder):
        self.folder = folder
        self.model = shutil.copy(ROOT / "examples/mlp/mlp.onnx", folder)
        draw = np.random.default_rng(0)
        safetensors.save(folder / "data.safetensors", {
            "x": draw.standard_normal((8, 16)).astype(F32),
            "labels": draw.integers(0, 4, 8)})  # fmt: skip

    def train(self, policy, steps, *more, out="run", optimizer="adamw", model=None,
              **options):  # fmt: skip
        process = binade(
            "train", model or self.model, *([] if model else ["--loss", LOSS]),
            "--data", self.folder / "data.safetensors", "--order", "sequential",
            *([] if model else ["--policy", policy, "--optimizer", optimizer]),
            "--steps", steps, "--out", self.folder / out, "--overwrite", *more, **options,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
        return safetensors.load(self.folder / out / "final.safetensors")

    def weights(self):
        """The f32 parameters at the start, from a run with a learning rate of 0."""
        return self.train("fp32", 1, "--lr", 0, out="start", optimizer="sgd")
