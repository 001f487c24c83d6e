"""The Python reader and writer of safetensors files."""

import json
import struct

import ml_dtypes
import numpy as np
import pytest
from binade import safetensors
from binade.errors import RejectedError

package = pytest.importorskip("safetensors")

TYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16,
    "BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2, "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8,
    "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8,
    "BOOL": np.bool_,
}  # fmt: skip


def write(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize("name", TYPES)
def test_every_type_survives_a_round_trip(tmp_path, name):
    values = np.array([[0, 1, 1], [1, 0, 1]]).astype(TYPES[name])
    header = safetensors.save(tmp_path / "a", {"x": values})
    assert header.tensors["x"].dtype == name
    loaded = safetensors.load(tmp_path / "a")["x"]
    assert loaded.dtype == values.dtype and loaded.shape == (2, 3)
    assert loaded.tobytes() == values.tobytes()


def test_the_package_reads_written_files(tmp_path):
    tensors = {
        "odd": np.arange(3, dtype=np.uint8),
        "b": np.array([1.5, -2.0], ml_dtypes.bfloat16),
        "scalar": np.float32(3.25),
        "none": np.zeros((0, 4), np.int64),
    }
    header = safetensors.save(tmp_path / "a", tensors, {"k": "ä"})
    data = (tmp_path / "a").read_bytes()
    found = dict(package.deserialize(data))
    assert set(found) == set(tensors)
    for name, tensor in found.items():
        assert bytes(tensor["data"]) == np.asarray(tensors[name]).tobytes()
        assert tuple(tensor["shape"]) == np.shape(tensors[name])
    assert safetensors.read_header(tmp_path / "a") == header
    assert header.metadata == {"k": "ä"}
    for name, info in header.tensors.items():
        size = np.asarray(tensors[name]).itemsize
        assert info.offset % size == 0, name


def test_files_of_the_package_are_read(tmp_path):
    numpy = pytest.importorskip("safetensors.numpy")
    tensors = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([True, False])}
    numpy.save_file(tensors, str(tmp_path / "a"), {"m": "1"})
    loaded = safetensors.load(tmp_path / "a")
    for name, expected in tensors.items():
        np.testing.assert_array_equal(loaded[name], expected)
    assert safetensors.read_header(tmp_path / "a").metadata == {"m": "1"}


def test_byte_order_and_strides_are_normalized(tmp_path):
    values = np.arange(6, dtype=">i4").reshape(2, 3).T
    safetensors.save(tmp_path / "a", {"x": values})
    np.testing.assert_array_equal(safetensors.load(tmp_path / "a")["x"], values)


def test_a_failed_write_keeps_the_old_file(tmp_path):
    safetensors.save(tmp_path / "a", {"x": np.ones(2, np.float32)})
    before = (tmp_path / "a").read_bytes()
    with pytest.raises(RejectedError, match="complex128"):
        safetensors.save(tmp_path / "a", {"x": np.ones(2, np.complex128)})
    assert (tmp_path / "a").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        (b"{", b"", "not valid JSON"),
        (b"[]", b"", "not a JSON object"),
        (b'{"x": 1, "x": 2}', b"", "'x' comes twice"),
        ({"__metadata__": {"a": 1}}, b"", "names to strings"),
        ({"x": entry("F12")}, b"\0" * 8, "'x' has element type 'F12'"),
        ({"x": entry(shape=(3,))}, b"\0" * 8, "needs 12 bytes"),
        ({"x": entry(shape=(-2,))}, b"\0" * 8, "non-negative"),
        ({"x": entry(shape=(True, 2))}, b"\0" * 8, "non-negative"),
        ({"x": {"dtype": "F32"}}, b"", "must have dtype"),
        ({"x": entry(), "y": entry(offsets=(12, 20))}, b"\0" * 20, "a hole"),
        ({"x": entry(), "y": entry(offsets=(4, 12))}, b"\0" * 12, "an overlap"),
        ({"x": entry()}, b"\0" * 9, "the file at"),
        ({"x": entry()}, b"\0" * 7, "the file at"),
    ],
)
def test_a_broken_file_is_rejected(tmp_path, header, data, message):
    path = write(tmp_path / "broken", header, data)
    with pytest.raises(RejectedError, match=message) as caught:
        safetensors.load(path)
    assert str(caught.value).startswith(str(path))


def test_a_header_longer_than_the_file_is_rejected(tmp_path):
    (tmp_path / "a").write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    with pytest.raises(RejectedError, match="the header claims"):
        safetensors.load(tmp_path / "a")
    (tmp_path / "a").write_bytes(b"1234")
    with pytest.raises(RejectedError, match="at least 8 bytes"):
        safetensors.load(tmp_path / "a")
