"""Weights, tensor files, modules and policies that are damaged or hostile: numbers are
those of the cases that docs/Security.md lists."""

import hashlib
import os
import re
import shutil
import socket
import struct
import subprocess

import numpy as np
import pytest
from support.hostile import parse, refuse, run, write
from support.paths import BUILD, ROOT
from support.reference import safetensors

WEIGHT = "g (float[4] x) => (float[4] y) <float[4] w = [{}]> {{ y = Add(x, w) }}"


def place(location=None, **entries):
    """A model whose initializer 'w' is elsewhere."""
    if location is not None:
        entries = {"location": location, **entries}
    model = parse(WEIGHT.format('"location": "w.bin"'))
    data = model.graph.initializer[0].external_data
    del data[:]
    for key, value in entries.items():
        data.add(key=key, value=value)
    return model


@pytest.fixture
def folder(tmp_path):
    """The directory of a model, with a weight, beside files that are not its."""
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    for path in (folder / "w.bin", tmp_path / "outside.bin", folder / "sub/w.bin"):
        path.write_bytes(bytes(16))
    return folder


# --- External data --------------------------------------------------------------------

LOCATIONS = {
    "absolute": "{outside}", "parent": "../outside.bin", "detour": "sub/../../outside.bin",
    "inside again": "../model/w.bin", "empty": "", "dot": ".", "folder": "sub",
    "slash": "sub/", "drive": "C:\\x", "host": "\\\\host\\x", "backslash": "sub\\w.bin",
    "proc": "/proc/self/mem", "zero": "/dev/zero", "fifo": "fifo", "socket": "socket",
    "final link": "link.bin", "middle link": "out/outside.bin", "hard link": "hard.bin",
    "itself": "m.onnx\0.bin", "missing": "no.bin", "file as folder": "w.bin/x",
}  # fmt: skip

BENEATH = "note: external files have to lie beneath the directory of the file"
LINK = ["a component of the path is a symbolic link"]
REASONS = {
    "absolute": ["the path is absolute", BENEATH], "proc": ["the path is absolute", BENEATH],
    "zero": ["the path is absolute", BENEATH], "parent": ["a '..' component", BENEATH],
    "detour": ["a '..' component", BENEATH], "inside again": ["a '..' component", BENEATH],
    "empty": ["name no file"], "dot": ["the path names a directory"],
    "folder": ["expected a regular file, found a directory"],
    "slash": ["the path names a directory"], "drive": ["a backslash"],
    "host": ["a backslash"], "backslash": ["a backslash"],
    "fifo": ["expected a regular file, found a FIFO"],
    "socket": ["expected a regular file, found a socket"],
    "final link": LINK, "middle link": LINK,
    "hard link": ["has 2 names (hard links)", "note: --allow-links accepts such files"],
    "itself": ["the path has a NUL byte"], "missing": ["No such file or directory"],
    "file as folder": ["Not a directory"],
}  # fmt: skip


@pytest.mark.parametrize("kind", LOCATIONS)
def test_33_34_35_location(kind, folder):
    outside = folder.parent / "outside.bin"
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(folder / "socket"))
    (folder / "link.bin").symlink_to("../outside.bin")
    (folder / "out").symlink_to("..")
    os.link(outside, folder / "hard.bin")
    location = LOCATIONS[kind].format(outside=outside)
    path = write(place(location), folder / "m.onnx")
    words = [":initializer 'w': error: ", *REASONS[kind]]
    refuse(3, words, "binade", "import", path)


