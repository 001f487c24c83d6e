"""`binade.data` converts npz files, text and data sets to data files."""

import numpy as np
import pytest
from binade import data, safetensors
from binade.command import REJECTED, run_command
from binade.errors import RejectedError


def test_npz_keeps_names_and_narrows_types(tmp_path):
    x = np.linspace(-1, 1, 24, dtype=np.float64).reshape(6, 4)
    labels = np.array([0, 3, 255, 7, 1, 2], np.int64)
    np.savez(tmp_path / "a.npz", x=x, labels=labels, wide=labels * 300 - 1)
    (path,) = data.convert_npz(tmp_path / "a.npz", tmp_path / "a.safetensors")
    loaded = safetensors.load(path)
    np.testing.assert_array_equal(loaded["x"], x.astype(np.float32))
    np.testing.assert_array_equal(loaded["labels"], labels)
    np.testing.assert_array_equal(loaded["wide"], labels * 300 - 1)
    assert {k: v.dtype.name for k, v in loaded.items()} == {
        "x": "float32",
        "labels": "uint8",
        "wide": "int32",
    }


def test_npz_joins_batches(tmp_path):
    x = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    np.savez(tmp_path / "a.npz", x=x)
    data.convert_npz(tmp_path / "a.npz", tmp_path / "a.safetensors", batched=True)
    loaded = safetensors.load(tmp_path / "a.safetensors")["x"]
    np.testing.assert_array_equal(loaded, x.reshape(12, 2))


def test_a_split_keeps_every_sample_once_and_rows_together(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(50), y=np.arange(50) * 2)
    paths = data.convert_npz(
        tmp_path / "a.npz", tmp_path / "a.safetensors", split=0.2, seed=4
    )
    assert [path.name for path in paths] == [
        "a.safetensors",
        "a.held-out.safetensors",
    ]
    train, held_out = (safetensors.load(path) for path in paths)
    assert len(train["x"]) == 40 and len(held_out["x"]) == 10
    assert sorted([*train["x"], *held_out["x"]]) == list(range(50))
    for part in (train, held_out):
        np.testing.assert_array_equal(part["y"], 2 * part["x"].astype(int))
        assert (np.diff(part["x"].astype(int)) > 0).all()
    # The samples are drawn at random, not the first or last ones.
    assert sorted(held_out["x"]) not in (list(range(10)), list(range(40, 50)))
    other = data.convert_npz(
        tmp_path / "a.npz", tmp_path / "b.safetensors", split=0.2, seed=5
    )
    assert (safetensors.load(other[1])["x"] != held_out["x"]).any()


def test_characters_are_indices_of_the_sorted_vocabulary(tmp_path):
    (tmp_path / "a.txt").write_text("hello wörld\n", encoding="utf-8")
    (path,) = data.convert_text(tmp_path / "a.txt", tmp_path / "a.safetensors")
    symbols = data.read_vocabulary(path)
    assert symbols == sorted(set("hello wörld\n"))
    tokens = safetensors.load(path)["tokens"]
    assert tokens.dtype == np.uint8 and tokens.ndim == 1
    assert "".join(symbols[token] for token in tokens) == "hello wörld\n"


def test_bytes_are_tokens(tmp_path):
    (tmp_path / "a.bin").write_bytes(bytes(range(256)))
    data.convert_text(
        tmp_path / "a.bin", tmp_path / "a.safetensors", vocabulary="bytes", split=0.25
    )
    train = safetensors.load(tmp_path / "a.safetensors")["tokens"]
    end = safetensors.load(tmp_path / "a.held-out.safetensors")["tokens"]
    assert bytes(train) == bytes(range(192)) and bytes(end) == bytes(range(192, 256))


def test_a_vocabulary_is_reused(tmp_path):
    (tmp_path / "a.txt").write_text("abcd")
    (tmp_path / "b.txt").write_text("dad")
    data.convert_text(tmp_path / "a.txt", tmp_path / "a.safetensors")
    vocabulary = str(tmp_path / "a.safetensors")
    data.convert_text(
        tmp_path / "b.txt", tmp_path / "b.safetensors", vocabulary=vocabulary
    )
    assert safetensors.load(tmp_path / "b.safetensors")["tokens"].tolist() == [3, 0, 3]
    (tmp_path / "b.txt").write_text("bee")
    with pytest.raises(RejectedError, match="'e' at 1 is not in the vocabulary"):
        data.convert_text(
            tmp_path / "b.txt", tmp_path / "b.safetensors", vocabulary=vocabulary
        )


