"""Makes training and held-out data from the digits.

``python examples/resnet/prepare.py --out DIR`` writes ``DIR/train.safetensors`` and
``DIR/held-out.safetensors``, the last 352 of 1797 images. Needs numpy, not PyTorch.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
HELD_OUT = 352


def main() -> None:
    sys.path.insert(0, str(HERE.parents[1] / "python"))
    from binade import safetensors

    parser = argparse.ArgumentParser(description="Prepare the data of the ResNet.")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder to write to"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    digits = np.load(HERE / "digits.npz")
    images = digits["images"][:, None].astype(np.float32) / 8 - 1
    labels = digits["target"].astype(np.int64)
    for name, part in (
        ("train", slice(None, -HELD_OUT)),
        ("held-out", slice(-HELD_OUT, None)),
    ):
        safetensors.save(
            options.out / f"{name}.safetensors",
            {"images": images[part], "labels": labels[part]},
        )


if __name__ == "__main__":
    main()
