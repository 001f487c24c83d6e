"""Each kind of fault raises one class of error in all functions of the package: compile,
load, convert, Policy, the readers and writers of files, and commands."""

import os
import resource

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from support import reference  # noqa: E402

if not (reference.BUILD / "python" / "binade").exists():
    pytest.skip("the extension is not built", allow_module_level=True)

import binade  # noqa: E402
from binade import data, initial, safetensors, trained  # noqa: E402
from binade.command import run_command  # noqa: E402
from binade.errors import (  # noqa: E402
    BinadeError,
    FileError,
    RejectedError,
    UsageError,
)

MODEL = onnx.parser.parse_model("""
  <ir_version: 9, opset_import: ["": 20]>
  linear (float[4, 3] x) => (float[4, 2] y) <float[3, 2] w = {0, 0, 0, 0, 0, 0}>
  { y = MatMul(x, w) }
""")


def compile_model(model=MODEL, **options):
    return binade.compile(model, **{"loss": "mse(y, t)", "train": ["w"]} | options)


# Name: function that reads the file at a path.
READERS = {
    "compile": lambda path: compile_model(path),
    "convert": lambda path: binade.convert(path, policy="bf16-amp"),
    "load": lambda path: binade.load(path),
    "restore": lambda path: compile_model().restore(path),
    "policy of compile": lambda path: compile_model(policy=f"{path}.yaml"),
    "policy of convert": lambda path: binade.convert(MODEL, policy=f"{path}.yaml"),
    "Policy.read": lambda path: binade.Policy.read(f"{path}.yaml"),
    "ranges of compile": lambda path: compile_model(ranges=str(path)),
    "ranges of convert": lambda path: binade.convert(
        MODEL, policy="bf16-amp", ranges=path
    ),
    "optimizer": lambda path: compile_model(optimizer=f"{path}.mlir"),
    "schedule": lambda path: compile_model(schedule={"lr": f"@{path}"}),
    "alarms": lambda path: compile_model(alarms=f"{path}.yaml"),
    "safetensors.load": safetensors.load,
    "safetensors.read_header": safetensors.read_header,
    "trained": trained.load_state,
    "initial": lambda path: initial.draw_model(path, seed=0),
    "npz": lambda path: data.convert_npz(path, f"{path}.out"),
    "vocabulary": data.read_vocabulary,
}
# Readers that accept any content.
READERS_OF_ANYTHING = {
    "text": lambda path: data.convert_text(path, f"{path}.out", vocabulary="bytes")
}
# Name: function that returns a writer of a file at a path.
WRITERS = {
    "save": lambda: compile_model().save,
    "write": lambda: compile_model().write,
    "convert": lambda: (
        lambda path: binade.convert(MODEL, policy="bf16-amp", output=path)
    ),
    "Policy.write": lambda: binade.Policy.read("coat").write,
    "safetensors.save": lambda: (
        lambda path: safetensors.save(path, {"x": np.zeros(99)})
    ),
    "npz": lambda: lambda path: data.save_samples({"x": np.zeros((64, 4))}, path),
}


def find_named(path):
    """Returns the files that readers of `path` may open, with the suffixes that they add."""
    return [path, *(path.with_name(path.name + end) for end in (".yaml", ".mlir"))]


def catch(body, path):
    with pytest.raises(BinadeError) as caught:
        body(path)
    assert path.name in str(caught.value)
    return caught.value


@pytest.mark.parametrize("name", {**READERS, **READERS_OF_ANYTHING})
def test_a_missing_file_is_rejected(name, tmp_path):
    body = {**READERS, **READERS_OF_ANYTHING}[name]
    error = catch(body, tmp_path / "missing")
    assert type(error) is RejectedError and error.exit_code == 3
    assert "no such file" in str(error).lower() or "unknown" in str(error)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("held", [b"", b"\0\1\2garbage, nothing else " * 9])
def test_a_file_of_another_kind_is_rejected(name, held, tmp_path):
    for path in find_named(tmp_path / "garbage"):
        path.write_bytes(held)
    error = catch(READERS[name], tmp_path / "garbage")
    # A file with an invalid schedule is rejected, too.
    assert type(error) is RejectedError and error.exit_code == 3


