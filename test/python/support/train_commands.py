"""`binade train` on the small example, and the files that a refused command leaves."""

from support.paths import ROOT
from support.reference import binade

MINI = ROOT / "examples" / "char-gpt" / "mini.onnx"
WINDOW = "input_ids=tokens[0:128],labels=tokens[1:129]"


def train(model, data, *more, out):
    return binade(
        "train", model, "--data", data, "--steps", 1, "--out", out, "--overwrite", *more
    )


def refuse(process, code, *words, out):
    """Checks that `process` failed with `code` and one error with `words`, without files."""
    assert process.returncode == code, process.stderr
    for word in words:
        assert word in process.stderr
    assert process.stderr.count("error:") == 1
    assert not out.exists()
