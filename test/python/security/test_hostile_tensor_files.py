"""Damaged or malicious safetensors files. The numbers in names are those of the cases in
docs/Security.md."""

import struct

import pytest
from support.hostile import refuse, run
from support.reference import safetensors


def header(text, data=b"", length=None) -> bytes:
    text = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(offsets, shape="[1]", dtype="F32", name="a", more=""):
    return (
        f'"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}{more}}}'
    )


SAFETENSORS = {
    "empty": b"", "short": b"\0" * 7, "no header": header(b""),
    "2^63 bytes of header": header("{}", length=1 << 63),
    "over 100 MB of header": header("{}", length=100_000_001),
    "longer than the file": header("{}", length=3), "no brace": header("[]"),
    "garbage after the end": header("{}", b"x"), "garbage in the header": header("{}x"),
    "key twice": header(f"{{{tensor([0, 4])},{tensor([0, 4])}}}", bytes(4)),
    "deep": header('{"a":' + "[" * 100_000), "many values": header('{"a":[' + "0," * 5_000_000 + "0]}"),
    "overlap": header(f"{{{tensor([0, 4])},{tensor([2, 6], name='b')}}}", bytes(6)),
    "hole": header(f"{{{tensor([0, 4])},{tensor([8, 12], name='b')}}}", bytes(12)),
    "backwards": header(f"{{{tensor([4, 0])}}}", bytes(4)),
    "beyond": header(f"{{{tensor([0, 4])}}}", bytes(3)),
    "overflow": header(f"{{{tensor([0, 4], shape='[4294967296, 4294967296]')}}}", bytes(4)),
    "negative": header(f"{{{tensor([0, 4], shape='[-1]')}}}", bytes(4)),
    "fraction": header(f"{{{tensor([0, 4], shape='[1.0]')}}}", bytes(4)),
    "dtype": header(f"{{{tensor([0, 4], dtype='F33')}}}", bytes(4)),
    "unknown key": header("{" + tensor([0, 4], more=',"x":1') + "}", bytes(4)),
    "metadata": header('{"__metadata__":{"a":1}}'), "not UTF-8": header(b'{"\xff":1}'),
    "pickle": b"PK\x03\x04" + bytes(60), "pointer": b"version https://git-lfs.github.com/spec/v1\n",
}  # fmt: skip
# Parts of the message: the location and the error.
DAMAGE = {
    "empty": ["it has only 0 bytes"], "short": ["it has only 7 bytes"],
    "no header": ["does not begin with '{'"], "no brace": ["does not begin with '{'"],
    "2^63 bytes of header": ["9223372036854775808 bytes, the limit is 100000000"],
    "over 100 MB of header": ["100000001 bytes, the limit is 100000000"],
    "longer than the file": ["3 bytes, but only 2 bytes are left"],
    "garbage after the end": ["1 bytes after the last tensor"],
    "garbage in the header": ["header byte 3"], "key twice": ["key 'a' is given twice"],
    "deep": ["nested deeper than 3"], "many values": ["more than 4194304 values"],
    "overlap": [":tensor 'b': ", "overlap"], "hole": [":tensor 'b': ", "hole"],
    "backwards": [":tensor 'a': ", "end before they begin: [4,0]"],
    "beyond": [":tensor 'a': ", "ends at byte 4, but the file has only 3"],
    "overflow": [":tensor 'a': ", "overflows"], "negative": [":tensor 'a': ", "found -1"],
    "fraction": [":tensor 'a': ", "found 1.0"],
    "dtype": [":tensor 'a': ", "unknown element type 'F33'", "known types: F64"],
    "unknown key": [":tensor 'a': ", "unknown key 'x'"],
    "metadata": ["'__metadata__' to be a string"], "not UTF-8": ["header byte 3"],
    "pickle": ["a zip archive (a PyTorch checkpoint", "safetensors.torch.save_file"],
    "pointer": ["a Git LFS pointer", "git lfs pull"],
}  # fmt: skip


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """A module with one tensor argument."""
    path = tmp_path_factory.mktemp("module") / "m.mlir"
    path.write_text(
        'func.func @f(%x: tensor<1xf32> {binade.name = "x"}) -> tensor<1xf32> '
        "{ return %x : tensor<1xf32> }"
    )
    return path


@pytest.mark.parametrize("kind", SAFETENSORS)
def test_41_safetensors(kind, module, tmp_path):
    path = tmp_path / "f.safetensors"
    path.write_bytes(SAFETENSORS[kind])
    out = tmp_path / "out.safetensors"
    words = ["f.safetensors", *DAMAGE[kind]]
    text = refuse(3, words, "binade-interpret", module, "--inputs", path, "--out", out)
    assert text.startswith(str(path)) and not out.exists()


def test_a_valid_safetensors_file_is_accepted(module, tmp_path):
    """The files above are damaged variants of this one."""
    path, out = tmp_path / "f.safetensors", tmp_path / "out.safetensors"
    path.write_bytes(
        header('{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4))
    )
    done = run("binade-interpret", module, "--inputs", path, "--out", out)
    assert done.returncode == 0, done.stderr
    assert len(safetensors.load(out)) == 1
