"""The examples: their files are fresh, and the first loss of char-GPT is that of chance."""

import json
import math
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from binade import data, initial, safetensors
from support.paths import ROOT

onnx = pytest.importorskip("onnx")

EXAMPLE = ROOT / "examples" / "char-gpt"
SHAPES = {"char-gpt": (8, 256, 10_818_048), "mini": (16, 128, 833_792)}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The example's data files, made by its script."""
    out = tmp_path_factory.mktemp("data")
    # Without PyTorch, as on a machine that only trains.
    code = (
        "import runpy, sys; sys.argv.pop(0); sys.modules['torch'] = None; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-c", code, EXAMPLE / "prepare.py", "--out", out]
    subprocess.run(command, check=True, timeout=600, capture_output=True)
    return out


def test_the_data_is_the_corpus(prepared):
    text = (EXAMPLE / "corpus" / "python-reference.txt").read_text(encoding="ascii")
    train = safetensors.load(prepared / "train.safetensors")["tokens"]
    held_out = safetensors.load(prepared / "train.held-out.safetensors")["tokens"]
    symbols = data.read_vocabulary(prepared / "train.safetensors")
    assert len(symbols) == 94
    tokens = np.concatenate([train, held_out])
    assert "".join(symbols[token] for token in tokens) == text
    assert len(held_out) == round(0.1 * len(text))


@pytest.mark.parametrize("name", SHAPES)
def test_a_model_holds_rules_and_no_weights(name):
    batch, context, count = SHAPES[name]
    path = EXAMPLE / f"{name}.onnx"
    assert path.stat().st_size < 100_000
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    shapes = {
        value.name: [size.dim_value for size in value.type.tensor_type.shape.dim]
        for value in (*proto.graph.input, *proto.graph.output)
    }
    metadata = {entry.key: json.loads(entry.value) for entry in proto.metadata_props}
    assert set(metadata["binade.trainable"]) == set(metadata["binade.init"])
    parameters = sum(math.prod(shapes[key]) for key in metadata["binade.init"])
    assert parameters == count
    assert shapes["input_ids"] == shapes["labels"] == [batch, context]
    assert shapes["loss"] == [] and shapes["prediction"] == [batch, context, 94]


def test_the_first_loss_is_that_of_chance(prepared):
    runtime = pytest.importorskip("onnxruntime")
    path = EXAMPLE / "mini.onnx"
    tokens = safetensors.load(prepared / "train.safetensors")["tokens"]
    windows = tokens[: 16 * 129].reshape(16, 129).astype(np.int64)
    feeds = initial.draw_model(path, seed=0)
    feeds |= {"input_ids": windows[:, :-1], "labels": windows[:, 1:]}
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (loss,) = session.run(["loss"], feeds)
    assert loss == pytest.approx(math.log(94), abs=0.1)


@pytest.mark.parametrize("name", SHAPES)
def test_the_committed_files_are_what_the_exporter_writes(name, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")
    if not torch.__version__.startswith("2.13."):
        pytest.skip(f"files were made with PyTorch 2.13, this is {torch.__version__}")
    from binade import from_torch
    from binade.command import run_command

    monkeypatch.syspath_prepend(str(EXAMPLE))
    suffix = "_mini" if name == "mini" else ""
    arguments = [
        f"model:make{suffix or '_model'}", "--batch", f"model:make{suffix}_batch",
        "--loss", "model:cross_entropy", "--init", "rules",
        "--output", str(tmp_path / "m.onnx"),
    ]  # fmt: skip
    assert run_command("binade from-torch", from_torch._main, arguments) == 0
    assert (tmp_path / "m.onnx").read_bytes() == (EXAMPLE / f"{name}.onnx").read_bytes()


def test_the_committed_resnet_is_what_the_exporter_writes(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.__version__.startswith("2.13."):
        pytest.skip(f"the file was made with PyTorch 2.13, this is {torch.__version__}")
    source = EXAMPLE.with_name("resnet")
    folder = tmp_path / "examples/resnet"
    shutil.copytree(source, folder)
    (folder / "resnet.onnx").unlink()
    (tmp_path / "python").symlink_to(EXAMPLE.parents[1] / "python")
    tools = pathlib.Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"}
    command = ["bash", folder / "make.sh"]
    subprocess.run(command, check=True, timeout=600, env=environment)
    made = (folder / "resnet.onnx").read_bytes()
    assert made == (source / "resnet.onnx").read_bytes()