def test_both_parts_of_a_split_have_one_type(tmp_path):
    text = "".join(chr(0x4E00 + i) for i in range(300))
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    data.convert_text(tmp_path / "a.txt", tmp_path / "a.safetensors", split=0.5)
    for name in ("a.safetensors", "a.held-out.safetensors"):
        assert safetensors.load(tmp_path / name)["tokens"].dtype == np.uint16


def test_large_vocabularies_widen_the_tokens(tmp_path):
    text = "".join(chr(0x4E00 + i) for i in range(300))
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    data.convert_text(tmp_path / "a.txt", tmp_path / "a.safetensors")
    assert safetensors.load(tmp_path / "a.safetensors")["tokens"].dtype == np.uint16


class Pairs:
    """A map-style data set of (image, label)."""

    def __init__(self, shapes=((2, 2),) * 5):
        self.shapes = shapes

    def __len__(self):
        return len(self.shapes)

    def __getitem__(self, index):
        return np.full(self.shapes[index], index, np.float32), index


def test_a_data_set_becomes_one_tensor_per_part(tmp_path):
    (path,) = data.convert_dataset(
        Pairs(), tmp_path / "a.safetensors", names=["x", "labels"]
    )
    loaded = safetensors.load(path)
    assert loaded["x"].shape == (5, 2, 2) and loaded["x"].dtype == np.float32
    assert loaded["labels"].tolist() == [0, 1, 2, 3, 4]
    assert (loaded["x"] == np.arange(5).reshape(5, 1, 1)).all()


def test_a_torch_data_set_is_converted(tmp_path):
    torch = pytest.importorskip("torch")
    tensors = torch.arange(12.0).reshape(4, 3), torch.tensor([1, 0, 1, 0])
    dataset = torch.utils.data.TensorDataset(*tensors)
    data.convert_dataset(dataset, tmp_path / "a.safetensors", names=["x", "y"])
    loaded = safetensors.load(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(loaded["x"], tensors[0].numpy())
    np.testing.assert_array_equal(loaded["y"], tensors[1].numpy())


def rejected(call, *arguments, **options):
    with pytest.raises(RejectedError) as caught:
        call(*arguments, **options)
    return str(caught.value)


def test_bad_input_is_rejected(tmp_path):
    out = tmp_path / "a.safetensors"
    assert "'x' has 3, 'y' has 4" in rejected(
        data.save_samples, {"x": np.zeros(3), "y": np.zeros(4)}, out
    )
    assert "one number" in rejected(data.save_samples, {"x": np.array(3)}, out)
    assert "not numbers" in rejected(data.save_samples, {"x": np.array(["a"])}, out)
    assert "cannot be split" in rejected(
        data.save_samples, {"x": np.zeros(3)}, out, split=0.01
    )
    assert "[0, 1)" in rejected(data.save_samples, {"x": np.zeros(3)}, out, split=1.0)
    assert "name them" in rejected(data.convert_dataset, Pairs(), out)
    uneven = Pairs(((2, 2), (2, 3)))
    assert "sample 1 has 'x' of shape [2, 3]" in rejected(
        data.convert_dataset, uneven, out, names=["x", "y"]
    )
    (tmp_path / "a.txt").write_bytes(b"ab\xff")
    assert "not UTF-8 at byte 2" in rejected(data.convert_text, tmp_path / "a.txt", out)
    assert not out.exists()


def test_the_command_reports_and_returns_a_code(tmp_path, capsys):
    (tmp_path / "a.txt").write_bytes(b"\xff")
    arguments = ["text", str(tmp_path / "a.txt"), "--out", str(tmp_path / "o")]
    assert run_command("binade.data", data._main, arguments) == REJECTED
    assert "binade.data: error: " in capsys.readouterr().err
    arguments[1] = str(tmp_path / "absent.txt")
    assert run_command("binade.data", data._main, arguments) == REJECTED
    assert "absent.txt: error: cannot read: No such file" in capsys.readouterr().err
    (tmp_path / "a.txt").write_text("abc")
    arguments[:2] = ["npz", str(tmp_path / "a.txt")]
    assert run_command("binade.data", data._main, arguments) == REJECTED
    said = capsys.readouterr().err
    assert "a.txt: not an npz file, as numpy.savez(" in said and "pickle" not in said
    arguments[0] = "text"
    assert run_command("binade.data", data._main, arguments) == 0
    assert "tokens U8 [3]" in capsys.readouterr().out
