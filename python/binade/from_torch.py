"""``binade from-torch``: writes a PyTorch model as an ONNX file to train.

Help and wrong command lines need no PyTorch, which takes seconds to import.
"""

from __future__ import annotations

from collections.abc import Sequence

from binade.command import run_command
from binade.parser import Parser


def make_parser() -> Parser:
    """Returns the parser of ``binade from-torch``."""
    parser = Parser(
        prog="binade from-torch",
        description="Write a PyTorch model, its loss and an example batch as an ONNX file "
        "to train.",
        epilog="Example:\n"
        "  binade from-torch package.module:make_model "
        "--batch package.module:make_batch \\\n"
        "      --loss package.module:loss --output model.onnx\n"
        "In Python: binade.export.export_onnx. The other direction, from a run to an ONNX "
        "file,\nis 'binade export'.",
    )
    parser.add_argument(
        "model",
        metavar="pkg.mod:make_model",
        help="function that returns the torch.nn.Module",
    )
    parser.add_argument(
        "--batch",
        required=True,
        metavar="pkg.mod:make_batch",
        help="function that returns an example batch: a dict of tensors by input name",
    )
    parser.add_argument(
        "--loss",
        metavar="pkg.mod:loss_fn",
        help="loss function; its first argument is the model's prediction, the others "
        "are batch entries of their names (default: the model itself returns the loss)",
    )
    parser.add_argument(
        "--output",
        default="model.onnx",
        metavar="FILE.onnx",
        help="ONNX file to write (default: model.onnx); weights are written to the "
        "same directory",
    )
    parser.add_argument(
        "--dims",
        action="append",
        default=[],
        metavar="INPUT=AXIS,AXIS",
        help="names of an input's axes, such as x=batch, for sizes that are chosen at "
        "compilation ('binade train --dim batch=64'; by default the sizes of the "
        "example batch); an axis with an empty name keeps its size (repeatable)",
    )
    parser.add_argument(
        "--opset",
        type=int,
        default=20,
        help="version of the ONNX operator set (default: 20)",
    )
    parser.add_argument(
        "--init",
        default="values",
        metavar="FROM",
        help="where initial weights are from: values: the module's (default); rules: "
        "the file stores no weights but the random distribution of each; or a "
        "safetensors file",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="seed for torch.manual_seed before the model is constructed (default: 0)",
    )
    return parser


def _main(arguments: Sequence[str] | None) -> None:
    options = make_parser().parse_args(arguments)
    from binade.export import export_named

    export_named(options)


def main() -> int:
    """Runs the command; returns its exit code."""
    return run_command("binade from-torch", _main)


if __name__ == "__main__":
    raise SystemExit(main())
