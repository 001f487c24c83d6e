"""Data in NumPy's formats train as the same tensors in a safetensors file do; numpy writes the
files. Damaged and unsuitable files are refused."""

import io
import json
import struct
import zipfile

import ml_dtypes
import numpy as np
import pytest
from support.paths import ROOT
from support.reference import binade, safetensors
from support.train_commands import MINI, refuse

MODEL = ROOT / "examples" / "mlp" / "mlp.onnx"
DRAW = np.random.default_rng(3)
ARRAYS = {
    "x": DRAW.standard_normal((70, 16)).astype(np.float32),
    "labels": DRAW.integers(0, 4, 70),
}


def train(data, out, *more):
    return binade("train", MODEL, "--loss", "cross_entropy(prediction, labels)", "--data", data,
                  "--steps", 2, "--out", out, "--overwrite", *more)  # fmt: skip


def write_directory(path, arrays):
    path.mkdir()
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    (path / "notes.txt").write_text("no array")


def write_versions(path, arrays):
    """Arrays with headers of the later versions of the format."""
    with zipfile.ZipFile(path, "w") as archive:
        for version, (name, array) in zip(
            [(2, 0), (3, 0)], arrays.items(), strict=True
        ):
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, array, version)


WRITERS = {
    "data.npz": lambda path, arrays: np.savez(path, **arrays),
    "small.npz": lambda path, arrays: np.savez_compressed(path, **arrays),
    "new.npz": write_versions,
    "arrays": write_directory,
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("expected")
    safetensors.save(folder / "data.safetensors", ARRAYS)
    process = train(folder / "data.safetensors", folder / "run")
    assert process.returncode == 0, process.stderr
    return (folder / "run" / "final.safetensors").read_bytes()


@pytest.mark.parametrize("name", WRITERS)
def test_numpy_files_train_as_safetensors_do(name, expected, tmp_path):
    WRITERS[name](tmp_path / name, ARRAYS)
    process = train(tmp_path / name, tmp_path / "run")
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "run" / "final.safetensors").read_bytes() == expected


@pytest.mark.parametrize("kind", ["u1", "i4", "u2", "i8"])
@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_integers_of_other_widths_are_labels(kind, write, expected, tmp_path):
    arrays = {"x": ARRAYS["x"], "labels": ARRAYS["labels"].astype(kind)}
    write(tmp_path / "data.npz", **arrays)
    process = train(tmp_path / "data.npz", tmp_path / "run")
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "run" / "final.safetensors").read_bytes() == expected


def test_the_files_of_a_directory_are_recorded(tmp_path):
    write_directory(tmp_path / "arrays", ARRAYS)
    process = train(tmp_path / "arrays", tmp_path / "run", "--eval-fraction", 0.5)
    assert process.returncode == 0, process.stderr
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    files = run["invocations"][-1]["files"]
    assert {name for name in files if name.startswith("data")} == {
        "data x",
        "data labels",
    }
    assert files["data x"]["path"] == str(tmp_path / "arrays" / "x.npy")


def test_a_stream_in_one_array(tmp_path):
    np.save(tmp_path / "tokens.npy", np.arange(16 * 128 + 1) % 94)
    window = "input_ids=tokens[0:128],labels=tokens[1:129]"
    process = binade("train", MINI, "--data", tmp_path / "tokens.npy", "--window", window,
                     "--steps", 1, "--out", tmp_path / "run")  # fmt: skip
    assert process.returncode == 0, process.stderr


def savez(path, **changes):
    np.savez(path, **(ARRAYS | changes))


def damage(path, write, place, value):
    """Writes an archive and overwrites a byte of it; `place` finds where."""
    write(path, **ARRAYS)
    content = bytearray(path.read_bytes())
    content[place(content)] = value
    path.write_bytes(content)


