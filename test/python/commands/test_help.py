"""Runs the examples of the help texts and of README."""

import pathlib
import re
import shlex
import shutil
import subprocess

import numpy as np
import pytest
from support.paths import BUILD, ROOT
from support.processes import examples
from support.reference import safetensors

onnx = pytest.importorskip("onnx")

BINADE = BUILD / "bin" / "binade"
COMMANDS = [
    "import", "compile", "train", "evaluate", "export", "inspect", "policy", "list", "interpret",
]  # fmt: skip
# The symbolic model needs a loss; the static model computes its loss.
GRAPH = """
<ir_version: 9, opset_import: ["" : 20]>
g ({inputs}) => ({outputs})
  <float[2, 3] weight = {{0.5, -1.0, 0.25, 2.0, 0.125, -0.75}}> {{
  logits = MatMul(x, weight)
  {loss}
}}
"""
STATIC = GRAPH.format(
    inputs="float[8, 2] x, int64[8] labels",
    outputs="float loss",
    loss="loss = SoftmaxCrossEntropyLoss(logits, labels)",
)
SYMBOLIC = GRAPH.format(
    inputs="float[batch, 2] x", outputs="float[batch, 3] logits", loss=""
)
LOGITS = GRAPH.format(inputs="float[8, 2] x", outputs="float[8, 3] logits", loss="")
# `binade interpret --help` uses this file.
MODULE = """
func.func @f(%x: tensor<2xf32> {binade.name = "x"}) -> tensor<2xf32> {
  %y = binade.exp %x : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
"""


def help_of(*command):
    done = subprocess.run(
        [BINADE, *command, "--help"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0 and not done.stderr
    return done.stdout


def save(text, path):
    model = onnx.parser.parse_model(text)
    model.metadata_props.add(key="binade.trainable", value='["weight"]')
    onnx.save(model, path)


@pytest.fixture
def folder(tmp_path):
    x = np.random.default_rng(1).standard_normal((16, 2), np.float32)
    data = {"x": x, "labels": np.arange(16) % 3}
    safetensors.save(tmp_path / "train.safetensors", data)
    safetensors.save(tmp_path / "test.safetensors", data)
    np.savez(tmp_path / "train.npz", **data)
    safetensors.save(tmp_path / "x.safetensors", {"x": np.float32([1, 2])})
    (tmp_path / "module.mlir").write_text(MODULE)
    return tmp_path


def run(command, folder):
    """Runs an example with few steps, on a model that fits its options."""
    text = SYMBOLIC if "--dim" in command else LOGITS if "--loss" in command else STATIC
    save(text, folder / "model.onnx")
    command = re.sub(r"--steps \d+", "--steps 3", command)
    words = shlex.split(command.replace("--eval-fraction 0.1", "--eval-fraction 0.5"))
    assert pathlib.Path(words[0]).name == "binade"
    done = subprocess.run(
        [BINADE, *words[1:]], cwd=folder, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def test_examples_of_help(folder):
    texts = {name: help_of(name) for name in COMMANDS}
    for name, text in texts.items():
        found = examples(text.split("Example", 1)[1])
        assert found, name
        for command in found:
            assert command.split()[1] == name
            assert run(command, folder) or "-o" in command or "--out" in command
    y = safetensors.load(folder / "y.safetensors")["result0"]
    np.testing.assert_allclose(y, np.exp([1, 2]), rtol=1e-6)


def test_examples_of_debugging(folder):
    """Omits `binade why-nan`, which needs a failed run: docs/Debugging.md has one."""
    for name in ("trace", "shadow", "bisect", "sweep", "search"):
        found = examples(help_of(name).split("Example", 1)[1])
        assert found, name
        for command in found:
            assert command.split()[1] in (name, "train")
            for text, small in (
                ("3000", "3"),
                ("@200", "@2"),
                ("0.1 ", "0.5 "),
                ("--steps 100", "--steps 2"),
                ("--trials 8", "--trials 1"),
                ("=70%", "=200%"),
                ("--eval-every 20", "--eval-every 1"),
            ):
                command = command.replace(text, small)
            assert run(command, folder)
    assert (folder / "bisected/report.txt").exists()
    assert (folder / "swept/report.html").exists()
    assert (folder / "searched/best.yaml").exists()
    assert examples(help_of("why-nan"))


def test_examples_of_runs(folder):
    pytest.importorskip("plotly")
    run("binade train model.onnx --data train.safetensors --steps 2 --out run", folder)
    shutil.copytree(folder / "run", folder / "again")
    for words in (["runs"], ["runs", "compare"]):
        (command,) = examples(help_of(*words).split("Example", 1)[1])
        assert "again" in run(command, folder)
    assert (folder / "curves.html").exists()


@pytest.mark.parametrize("name", ["from-torch", "initial"])
def test_examples_of_exported_models(name):
    """docs/Import.md and the tests of exports run these with models."""
    (command,) = examples(help_of(name).split("Example", 1)[1])
    assert command.split()[1] == name


def test_examples_of_data(folder):
    (folder / "corpus.txt").write_text("to be or not to be\n" * 20)
    np.savez(folder / "arrays.npz", x=np.eye(4, dtype=np.float32))
    found = examples(help_of("data").split("Example", 1)[1])
    assert [command.split()[2] for command in found] == ["text", "npz", "dataset"]
    for command in found[:2]:
        run(command, folder)
        assert safetensors.load(folder / "train.safetensors")


@pytest.mark.parametrize("name, count", [("show", 2), ("check", 3)])
def test_examples_of_policies(folder, name, count):
    (folder / "mine.yaml").write_text("name: mine\nextends: bf16-amp\n")
    found = examples(help_of("policy", name).split("Example", 1)[1])
    assert len(found) == count
    for command in found:
        assert command.split()[1:3] == ["policy", name]
        assert run(command, folder)


def test_help_names_every_command_and_choice(folder):
    overview = help_of()
    for name in COMMANDS:
        assert re.search(rf"\b{name}\b", overview)
    for command in examples(overview):
        run(command, folder)
    assert "--order shuffle|sequential" in help_of("train")
    shutil.rmtree(folder / "run")


def test_commands_of_the_readme(folder):
    text = (ROOT / "README.md").read_text()
    found = [one for one in examples(text) if not one.endswith("--help")]
    assert len(found) == 1
    run(found[0], folder)
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == 3
