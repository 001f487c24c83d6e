"""How clip-tiny and detector-tiny are trained to see gradients vanish: data, starts, rates.

Both models come with the data that they are trained on and lie outside of the repository,
in the folder that BINADE_MODELS names. Where a loss is nearly 0, gradients are small: so
some runs start from a model that f32 has trained for long, which Binade does itself.
"""

from __future__ import annotations

import math
import os
import pathlib
import sys
from dataclasses import dataclass

import numpy as np
import onnx
from training import ROOT, binade, require

from binade import safetensors

MODELS = pathlib.Path(
    os.environ.get("BINADE_MODELS", ROOT.parent / "shared" / "models")
)
CAP = math.log(100)  # CLIP's bound of the logit scale.
HARD = 10  # Batches that are hard, one after the other.
ADAMW = [
    "--optimizer", "adamw", "--set", "beta1=0.9", "--set", "beta2=0.98",
    "--set", "eps=1e-8", "--set", "weight_decay=0.01",
]  # fmt: skip


@dataclass(frozen=True)
class Start:
    """What f32 trains first: so many samples with captions of their own, so many steps."""

    samples: int | None
    steps: int


@dataclass(frozen=True)
class Regime:
    """A run; `hard` is by what the pixels of hard batches are multiplied, 0 for as usual."""

    steps: int
    rate: float
    warm_up: int
    model: str = "clip-tiny"
    batch: int = 32
    start: str = ""
    hard: int | None = None
    first: int = 301  # The step of the first hard batch.


STARTS = {"late": Start(None, 12000), "memo": Start(128, 2500)}
REGIMES = {
    "natural": Regime(1000, 1e-3, 50, hard=0),
    "late": Regime(800, 1e-4, 20, start="late", hard=0),
    "late-raw": Regime(800, 1e-4, 20, start="late", hard=1024),
    "memo": Regime(800, 1e-4, 20, start="memo", hard=0),
    "memo-raw": Regime(800, 1e-4, 20, start="memo", hard=1024),
    "detector": Regime(1000, 2e-3, 50, model="detector-tiny", batch=16),
}


def find_model(name: str) -> pathlib.Path:
    """The model's folder; ends the command where it is absent."""
    folder = MODELS / name
    if not (folder / "stream.safetensors").exists():
        sys.exit(
            f"{folder}: expected loss.onnx, weights.safetensors and stream.safetensors of "
            "the model there; BINADE_MODELS names the folder of the models"
        )
    return folder


def as_inputs(model: str, tensors: dict[str, np.ndarray], raw: int = 0) -> dict:
    """Stored bytes as the model's inputs: pixels from -1 to 1, or times `raw`."""
    inputs = {}
    for name, values in tensors.items():
        if name in ("pixel_values", "x"):
            inputs[name] = values.astype(np.float32)
            inputs[name] = inputs[name] * raw if raw else inputs[name] / 128 - 1
        elif name == "box":
            inputs[name] = values.astype(np.float32) / 128
        else:
            kind = np.float32 if name == "obj" else np.int64
            inputs[name] = values.astype(kind)
    return inputs


class Workshop:
    """Files that runs share, in `out`: made once."""

    def __init__(self, out: pathlib.Path, seed: int) -> None:
        self.out, self.seed = out, seed
        out.mkdir(parents=True, exist_ok=True)

    def find_graph(self, model: str) -> pathlib.Path:
        """The model with its loss. clip-tiny's logit scale is bounded where it is read."""
        source, folder = find_model(model), self.out / model
        folder.mkdir(exist_ok=True)
        graph = onnx.load(source / "loss.onnx", load_external_data=False)
        if model == "clip-tiny":
            nodes = graph.graph.node
            at = next(i for i, node in enumerate(nodes) if node.op_type == "Exp")
            bound = onnx.helper.make_node(
                "Min", [nodes[at].input[0], "cap"], ["capped"]
            )
            nodes[at].input[0] = "capped"
            nodes.insert(at, bound)
            cap = onnx.numpy_helper.from_array(np.float32(CAP), "cap")
            graph.graph.initializer.append(cap)
        onnx.save(graph, folder / "loss.onnx")
        weights = (source / "weights.safetensors").read_bytes()
        (folder / "weights.safetensors").write_bytes(weights)
        return folder / "loss.onnx"

    def read_samples(self, regime: Regime) -> dict[str, np.ndarray]:
        """What a regime trains on."""
        stored = safetensors.load(find_model(regime.model) / "stream.safetensors")
        if regime.start:
            captions = stored["input_ids"]
            first = np.sort(np.unique(captions, axis=0, return_index=True)[1])
            first = first[: STARTS[regime.start].samples]
            stored = {name: values[first] for name, values in stored.items()}
        return as_inputs(regime.model, stored)

    def write_batches(self, regime: Regime) -> pathlib.Path:
        """Samples in the order in which steps take them: that of the file in the first
        run of what begins untrained, else shuffled in each epoch, without its rest."""
        samples = self.read_samples(regime)
        count, batch = len(next(iter(samples.values()))), regime.batch
        if self.seed == 0 and not regime.start:
            order = np.arange(regime.steps * batch) % count
        else:
            random = np.random.default_rng(self.seed)
            whole = count // batch * batch
            epochs = -(-regime.steps * batch // whole)
            shuffled = [random.permutation(count)[:whole] for _ in range(epochs)]
            order = np.concatenate(shuffled)[: regime.steps * batch]
        name = f"{regime.model}-{regime.start or 'all'}-{self.seed}.safetensors"
        data = {name: values[order] for name, values in samples.items()}
        safetensors.save(self.out / name, data)
        return self.out / name

    def write_hard(self, regime: Regime) -> pathlib.Path:
        stored = safetensors.load(find_model(regime.model) / "hard.safetensors")
        path = self.out / f"hard-{regime.hard}.safetensors"
        safetensors.save(path, as_inputs(regime.model, stored, regime.hard))
        return path

    def find_start(self, regime: Regime) -> pathlib.Path:
        """The weights that a regime starts from; those that f32 trains stay in `out`."""
        if not regime.start:
            return find_model(regime.model) / "weights.safetensors"
        start = STARTS[regime.start]
        run = self.out / f"start-{regime.start}-{self.seed}"
        if not (run / "final.safetensors").exists():
            weights = safetensors.load(find_model(regime.model) / "weights.safetensors")
            weights["logit_scale"] = np.array(CAP, np.float32)
            safetensors.save(self.out / "begin.safetensors", weights)
            safetensors.save(
                self.out / "begin-data.safetensors", self.read_samples(regime)
            )
            print(
                f"f32 trains {run} for {start.steps} steps", file=sys.stderr, flush=True
            )
            require(binade(
                "train", self.find_graph(regime.model), "--threads", "1",
                "--data", self.out / "begin-data.safetensors", "--seed", str(self.seed + 1),
                "--init", self.out / "begin.safetensors", *ADAMW, "--lr", "1e-3",
                "--schedule", "lr=base * warmup(step, 50) * (0.1 + 0.9 * cosine(step, steps))",
                "--steps", str(start.steps), "--save-every", "1000", "--resume", run,
            ))  # fmt: skip
        return run / "final.safetensors"