def claim_size(path):
    """Both headers of the compressed array claim that it has 4 GiB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", array_bytes(ARRAYS["x"]))
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, 22, 0xFFFFFFF0)
    struct.pack_into("<I", content, content.index(b"PK\x01\x02") + 24, 0xFFFFFFF0)
    path.write_bytes(content)


def add_file(path, name, content=b"text", times=1):
    savez(path)
    with zipfile.ZipFile(path, "a") as archive:
        for _ in range(times):
            archive.writestr(name, content)


def array_bytes(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def replace_header(path, old, new):
    savez(path)
    content = path.read_bytes()
    assert old in content and len(old) == len(new)
    path.write_bytes(content.replace(old, new))


WRONG = {
    "big-endian": (
        lambda path: savez(path, x=ARRAYS["x"].astype(">f4")),
        ["array 'x'", "big-endian"],
    ),
    "objects": (
        lambda path: savez(path, x=np.array([{}, 1], dtype=object)),
        ["array 'x'", "'|O'", "Python objects"],
    ),
    "text": (lambda path: savez(path, x=np.array(["a"])), ["array 'x'", "'<U1'"]),
    "records": (
        lambda path: savez(path, x=np.zeros(3, dtype=[("a", "<f4"), ("b", "<i4")])),
        ["array 'x'", "expected numbers"],
    ),
    "bfloat16": (
        lambda path: savez(path, x=ARRAYS["x"].astype(ml_dtypes.bfloat16)),
        ["array 'x'", "binade.safetensors.save"],
    ),
    "complex": (lambda path: savez(path, x=np.zeros(2, np.complex64)), ["'<c8'"]),
    "Fortran order": (
        lambda path: savez(path, x=np.asfortranarray(ARRAYS["x"])),
        ["array 'x'", "Fortran order", "ascontiguousarray"],
    ),
    "cut off": (
        lambda path: (savez(path), path.write_bytes(path.read_bytes()[:3000])),
        ["cut off"],
    ),
    "compressed data": (
        lambda path: damage(
            path, np.savez_compressed, lambda content: len(content) // 3, 0x55
        ),
        ["array 'x'"],
    ),
    "claimed size": (claim_size, ["array 'x'", "4294967280 bytes"]),
    "other file": (
        lambda path: add_file(path, "a.txt"),
        ["'a.txt'", "not a NumPy array"],
    ),
    "no array": (
        lambda path: add_file(path, "a.npy"),
        ["array 'a'", "does not begin with"],
    ),
    "twice": (
        lambda path: add_file(path, "x.npy", array_bytes(ARRAYS["x"])),
        ["array 'x'", "twice"],
    ),
    "negative shape": (
        lambda path: replace_header(path, b"(70, 16)", b"(-7, 16)"),
        ["array 'x'", "cannot parse the header"],
    ),
    "larger shape": (
        lambda path: replace_header(path, b"(70, 16)", b"(71, 16)"),
        ["array 'x'", "its shape needs 4544 bytes", "4480"],
    ),
    "overflowing shape": (
        lambda path: replace_header(
            path,
            b"(70, 16), }             ",
            b"(4294967296,4294967296)}",
        ),
        ["array 'x'", "too many elements"],
    ),
    "other key": (
        lambda path: replace_header(path, b"'descr'", b"'descs'"),
        ["array 'x'", "cannot parse the header"],
    ),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", WRONG)
def test_unsuitable_archives_are_refused(kind, tmp_path):
    write, words = WRONG[kind]
    path = tmp_path / "data.npz"
    write(path)
    process = train(path, tmp_path / "run")
    refuse(process, 3, "data.npz", *words, out=tmp_path / "run")


def test_a_directory_without_arrays_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    process = train(tmp_path / "empty", tmp_path / "run")
    refuse(process, 3, "without .npy files", out=tmp_path / "run")


def test_a_file_of_another_kind_is_refused_with_the_kinds_that_are_taken(tmp_path):
    (tmp_path / "data.py").write_text("import numpy as np\n")
    process = train(tmp_path / "data.py", tmp_path / "run")
    refuse(process, 3, "data.py: note: expected a .safetensors, .npz or .npy file, or a "
           "directory of .npy files", out=tmp_path / "run")  # fmt: skip


def test_a_checkpoint_of_pytorch_is_not_taken_for_arrays(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.save({"x": torch.zeros(3)}, tmp_path / "data.pt")
    process = train(tmp_path / "data.pt", tmp_path / "run")
    refuse(process, 3, "data.pt", "PyTorch checkpoint", out=tmp_path / "run")
