"""A file that ONNX does not allow is refused by every command, and by Python's functions, in
the same words, with exit code 3 and nothing written; what is valid and not read is left as it
is by `convert`."""

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
    """`m.onnx`, data of a parameter beside it, and data to train with."""
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    (folder / "w.bin").write_bytes(bytes(48))
    safetensors.save(folder / "data.safetensors", {"x": np.zeros((8, 4), "f4")})
    safetensors.save(folder / "trained.safetensors", {"w": np.zeros((4, 3), "f4")})
    return sorted(path.name for path in folder.iterdir())


def errors(text):
    """The lines of an error and its notes; warnings are not of interest."""
    return [line for line in text.splitlines() if "warning: " not in line]


@pytest.mark.parametrize("name", INVALID)
def test_every_command_refuses_an_invalid_file(name, tmp_path):
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
def test_python_refuses_an_invalid_file(name, tmp_path, monkeypatch):
    import binade

    make, _ = INVALID[name]
    model = make()
    files = write(model, tmp_path)
    monkeypatch.chdir(tmp_path)
    _, expected, _ = run(tmp_path, "binade", "import", "m.onnx", "-o", "out")
    ways = {
        "compile": lambda: binade.compile("m.onnx", policy="fp16-amp"),
        "compile bytes": lambda: binade.compile(
            model.SerializeToString(), policy="fp16-amp"
        ),
        "convert": lambda: binade.convert("m.onnx", policy="fp16-amp", output="out"),
    }
    for way, call in ways.items():
        with pytest.raises(raised.RejectedError) as caught:
            call()
        text = re.sub(r"(?<!\.)\./", "", str(caught.value))
        text = text.replace("model.onnx", "m.onnx")
        assert errors(text) == errors(expected), way
        assert caught.value.exit_code == 3
        assert sorted(path.name for path in tmp_path.iterdir()) == files, way


@pytest.mark.parametrize("name", UNREAD)
def test_convert_leaves_what_is_valid_and_not_read(name, tmp_path):
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


def test_a_symbolic_length_that_is_given_is_one(tmp_path):
    """Without a number a contradiction may be one with the assumption."""
    write(UNREAD["baked_batch"][0](), tmp_path)
    options = ["convert", "m.onnx", "--policy", "fp16-amp", "-o", "out.onnx"]
    code, said, _ = run(tmp_path, "binade", *options, "--dim", "batch=4")
    assert code == 3 and "node 'shape' (Reshape): error: cannot reshape" in said
    code, said, _ = run(tmp_path, "binade", *options, "--dim", "batch=6")
    assert code == 0, said


def test_the_table_is_invalid_to_onnx():
    """Where the checker of ONNX knows better, the table would be wrong."""
    for name, (make, _) in UNREAD.items():
        if name != "output_listed_twice":
            onnx.checker.check_model(make())