def test_33_34_nothing_outside_is_opened(folder):
    """Of all that a command opens, only what the system reads itself is elsewhere."""
    if not shutil.which("strace"):
        pytest.skip("no strace")
    outside = folder.parent / "outside.bin"
    (folder / "link.bin").symlink_to("../outside.bin")
    (folder / "out").symlink_to("..")
    os.link(outside, folder / "hard.bin")
    trace = folder.parent / "trace"
    os.mkfifo(folder / "fifo")
    for kind in (
        "absolute",
        "parent",
        "detour",
        "final link",
        "middle link",
        "proc",
        "zero",
        "fifo",
    ):
        location = LOCATIONS[kind].format(outside=outside)
        path = write(place(location), folder / "m.onnx")
        command = ["strace", "-f", "-e", "trace=open,openat,openat2,creat", "-o", trace,
                   BUILD / "bin/binade", "import", path, "-o", folder / "m.mlir"]  # fmt: skip
        subprocess.run(command, capture_output=True, timeout=600)
        opened = [
            line for line in trace.read_text().splitlines() if " = -1 " not in line
        ]
        assert any("m.onnx" in line for line in opened)
        for name in ("outside.bin", "self/mem", "/dev/zero"):
            assert not any(name in line for line in opened), kind


NUMBERS = {
    "past the end": {"offset": "17"}, "over the end": {"offset": "4"},
    "beyond 2^64": {"offset": "18446744073709551616"},
    "sum beyond 2^64": {"offset": "18446744073709551608"}, "negative": {"offset": "-1"},
    "exponent": {"offset": "1e9"}, "space": {"offset": " 12"}, "hex": {"offset": "0x10"},
    "no number": {"offset": ""}, "other length": {"length": "12"},
    "long": {"length": "1125899906842624"}, "negative length": {"length": "-16"},
}  # fmt: skip


@pytest.mark.parametrize("kind", NUMBERS)
def test_36_offsets_and_lengths(kind, folder):
    (value,) = NUMBERS[kind].values()
    reason = (
        f"16 bytes at offset {value} reach beyond the end of the file, which has 16 bytes"
        if kind in ("past the end", "over the end", "sum beyond 2^64")
        else f"external length is {value} bytes, its type 'tensor<4xf32>' needs 16"
        if kind in ("other length", "long")
        else f"to be a decimal number, got '{value}'"
    )
    path = write(place("w.bin", **NUMBERS[kind]), folder / "m.onnx")
    words = [":initializer 'w': error: ", reason]
    refuse(3, words, "binade", "import", path)


def test_37_38_unaligned_and_shared_ranges(folder):
    (folder / "w.bin").write_bytes(bytes(64))
    model = place("w.bin", offset="3", length="16")
    done = run("binade", "import", write(model, folder / "m.onnx"))
    assert done.returncode == 0 and b"warning" not in done.stderr
    model.graph.initializer.append(model.graph.initializer[0])
    model.graph.initializer[1].name = "v"
    model.graph.node.append(model.graph.node[0])
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = "h"
    model.graph.node[1].input[1] = "v"
    # All of them is how tied weights are stored.
    done = run("binade", "import", write(model, folder / "m.onnx"))
    assert done.returncode == 0 and b"warning" not in done.stderr
    for begin in (5, 1):
        model.graph.initializer[1].external_data[1].value = str(begin)
        done = run("binade", "import", write(model, folder / "m.onnx"))
        assert done.returncode == 0, done.stderr
        assert (
            f":initializer 'v': warning: has bytes {begin} to {begin + 16} of 'w.bin', "
            "of which 'w' has 3 to 19; each gets a copy of its own"
        ) in done.stderr.decode()
    model.graph.initializer[1].external_data[1].value = "19"
    done = run("binade", "import", write(model, folder / "m.onnx"))
    assert done.returncode == 0 and b"warning" not in done.stderr


NOT_FINITE = "2 values that are not finite, the first as element 2"
TRAIN = ["--loss", "mse(y, t)", "--batch", 4, "--steps", 1]


