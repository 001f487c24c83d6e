"""Exports small modules with the PyTorch that runs this script.

    python export.py DIRECTORY

writes DIRECTORY/<torch version>/*.onnx and, with PyTorch 2.13 or newer, the values with
which tests compare: `<module>.safetensors` has the parameters before and after a step of
SGD, the batch and the loss. The files in this directory are the output of PyTorch 2.5.1
(onnxscript 0.1.0.dev20241101), 2.9.1 (0.7.2) and 2.14.1 (0.7.2), without stack traces,
which hold the paths of the machine.
"""

import sys
from pathlib import Path

import numpy as np
import onnx

import torch
from torch import nn

LR = 0.1


class Text(nn.Module):
    """Has parameters that begin equal, linear layers on three axes, and a buffer."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))
        self.embedding = nn.Embedding(11, 8)
        self.first = nn.LayerNorm(8)
        self.blocks = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8, bias=False)])
        self.second = nn.LayerNorm(8)
        self.classifier = nn.Linear(8, 5)
        self.register_buffer("mask", torch.tensor([1.0, 0.0, 1.0, 1.0]))

    def forward(self, tokens):
        hidden = self.first(self.embedding(tokens)) * self.scale
        for block in self.blocks:
            hidden = hidden + torch.relu(block(hidden))
        hidden = self.second(hidden) * self.mask[:, None]
        return self.classifier(hidden.mean(1))


class Image(nn.Module):
    """Has batch norm."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 5)

    def forward(self, image):
        return self.fc(torch.relu(self.norm(self.conv(image))).mean((2, 3)))


MODULES = {"text": Text, "image": Image}


def make(name: str) -> tuple[nn.Module, torch.Tensor]:
    """Returns a module with the same values in each version, and a batch."""
    generator = np.random.default_rng(7)

    def draw(*shape: int) -> torch.Tensor:
        return torch.from_numpy(generator.standard_normal(shape).astype(np.float32) / 4)

    module = MODULES[name]()
    # The others begin at 1 and 0: the exporter merges equal ones, and removes biases of 0.
    drawn = [k for k, v in module.named_parameters() if v.dim() > 1]
    drawn += ["blocks.0.bias"] if name == "text" else ["conv.bias"]
    with torch.no_grad():
        for key in drawn:
            module.get_parameter(key).copy_(draw(*module.get_parameter(key).shape))
        module.get_parameter("classifier.bias" if name == "text" else "fc.bias").zero_()
    batch = torch.arange(12).reshape(3, 4) % 11 if name == "text" else draw(3, 3, 6, 6)
    return module, batch


def remove_paths(path: Path) -> None:
    model = onnx.load(path)
    for node in [*model.graph.node, *(n for f in model.functions for n in f.node)]:
        kept = [p for p in node.metadata_props if not p.key.endswith("stack_trace")]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
        node.doc_string = ""
    for entry in model.graph.metadata_props:
        entry.value = entry.value.replace("__main__.", "modules.")
    onnx.save(model, path)
    path.with_name(path.name + ".data").unlink(missing_ok=True)


def export(name: str, mode: str, exporter: str, path: Path) -> None:
    module, batch = make(name)
    module.train(mode == "train")
    script = {
        "training": torch.onnx.TrainingMode.TRAINING,
        "do_constant_folding": False,
    }
    options = {
        "dynamo": {"dynamo": True},
        "kept": {"dynamo": True, "optimize": False},
        "script": {"dynamo": False},
        "script-kept": {"dynamo": False, **script},
    }[exporter]
    if torch.__version__.startswith("2.5.") and options["dynamo"]:
        torch.onnx.export(module, (batch,), dynamo=True).save(str(path))
    else:
        torch.onnx.export(module, (batch,), str(path), **options)
    remove_paths(path)


def step(name: str) -> dict[str, torch.Tensor]:
    """Trains for one step; returns values by "before/" and "after/"."""
    module, batch = make(name)
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), lr=LR)
    labels = torch.tensor([0, 3, 4])
    values = {f"before/{k}": v.clone() for k, v in module.state_dict().items()}
    loss = nn.functional.cross_entropy(module(batch), labels)
    loss.backward()
    optimizer.step()
    values |= {f"after/{k}": v.clone() for k, v in module.state_dict().items()}
    return values | {"batch": batch, "labels": labels, "loss": loss.detach()}


def main() -> None:
    directory = Path(sys.argv[1])
    version = ".".join(torch.__version__.split("+")[0].split(".")[:2])
    (directory / version).mkdir(parents=True, exist_ok=True)
    exporters = ["dynamo", "kept", "script", "script-kept"]
    if version == "2.5":
        exporters.remove("kept")
    for name in MODULES:
        for exporter in exporters:
            for mode in ["train"] if exporter.endswith("kept") else ["train", "eval"]:
                export(
                    name,
                    mode,
                    exporter,
                    directory / version / f"{name}-{exporter}-{mode}.onnx",
                )
    if tuple(int(part) for part in version.split(".")) >= (2, 13):
        from safetensors.torch import save_file

        for name in MODULES:
            save_file(step(name), directory / f"{name}.safetensors")


if __name__ == "__main__":
    main()
