"""`--init` gives every parameter a value, maps names where only one mapping is possible, and
otherwise lists what is missing."""

import json

import numpy as np
import pytest
from support.checkpoint_runs import GRAPH, Runs, draw_values
from support.reference import binade, safetensors

onnx = pytest.importorskip("onnx")

# The parameters and buffers of the model.
NAMES = ["up", "gain", "shift", "mean", "var", "down"]
VALUES = draw_values(np.random.default_rng(8))
LAYERS = """
<ir_version: 9, opset_import: ["" : 20]>
net (float[8, 6] x, int64[8] labels) => (float loss)
  <float[6, 6] layer0, float[6, 6] layer1, float[6, 3] head> {
  a = MatMul(x, layer0)
  b = MatMul(a, layer1)
  logits = MatMul(b, head)
  loss = SoftmaxCrossEntropyLoss(logits, labels)
}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("runs"))


def start(runs, folder, tensors, *more, metadata=None):
    """Trains for no step and returns the process and the weights."""
    safetensors.save(folder / "init.safetensors", tensors, metadata or {})
    run = folder / "run"
    command = runs.command("--out", run, "--overwrite", "--init",
                           folder / "init.safetensors", *more, bundle=False,
                           steps=0, every=0)  # fmt: skip
    process = binade(*command)
    final = run / "final.safetensors"
    return process, safetensors.load(final) if process.returncode == 0 else None


def rename(**names):
    return {names.get(name, name): value for name, value in VALUES.items()}


# What is in the file, metadata, and a note.
MAPPED = {
    "equal": (VALUES, {}, None),
    "more": ({**VALUES, "mask": np.ones((6, 32), np.float32)}, {}, None),
    "module": ({f"module.{n}": v for n, v in VALUES.items()}, {},
               "6 names of the file without the prefix 'module.'"),
    "two prefixes": ({f"model.net.{n}": v for n, v in VALUES.items()}, {},
                     "without the prefix 'model.net.'"),
    "some": ({(f"net.{n}" if n in ("up", "gain") else n): v for n, v in VALUES.items()},
             {}, "2 names of the file without the prefix 'net.'"),
    "tied": (rename(down="embedding"), {},
             "'down' takes 'embedding' F32 [32, 3], the only tensor left"),
    "tied, f16": ({**rename(down="embedding"),
                   "embedding": VALUES["down"].astype(np.float16)}, {},
                  "'down' takes 'embedding' F16 [32, 3]"),
    "tied, with prefix": ({f"net.{n}": v for n, v in rename(down="wte").items()}, {},
                          "'down' takes 'net.wte'"),
    "metadata": ({**rename(down="wte"), "more": VALUES["down"]}, {"down": "wte"},
                 "'down' is tied to 'wte', as the file's metadata say"),
}  # fmt: skip


@pytest.mark.parametrize("kind", MAPPED)
def test_names_are_mapped(kind, runs, tmp_path):
    tensors, metadata, note = MAPPED[kind]
    process, found = start(runs, tmp_path, tensors, metadata=metadata)
    assert process.returncode == 0, process.stderr
    for name, value in VALUES.items():
        if kind == "tied, f16" and name == "down":
            value = value.astype(np.float16).astype(np.float32)
        np.testing.assert_array_equal(found[name], value)
    assert (note in process.stdout) if note else process.stdout.count("start:") == 1
    warned = "of the file are ignored" in process.stderr
    assert warned == (kind in ("more", "metadata"))
    assert "keep their initial values" not in process.stderr


# What is in the file, and words of the error.
REFUSED = {
    "one missing": ({n: v for n, v in VALUES.items() if n != "down"},
                    ["lacks 1 of the model's 6 parameters and buffers: 'down' F32"]),
    "another shape": ({**rename(down="wte"), "wte": VALUES["down"].T.copy()},
                      ["lacks 1 of", "lacks 1 tensors of the file: 'wte' F32 [3, 32]"]),
    "an integer": ({**rename(down="wte"), "wte": VALUES["down"].astype(np.int32)},
                   ["lacks 1 of", "'wte' I32"]),
    "two left": ({**rename(down="a"), "b": VALUES["down"]},
                 ["lacks 1 of", "lacks 2 tensors of the file: 'a' F32 [32, 3], 'b'"]),
    "two missing": (rename(down="a", up="b"), ["lacks 2 of", "'up' F32", "'down' F32"]),
    "misspelled": (rename(shift="shfit", gain="gian"),
                   ["'gain' F32 [32]; did you mean 'gian'?", "did you mean 'shfit'?"]),
    "two prefixes": ({f"{p}.{n}": v for n, v in VALUES.items() for p in "ab"},
                     ["lacks 6 of the model's 6", "lacks 12 tensors of the file"]),
    "a buffer": ({n: v for n, v in VALUES.items() if n != "var"},
                 ["lacks 1 of the model's 6 parameters and buffers: 'var'"]),
    "nothing": ({"other": np.zeros(2, np.float32)}, ["lacks 6 of the model's 6"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_missing_tensors_are_refused(kind, runs, tmp_path):
    tensors, words = REFUSED[kind]
    process, _ = start(runs, tmp_path, tensors)
    assert process.returncode == 3, process.stderr
    assert process.stderr.count("error: ") == 1
    for word in [*words, "--init-partial trains tensors that the file lacks"]:
        assert word in process.stderr
    assert not (tmp_path / "run").exists()
    # With the option, the others are restored.
    process, found = start(runs, tmp_path, tensors, "--init-partial")
    shared = set(tensors) & set(NAMES)
    if not shared:
        assert process.returncode == 3 and "none of its tensors" in process.stderr
        return
    assert process.returncode == 0, process.stderr
    assert "keep their initial values" in process.stderr
    for name in shared:
        np.testing.assert_array_equal(found[name], VALUES[name])
    model = onnx.load(runs.model)
    for stored in model.graph.initializer:
        if stored.name in set(NAMES) - shared:
            value = onnx.numpy_helper.to_array(stored)
            np.testing.assert_array_equal(found[stored.name], value)


def test_wrong_shapes_are_errors_whatever_the_options(runs, tmp_path):
    for prefix in ("", "module."):
        tensors = {f"{prefix}{name}": value for name, value in VALUES.items()}
        tensors[f"{prefix}down"] = np.zeros((32, 4), np.float32)
        for more in ([], ["--init-partial"]):
            process, _ = start(runs, tmp_path, tensors, *more)
            assert process.returncode == 3
            assert "F32 [32, 4], the program has F32 [32, 3]" in process.stderr


def test_a_layer_does_not_take_the_value_of_another(tmp_path):
    """The file of a model with other layers has the same shapes."""
    model = onnx.parser.parse_model(LAYERS)
    draw = np.random.default_rng(4)
    shapes = {
        "layer0": (6, 6),
        "layer1": (6, 6),
        "head": (6, 3),
    }
    values = {n: draw.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    for name, value in values.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    entry = model.metadata_props.add()
    entry.key, entry.value = "binade.trainable", json.dumps(list(values))
    onnx.save(model, tmp_path / "net.onnx")
    values["layer7"] = values.pop("layer1")
    safetensors.save(tmp_path / "init.safetensors", values)
    x = draw.standard_normal((16, 6)).astype(np.float32)
    safetensors.save(
        tmp_path / "data.safetensors", {"x": x, "labels": np.arange(16) % 3}
    )
    process = binade("train", tmp_path / "net.onnx", "--data", tmp_path / "data.safetensors",
                     "--steps", 1, "--init", tmp_path / "init.safetensors", "--out",
                     tmp_path / "run")  # fmt: skip
    assert process.returncode == 3, process.stderr
    assert "'layer1' F32 [6, 6]; did you mean 'layer7'?" in process.stderr


def test_the_model_of_these_tests_has_these_names():
    assert sorted(NAMES) == sorted(VALUES) and all(name in GRAPH for name in NAMES)
