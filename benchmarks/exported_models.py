"""Exported training graphs: those that are stored, those that only the scripts next to them
make, and the weights that were left out of the largest.

The scripts need transformers, and torchvision without its dependencies, which pip puts
in the directory of the models: python/requirements-peers.txt.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODELS = pathlib.Path(
    os.environ.get("BINADE_MODELS", ROOT.parent / "shared" / "models")
)
KINDS = ["model", "loss", "grads", "train_step.adamw"]
MADE = [
    "gpt2-tiny-sdpa", "gpt2-tiny-dropout", "resnet18-cifar-w16", "resnet18-cifar",
    "resnet18-imagenet", "gpt2-char", "gpt2-124m",
]  # fmt: skip
TORCHVISION = "torchvision==0.28.0"


def list_graphs(folders: list[pathlib.Path]) -> list[pathlib.Path]:
    return [
        path
        for folder in folders
        for kind in KINDS
        if (path := folder / f"{kind}.onnx").exists()
    ]


def list_stored() -> list[pathlib.Path]:
    return sorted(path.parent for path in MODELS.glob("*/weights.safetensors"))


def make_models(folder: pathlib.Path) -> list[pathlib.Path]:
    """The models of MADE as folders of `folder`; those that are there stay. Each takes half
    a minute to ten minutes, most of it for PyTorch's own runs; the largest 8 GiB."""
    if not (folder / "tv").is_dir():
        install = ["install", "-q", "--no-deps", "--target", folder / "tv", TORCHVISION]
        subprocess.run([sys.executable, "-m", "pip", *map(str, install)], check=True)
    for name in MADE:
        if (folder / name).is_dir():
            continue
        print(f"making {name}", file=sys.stderr, flush=True)
        part = folder / "part"
        command = [sys.executable, __file__, name, str(folder), str(part)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (part / name).rename(folder / name)
    return [folder / name for name in MADE]


def make_one(name: str, folder: str, part: str) -> None:
    sys.path.insert(0, str(MODELS / "scripts"))
    import zoo

    # Where the scripts look for torchvision, and leave what they do not need.
    zoo.HERE = folder
    import build_sets

    build_sets.STEPS = 1
    build_sets.build(name, part)


def add_weights(stored: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """A model whose weights were left out, with them."""
    target = folder / stored.name
    if not (target / "weights.bin").exists():
        target.mkdir(parents=True, exist_ok=True)
        for path in stored.iterdir():
            shutil.copy(path, target)
        command = [sys.executable, MODELS / "make_weights.py", stored]
        subprocess.run(
            [*map(str, command), str(target / "weights.bin")],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    return target


if __name__ == "__main__":
    make_one(*sys.argv[1:])
