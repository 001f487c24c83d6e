"""Makes the example's training and held-out data from its corpus.

``python examples/char-gpt/prepare.py --out DIR`` writes ``DIR/train.safetensors`` and
``DIR/train.held-out.safetensors``. The held-out data are the end of the text, a tenth
of it unless ``--held-out`` sets another share. Needs numpy, not PyTorch.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORPUS = HERE / "corpus" / "python-reference.txt"
HELD_OUT = 0.1


def load_text() -> str:
    return CORPUS.read_text(encoding="ascii")


def vocabulary(text: str) -> list[str]:
    """The distinct characters in order; a token is a place in this list."""
    return sorted(set(text))


def main() -> None:
    sys.path.insert(0, str(HERE.parents[1] / "python"))
    from binade import data

    parser = argparse.ArgumentParser(description="Prepare the data of the char-GPT.")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder to write to"
    )
    parser.add_argument(
        "--held-out",
        type=float,
        default=HELD_OUT,
        metavar="PART",
        help="fraction of the text to hold out (default: 0.1)",
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "train.safetensors"
    data.convert_text(CORPUS, file, split=options.held_out)


if __name__ == "__main__":
    main()
