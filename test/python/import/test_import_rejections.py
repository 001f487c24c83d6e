"""All commands and Python functions reject an invalid ONNX file with the same message and
exit code 3, and write nothing. `convert` leaves valid nodes that Binade cannot import as
they are."""

import re
import subprocess

import numpy as np
import onnx
import pytest
from binade import errors as raised
from binade import safetensors
from support.invalid_models import INVALID, UNREAD
from support.paths import BUILD

COMMANDS = {
    "import": ["-o", "out"],
    "convert": ["--policy", "fp16-amp", "-o", "out"],
    "compile": ["--policy", "fp16-amp", "-o", "out"],
    "train": ["--data", "data.safetensors", "--steps", "1", "--out", "out"],
    "explain": ["--policy", "fp16-amp"],
    "inspect": [],
    "fit": ["--memory", "1GiB"],
    "diff": ["--policy", "bf16-amp", "--policy", "fp16-amp"],
    "trace": ["--policy", "fp16-amp", "--inputs", "data.safetensors"],
    "export": ["trained.safetensors", "-o", "out.onnx"],
}


def run(folder, command, *arguments):
    done = subprocess.run(
        [BUILD / "bin" / command, *arguments],
        check=False, capture_output=True, text=True, timeout=60, cwd=folder,
    )  # fmt: skip
    return done.returncode, done.stderr, done.stdout


def write(model, folder):
    """Writes `m.onnx`, its external data, and data to train with. Returns all file names."""
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    (folder / "w.bin").write_bytes(bytes(48))
    safetensors.save(folder / "data.safetensors", {"x": np.zeros((8, 4), "f4")})
    safetensors.save(folder / "trained.safetensors", {"w": np.zeros((4, 3), "f4")})
    return sorted(path.name for path in folder.iterdir())


def errors(text):
    """Returns the lines of the text that are not warnings."""
    return [line for line in text.splitlines() if "warning: " not in line]


@pytest.mark.parametrize("name", INVALID)
def test_every_command_rejects_an_invalid_file(name, tmp_path):
    make, place = INVALID[name]
    files = write(make(), tmp_path)
    code, expected, _ = run(tmp_path, "binade", "import", "m.onnx", "-o", "out")
    assert code == 3, expected
    assert expected.startswith("m.onnx:") and ": error: " in expected
    assert place in expected
    for command, arguments in COMMANDS.items():
        model = ["--model", "m.onnx"] if command == "export" else ["m.onnx"]
        code, found, _ = run(tmp_path, "binade", command, *model, *arguments)
        assert code == 3, (command, found)
        assert errors(found) == errors(expected), command
        assert sorted(path.name for path in tmp_path.iterdir()) == files, command
    code, found, _ = run(tmp_path, "binade-translate", "--import-onnx", "m.onnx")
    assert (code, errors(found)) == (1, errors(expected))


@pytest.mark.skipif(
    not (BUILD / "python" / "binade").exists(), reason="the extension is not built"
)
@pytest.mark.parametrize("name", INVALID)
def test_python_rejects_an_invalid_file(name, tmp_path, monkeypatch):
    import binade

    make, _ = INVALID[name]
    model = make()
    files = write(model, tmp_path)
    monkeypatch.chdir(tmp_path)
    _, expected, _ = run(tmp_path, "binade", "import", "m.onnx", "-o", "out")
    calls = {
        "compile": lambda: binade.compile("m.onnx", policy="fp16-amp"),
        "compile bytes": lambda: binade.compile(
            model.SerializeToString(), policy="fp16-amp"
        ),
        "convert": lambda: binade.convert("m.onnx", policy="fp16-amp", output="out"),
    }
    for name, call in calls.items():
        with pytest.raises(raised.RejectedError) as caught:
            call()
        text = re.sub(r"(?<!\.)\./", "", str(caught.value))
        text = text.replace("model.onnx", "m.onnx")
        assert errors(text) == errors(expected), name
        assert caught.value.exit_code == 3
        assert sorted(path.name for path in tmp_path.iterdir()) == files, name


@pytest.mark.parametrize("name", UNREAD)
def test_convert_leaves_valid_nodes_that_cannot_be_imported(name, tmp_path):
    make, place = UNREAD[name]
    model = make()
    write(model, tmp_path)
    code, printed, left = run(
        tmp_path,
        "binade",
        "convert",
        "m.onnx",
        "--policy",
        "fp16-amp",
        "-o",
        "out.onnx",
    )
    assert code == 0, printed
    assert place in left and ("left as it is: " in left or "left in f32: " in left)
    assert len(onnx.load(tmp_path / "out.onnx").graph.node) >= len(model.graph.node)


def test_a_length_from_dim_is_validated(tmp_path):
    """Without --dim, a contradiction may only be due to the length that is assumed."""
    write(UNREAD["baked_batch"][0](), tmp_path)
    options = ["convert", "m.onnx", "--policy", "fp16-amp", "-o", "out.onnx"]
    code, text, _ = run(tmp_path, "binade", *options, "--dim", "batch=4")
    assert code == 3 and "node 'shape' (Reshape): error: cannot reshape" in text
    code, text, _ = run(tmp_path, "binade", *options, "--dim", "batch=6")
    assert code == 0, text


def test_models_that_cannot_be_imported_are_valid():
    """ONNX's checker accepts all of them but the one that lists an output twice."""
    for name, (make, _) in UNREAD.items():
        if name != "output_listed_twice":
            onnx.checker.check_model(make())
