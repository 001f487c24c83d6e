"""`binade runs compare` compares the arrays that runs have read, not the files."""

import numpy as np
import pytest
from support.paths import BUILD
from support.reference import binade, safetensors
from support.run_folders import Folder, sha256

pytestmark = pytest.mark.skipif(
    not (BUILD / "bin/binade-runs").exists(), reason="the tools are not built"
)
SAME = "the runs have the same settings and files\n"


def compare(*runs):
    process = binade("runs", "compare", *runs)
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run for each kind of file with the same arrays."""
    made = Folder(tmp_path_factory.mktemp("data"))
    arrays = safetensors.load(made.data)
    np.savez(made.path / "stored.npz", **arrays)
    np.savez_compressed(made.path / "packed.npz", **arrays)
    (made.path / "each").mkdir()
    for name, array in arrays.items():
        np.save(made.path / "each" / f"{name}.npy", array)
    for data in ("train.safetensors", "stored.npz", "packed.npz", "each"):
        train(made, data)
    return made


def train(folder, data):
    folder.train(
        "fp32", "--out", folder.path / f"run-{data}", data=folder.path / data, steps=2
    )


def find_runs(folder, *names):
    return [folder.path / f"run-{name}" for name in names]


def test_the_same_arrays_in_other_files_are_the_same_data(folder):
    names = ("train.safetensors", "stored.npz", "packed.npz", "each")
    assert compare(*find_runs(folder, *names)).startswith(SAME)


def test_other_arrays_are_other_data(folder):
    arrays = safetensors.load(folder.data)
    arrays["x"][0, 0] += 1
    np.savez(folder.path / "other.npz", **arrays)
    train(folder, "other.npz")
    text = compare(*find_runs(folder, "stored.npz", "other.npz"))
    assert "file data  " in text
    for name in ("stored.npz", "other.npz"):
        assert sha256(folder.path / name)[:12] in text


def test_the_same_bytes_under_other_names_are_other_data(folder):
    arrays = safetensors.load(folder.data)
    (folder.path / "named").mkdir()
    for name, array in arrays.items():
        np.save(folder.path / "named" / f"{name}.npy", array)
    np.save(folder.path / "named" / "more.npy", arrays["x"])
    train(folder, "named")
    assert not compare(*find_runs(folder, "each", "named")).startswith(SAME)


def test_arrays_of_changed_files_are_not_compared(folder):
    arrays = safetensors.load(folder.data)
    np.savez(folder.path / "later.npz", **arrays)
    train(folder, "later.npz")
    runs = find_runs(folder, "train.safetensors", "later.npz")
    assert compare(*runs).startswith(SAME)
    np.savez(folder.path / "later.npz", x=arrays["x"])
    assert "file data  " in compare(*runs)
    (folder.path / "later.npz").unlink()
    assert "file data  " in compare(*runs)