@pytest.fixture
def damaged(folder):
    """A model whose weight is no number, and what the commands take beside it."""
    np.array([1, 2, np.nan, np.inf], "<f4").tofile(folder / "w.bin")
    safetensors.save(
        folder / "data.safetensors", {name: np.ones(8, "f4") for name in "xt"}
    )
    write(place("w.bin"), folder / "m.onnx")
    return folder


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_31_weights_that_are_no_numbers(number, damaged):
    """They are trained all the same: a warning says why that stops at once."""
    np.array([1, 2, number, number], "<f4").tofile(damaged / "w.bin")
    assert run("binade", "import", "m.onnx", cwd=damaged).returncode == 0
    done = run("binade", "train", "m.onnx", *TRAIN, "--data", "data.safetensors",
               "--out", "run", cwd=damaged)  # fmt: skip
    assert done.returncode == 4, done.stderr
    words = f"warning: m.onnx: parameter 'w' starts with {NOT_FINITE}\n"
    assert words in done.stderr.decode()


@pytest.mark.parametrize("command", [
    ["import"], ["compile", "--loss", "mse(y, t)", "-o", "s.bnd"],
    ["train", *TRAIN, "--data", "data.safetensors", "--out", "run"],
    ["convert", "--policy", "bf16-amp", "-o", "s.onnx"],
])  # fmt: skip
def test_31_weights_that_are_refused(command, damaged):
    name, *options = command
    words = [name, "m.onnx", "--fail-on-nonfinite", *options]
    text = f"m.onnx:initializer 'w': error: holds {NOT_FINITE}\n"
    refuse(3, text, "binade", *words, cwd=damaged)
    assert not {"s.bnd", "run", "s.onnx"} & {one.name for one in damaged.iterdir()}
    np.array([1, 2, 3, -4], "<f4").tofile(damaged / "w.bin")
    done = run("binade", *words, cwd=damaged)
    assert done.returncode == 0, done.stderr


def test_31_weights_of_bundles_and_of_init(damaged):
    train = ["--data", "data.safetensors", "--steps", 1, "--batch", 4, "--out", "run"]
    compiled = run(
        "binade", "compile", "m.onnx", *TRAIN[:2], "-o", "s.bnd", cwd=damaged
    )
    assert compiled.returncode == 0, compiled.stderr
    refuse(3, f"s.bnd:parameter 'w': error: starts with {NOT_FINITE}", "binade",
           "train", "s.bnd", "--fail-on-nonfinite", *train, cwd=damaged)  # fmt: skip
    safetensors.save(damaged / "i.safetensors",
                     {"w": np.fromfile(damaged / "w.bin", "<f4")})  # fmt: skip
    (damaged / "w.bin").write_bytes(bytes(16))
    train = ["train", "m.onnx", *TRAIN[:2], *train, "--init", "i.safetensors"]
    refuse(3, f"i.safetensors:parameter 'w': error: starts with {NOT_FINITE}", "binade",
           *train, "--fail-on-nonfinite", cwd=damaged)  # fmt: skip
    done = run("binade", *train, cwd=damaged)
    assert done.returncode == 4, done.stderr
    words = f"warning: i.safetensors: parameter 'w' starts with {NOT_FINITE}\n"
    assert words in done.stderr.decode()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_31_constants(number, folder):
    """Masks are made of minus infinity; nothing else that is not finite is."""
    model = parse(WEIGHT.replace("[{}]", "{{1, 2, 3, 4}}").format())
    model.graph.initializer[0].float_data[1] = number
    path = write(model, folder / "m.onnx")
    words = ["binade", "import", path, "--fail-on-nonfinite"]
    if number == -np.inf:
        assert run(*words).returncode == 0
        words = [*words, "--train", "w"]
    text = ":initializer 'w': error: holds 1 value that is not finite, the first as "
    refuse(3, text + "element 1\n", *words)