@pytest.mark.parametrize("name", {**READERS, **READERS_OF_ANYTHING})
def test_a_directory_in_place_of_a_file_is_rejected(name, tmp_path):
    for path in find_named(tmp_path / "folder"):
        path.mkdir()
    if name == "trained":  # It accepts the directory of a run, and misses a file in it.
        assert type(catch(trained.load_state, tmp_path / "folder")) is RejectedError
        return
    error = catch({**READERS, **READERS_OF_ANYTHING}[name], tmp_path / "folder")
    assert type(error) is RejectedError and error.exit_code == 3


@pytest.mark.parametrize("name", {**READERS, **READERS_OF_ANYTHING})
def test_a_file_without_read_permission(name, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("the superuser may read everything")
    for path in find_named(tmp_path / "secret"):
        path.write_bytes(b"x" * 100)
        path.chmod(0)
    error = catch({**READERS, **READERS_OF_ANYTHING}[name], tmp_path / "secret")
    assert type(error) is FileError and error.exit_code == 5


@pytest.mark.parametrize("name", WRITERS)
def test_writing_into_a_missing_folder_fails(name, tmp_path):
    path = tmp_path / "no" / "out.yaml"
    with pytest.raises(FileError) as caught:
        WRITERS[name]()(path)
    assert caught.value.exit_code == 5 and not path.parent.exists()


@pytest.mark.parametrize("name", WRITERS)
def test_a_failed_write(name, tmp_path):
    """A limit of the file size makes writes fail, as on a full disk."""
    write = WRITERS[name]()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, limits[1]))
    try:
        with pytest.raises(FileError) as caught:
            write(tmp_path / "out.yaml")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.exit_code == 5


@pytest.mark.parametrize("body", [
    lambda: compile_model(policy="bf16-amq"),
    lambda: binade.convert(MODEL, policy="bf16-amq"),
    lambda: binade.Policy.read("bf16-amq"),
    lambda: compile_model(optimizer="adamv"),
    lambda: compile_model(groups={"zz*": {"lr": 1}}),
    lambda: compile_model(freeze=["zz*"]),
    lambda: binade.convert(MODEL, policy="bf16-amp", io_types={"zz": "f16"}),
    lambda: compile_model(dims={"N": 3}),
    lambda: binade.convert(MODEL, policy="bf16-amp", dims={"N": 3}),
])  # fmt: skip
def test_an_unknown_name_is_rejected(body):
    with pytest.raises(RejectedError):
        body()


@pytest.mark.parametrize("body", [
    lambda: compile_model(3),
    lambda: binade.convert(3, policy="bf16-amp"),
    lambda: compile_model(policy=3),
    lambda: binade.convert(MODEL, policy=3),
    lambda: compile_model(device="gpu"),
    lambda: compile_model(stats="weight"),
    lambda: compile_model(schedule={"lr": "fast("}),
    lambda: compile_model(schedule={"lv": "1"}),
    lambda: compile_model(dims={"N": "x"}),
    lambda: binade.convert(MODEL, policy="bf16-amp", dims={"N": "x"}),
    lambda: binade.convert(MODEL, policy="bf16-amp", io_types={"*": "f8"}),
    lambda: binade.convert(MODEL, policy="bf16-amp", loss_scale=3.0),
    lambda: binade.convert(MODEL, policy="bf16-amp", loss_scale=0),
    lambda: binade.convert(MODEL, policy="bf16-amp", loss_scale="x"),
])  # fmt: skip
def test_an_invalid_argument_is_a_usage_error(body):
    with pytest.raises(UsageError):
        body()


@pytest.mark.parametrize("kind", ["missing", "a folder"])
def test_commands_return_the_exit_code_of_the_error(kind, tmp_path, capsys):
    path = tmp_path / "in"
    if kind != "missing":
        path.mkdir()
    arguments = ["npz", str(path), "--out", str(tmp_path / "out")]
    assert run_command("binade.data", data._main, arguments) == 3
    assert str(path) in capsys.readouterr().err