@pytest.mark.parametrize("command", ["import", "train", "convert"])
def test_4_two_gibibytes(command, tmp_path):
    """A limit, which has a code of its own; no byte is read."""
    path, out = tmp_path / "m.onnx", tmp_path / "out"
    with path.open("wb") as file:
        file.truncate((2 << 30) + 1)
    more = {
        "import": ["-o", out],
        "convert": ["--policy", "bf16", "-o", out],
        "train": ["--loss", "mse(y, t)", "--data", path, "--steps", 1, "--out", out],
    }
    done = run("binade", command, path, *more[command])
    assert done.returncode == 7, done.stderr
    assert (
        b"an ONNX file of 2 GiB or more cannot be read" in done.stderr
        and not out.exists()
    )


def test_40_checksum(folder):
    right = hashlib.sha1((folder / "w.bin").read_bytes()).hexdigest()
    path = write(place("w.bin", checksum=right), folder / "m.onnx")
    assert run("binade", "import", path).returncode == 0
    wrong = "0" + right[1:] if right[0] != "0" else "1" + right[1:]
    write(place("w.bin", checksum=wrong), folder / "m.onnx")
    refuse(3, [":initializer 'w': error: ", f"has the SHA-1 {right}"], "binade", "import",
           path)  # fmt: skip


def test_42_git_lfs_pointer(folder):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    (folder / "w.bin").write_bytes(pointer)
    path = write(place("w.bin", offset="200"), folder / "m.onnx")
    refuse(3, "Git LFS pointer: run 'git lfs pull'", "binade", "import", path)


# --- Files of tensors -----------------------------------------------------------------


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
    "garbage behind": header("{}", b"x"), "garbage in the header": header("{}x"),
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

# What was found, and where.
DAMAGE = {
    "empty": ["it has only 0 bytes"], "short": ["it has only 7 bytes"],
    "no header": ["does not begin with '{'"], "no brace": ["does not begin with '{'"],
    "2^63 bytes of header": ["9223372036854775808 bytes, the limit is 100000000"],
    "over 100 MB of header": ["100000001 bytes, the limit is 100000000"],
    "longer than the file": ["3 bytes, but only 2 bytes are left"],
    "garbage behind": ["1 bytes after the last tensor"],
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
    "pickle": ["a zip archive (a PyTorch checkpoint", "convert its tensors"],
    "pointer": ["a Git LFS pointer", "git lfs pull"],
}  # fmt: skip


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """A module that takes one tensor."""
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
    text = refuse(3, words, "binade-eval", module, "--inputs", path, "--out", out)
    assert text.startswith(str(path)) and not out.exists()


# --- Modules --------------------------------------------------------------------------

SPLAT = """func.func @f() -> tensor<{0}xf32> {{
  %0 = binade.constant dense<{1}> : tensor<{0}xf32>
  return %0 : tensor<{0}xf32>
}}
"""
RESOURCE = """func.func @step() -> tensor<4xf32> {
  %0 = binade.constant dense_resource<blob> : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
BLOB = """{-#
  dialect_resources: { builtin: { blob: "0x040000000102" } }
#-}
"""
# Operands and their types, codes first.
DEQUANTIZED = """func.func @step(%c: tensor<4xf8E4M3FN>, %s: tensor<2xf32>, %t: tensor<bf16>) -> tensor<4xf32> {{
  %x = binade.dequantize {} {{format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>}} : ({}) -> tensor<4xf32>
  return %x : tensor<4xf32>
}}
"""
KEPT = "m.mlir:2:8: error: 'binade.dequantize' op expects #binade.quantized<f8E4M3FN, per_tensor, scale = f32> to keep a tensor of shape [4] as ('tensor<4xf8E4M3FN>', 'tensor<f32>'), got "
ELSEWHERE = "m.mlir:2:8: error: expected elements as dense<...> or #binade.external, got builtin.dense_resource"
MODULES = {
    "49 syntax": ("module {", "m.mlir:1:7: error: expected operation name in quotes"),
    "49 dialect": ('"foo.bar"() : () -> ()', "m.mlir:1:1"),
    "49 op": ('"binade.bar"() : () -> ()', "m.mlir:1:1"),
    "50 braces": ("module {" * 20_000, "error: nesting deeper than 256 levels"),
    "50 types": ("func.func private @f(" + "tuple<" * 100_000, "error: nesting deeper"),
    "50 lists": ("module attributes {a = " + "[" * 100_000, "error: nesting deeper"),
    "50 minuses": ("module attributes {a = " + "-" * 100_000 + "1}", "error: nesting deeper"),
    "51 bytecode": (b"ML\xefR\x0dMLIR22\0" + bytes(60), "this is MLIR bytecode"),
    "52 product": (SPLAT.format("4294967296x4294967296", "0.0"), "m.mlir:2:8: error: has a tensor of more than 2^48 elements"),
    "52 length": (SPLAT.format("9223372036854775807x2", "0.0"), "m.mlir:2:8: error: has a tensor of more than 2^48 elements"),
    "52 resource": (RESOURCE + BLOB, ELSEWHERE),
    "52 no resource": (RESOURCE, ELSEWHERE),
    "52 splat": (SPLAT.format("65536x65536x65536x65536", "0.0"), "m.mlir:2:8: error: has a tensor of more than 2^48 elements"),
    "53 no scale": (DEQUANTIZED.format("%c", "tensor<4xf8E4M3FN>"), KEPT + "('tensor<4xf8E4M3FN>')"),
    "53 scales of another shape": (DEQUANTIZED.format("%c, %s", "tensor<4xf8E4M3FN>, tensor<2xf32>"), KEPT + "('tensor<4xf8E4M3FN>', 'tensor<2xf32>')"),
    "53 scale of another type": (DEQUANTIZED.format("%c, %t", "tensor<4xf8E4M3FN>, tensor<bf16>"), KEPT + "('tensor<4xf8E4M3FN>', 'tensor<bf16>')"),
    "53 codes and scale swapped": (DEQUANTIZED.format("%s, %c", "tensor<2xf32>, tensor<4xf8E4M3FN>"), KEPT + "('tensor<2xf32>', 'tensor<4xf8E4M3FN>')"),
    "52 short": (SPLAT.format("4", '"0x0000"'), "m.mlir:2:24: error: elements hex data size is invalid"),
}  # fmt: skip


@pytest.mark.parametrize("case", MODULES)
def test_49_to_53_module(case, tmp_path):
    path = tmp_path / "m.mlir"
    text, words = MODULES[case]
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    refuse(3, words, "binade", "explain", path)
    refuse(3, words, "binade", "compile", path, "--from", "kernels", "-o",
           tmp_path / "x.bnd")  # fmt: skip
    assert not (tmp_path / "x.bnd").exists()


BYTECODE = MODULES["51 bytecode"][0]


@pytest.mark.parametrize("reader", [
    ["binade", "explain"], ["binade", "verify"], ["binade", "inspect"], ["binade-eval"],
    ["binade-run"], ["binade", "compile", "--from", "assign", "-o", "x.bnd"],
    ["binade", "train", "--data", "x.safetensors", "--out", "x", "--steps", "1"],
    ["binade", "convert", "-o", "x.onnx"], ["binade", "import"],
])  # fmt: skip
@pytest.mark.parametrize("suffix", [".mlir", ".onnx", ".bnd", ".mlirbc"])
def test_51_no_reader_takes_bytecode(reader, suffix, tmp_path):
    """Whatever it is called: MLIR's reader of it never sees a file."""
    path = tmp_path / f"m{suffix}"
    path.write_bytes(BYTECODE)
    tool, *words = reader
    done = run(tool, *words[:1], path, *words[1:], cwd=tmp_path)
    assert done.returncode in (2, 3), done.stderr
    assert b"bytecode version" not in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("kind", ["50 braces", "50 types", "50 lists", "50 minuses"])
def test_50_binade_opt(kind, tmp_path):
    """It has MLIR's own exit codes, and MLIR's own parser."""
    path = tmp_path / "m.mlir"
    path.write_text(MODULES[kind][0])
    done = run("binade-opt", path)
    assert done.returncode == 1, done.stderr
    assert b": error: nesting deeper than 256 levels" in done.stderr


# --- Policies and formats of states ---------------------------------------------------

RULE = "name: x\nextends: bf16-amp\nrules:\n  - {{match: {}, {}}}\n"
POLICIES = {
    "54 op": (RULE.format("{op: matmull}", "class: deny"), "p.yaml:4:18: error: no op whose format can be chosen is called 'matmull'; did you mean 'matmul'?"),
    "55 contradiction": (RULE.format("{op: matmul}", "class: deny") + "  - {match: {op: matmul}, class: allow}\n", "p.yaml:5:6: error: matches the same as the rule at"),
    "56 integer": (RULE.format("{op: matmul}", "compute: i8"), "p.yaml:4:"),
    "57 twice": ("name: x\nname: y\n", "p.yaml:2:1: error: key 'name' stands twice"),
    "57 nan": ("name: x\nextends: fp16-amp\nloss_scale: {init: .nan}\n", "p.yaml:3:20: error: expected a number above 0"),
    "57 large number": ("name: x\nextends: fp16-amp\nloss_scale: {init: 1e999}\n", "p.yaml:3:20: error: expected a number above 0"),
    "57 alias": ("name: &a x\nextends: *a\n", "p.yaml:"),
    "57 bomb": ("a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n", "p.yaml:"),
    "57 alias of a list": ("name: x\nrules: &r\n  - {match: {op: matmul}, class: deny}\nmore: *r\n", "p.yaml:"),
    "57 key twice in a rule": (RULE.format("{op: matmul, op: exp}", "class: deny"), "p.yaml:4:"),
    "57 negative infinity": ("name: x\nextends: fp16-amp\nloss_scale: {init: -1e999}\n", "p.yaml:3:20: error: expected a number above 0"),
    "57 utf-16 without a mark": ("name: x\n".encode("utf-16-be"), "p.yaml:1:"),
    "57 directive": ("name: x\nextends: bf16-amp\n% a\n", "p.yaml:3:1: error: a line that begins with '%' is a directive"),
    "57 directive for a value": ("name: x\nrules:\n%a b\n", "p.yaml:3:1: error: a line that begins with '%' is a directive"),
    "57 directive behind the end": ("name: x\n...\n%a b\n", "p.yaml:3:1: error: a line that begins with '%' is a directive"),
    "57 mapping broken off": (b"rules:\n- {a\n# \x98\n", "p.yaml:3:3: error: Got empty plain scalar"),
    "57 9 MiB": ("#" * (9 << 20), "p.yaml"),
    "57 utf-16": ("name: x\n".encode("utf-16"), "p.yaml:1:"),
    "57 nul": (b"name: x\0\n", "p.yaml:1:"),
    "57 deep": ("name: " + "[" * 100_000, "p.yaml:"),
    "34 extends outside": ("name: x\nextends: ../base.yaml\n", "p.yaml:2:10: error: cannot read policy file"),
    "34 extends absolute": ("name: x\nextends: {base}\n", "p.yaml:2:10: error: cannot read policy file"),
    "34 extends link": ("name: x\nextends: link.yaml\n", "a component of the path is a symbolic link"),
    "34 extends itself": ("name: x\nextends: p.yaml\n", "policy extends itself"),
}  # fmt: skip


@pytest.mark.parametrize("case", POLICIES)
def test_54_to_57_policy(case, tmp_path):
    base, folder = tmp_path / "base.yaml", tmp_path / "own"
    base.write_text("name: base\nextends: bf16-amp\n")
    folder.mkdir()
    (folder / "link.yaml").symlink_to("../base.yaml")
    text, words = POLICIES[case]
    if isinstance(text, str):
        text = text.replace("{base}", str(base)).encode()
    path = folder / "p.yaml"
    path.write_bytes(text)
    refuse(3, [str(path), words], "binade", "policy", "show", path)


def test_57_a_hundred_megabytes_are_not_read(tmp_path):
    """The limit is 8 MiB: what is larger is not even looked at."""
    path = tmp_path / "p.yaml"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    refuse(3, [str(path), "8388608"], "binade", "policy", "show", path)


def test_57_a_byte_order_mark_is_none_of_the_text(tmp_path):
    """YAML has it as the sign of UTF-8."""
    shown = []
    for name, mark in ("with", b"\xef\xbb\xbf"), ("without", b""):
        path = tmp_path / name / "p.yaml"
        path.parent.mkdir()
        path.write_bytes(mark + b"name: x\nextends: bf16-amp\n")
        text = run("binade", "policy", "show", path).stdout.decode()
        shown.append([line for line in text.splitlines() if "  hash " not in line])
    assert shown[0] == shown[1] and len(shown[0]) > 5


def test_58_globs_take_linear_time(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(RULE.format(f'{{name: "{"a*" * 2000}b"}}', "class: deny"))
    assert run("binade", "policy", "show", path).returncode == 0


GROUPS = {"0": "group: 0", "2^64": "group: 18446744073709551616", "negative": "group: -16",
          "block": "block: [0, 16]", "both": "group: 16\nblock: [16, 16]"}  # fmt: skip


@pytest.mark.parametrize("kind", GROUPS)
def test_59_group(kind, tmp_path):
    path = tmp_path / "f.yaml"
    path.write_text(f"summary: x\nelement: f8E4M3FN\n{GROUPS[kind]}\n")
    model = ROOT / "examples/char-gpt/mini.onnx"
    refuse(3, "f.yaml:", "binade", "compile", model, "--states", path, "-o",
           tmp_path / "x.bnd")  # fmt: skip


@pytest.mark.parametrize("option", ["--policy", "--ranges", "--optimizer", "--states"])
def test_33_files_that_are_none(option, tmp_path):
    """What would be waited for, or never end."""
    suffix = ".mlir" if option == "--optimizer" else ".yaml"
    (tmp_path / f"zero{suffix}").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / f"fifo{suffix}")
    model = ROOT / "examples/char-gpt/mini.onnx"
    for name in ("zero", "fifo"):
        refuse(3, name + suffix, "binade", "compile", model, option,
               tmp_path / f"{name}{suffix}", "-o", tmp_path / "x.bnd")  # fmt: skip


# --- Completeness ---------------------------------------------------------------------

PAGE = ROOT / "docs/Security.md"


def test_each_case_has_a_test():
    """The page has a row for each case, which names tests that exist."""
    rows = dict(
        re.findall(r"^\| (\d+) \| .* \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    )
    assert sorted(map(int, rows)) == list(range(1, 60))
    sources = [*(ROOT / "test").rglob("*.py"), *(ROOT / "test").rglob("*.cpp"),
               *(ROOT / "test").rglob("*.mlir")]  # fmt: skip
    texts = {path.name: path.read_text() for path in sources}
    for case, tests in rows.items():
        for file, name in re.findall(r"`([\w./]+)(?:::(\w+))?`", tests):
            assert file in texts, f"case {case}: no file {file}"
            assert (name or "") in texts[file], f"case {case}: no {name} in {file}"


def test_safetensors_is_read_at_all(module, tmp_path):
    """The file that the others are variants of."""
    path, out = tmp_path / "f.safetensors", tmp_path / "out.safetensors"
    path.write_bytes(
        header('{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4))
    )
    done = run("binade-eval", module, "--inputs", path, "--out", out)
    assert done.returncode == 0, done.stderr
    assert len(safetensors.load(out)) == 1
