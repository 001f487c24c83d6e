"""Damaged or malicious external data of models. The numbers in names are those of the cases in
docs/Security.md."""

import contextlib
import hashlib
import os
import shutil
import socket
import subprocess

import numpy as np
import pytest
from support.hostile import parse, refuse, run, write
from support.paths import BUILD
from support.reference import safetensors

WEIGHT = "g (float[4] x) => (float[4] y) <float[4] w = [{}]> {{ y = Add(x, w) }}"


def place(location=None, **entries):
    """A model whose initializer 'w' is in external data."""
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
    """The directory of a model with an external weight; `outside.bin` is next to it."""
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    for path in (folder / "w.bin", tmp_path / "outside.bin", folder / "sub/w.bin"):
        path.write_bytes(bytes(16))
    return folder


LOCATIONS = {
    "absolute": "{outside}", "parent": "../outside.bin", "detour": "sub/../../outside.bin",
    "inside again": "../model/w.bin", "empty": "", "dot": ".", "folder": "sub",
    "slash": "sub/", "drive": "C:\\x", "host": "\\\\host\\x", "backslash": "sub\\w.bin",
    "proc": "/proc/self/mem", "zero": "/dev/zero", "fifo": "fifo", "socket": "socket",
    "final link": "link.bin", "middle link": "out/outside.bin", "hard link": "hard.bin",
    "itself": "m.onnx\0.bin", "missing": "no.bin", "file as folder": "w.bin/x",
}  # fmt: skip
BENEATH = "note: external files have to be below the directory of the file"
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
    # Some hundred characters are the limit of a socket's path.
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(folder):
        server.bind("socket")
    (folder / "link.bin").symlink_to("../outside.bin")
    (folder / "out").symlink_to("..")
    os.link(outside, folder / "hard.bin")
    location = LOCATIONS[kind].format(outside=outside)
    path = write(place(location), folder / "m.onnx")
    words = [":initializer 'w': error: ", *REASONS[kind]]
    refuse(3, words, "binade", "import", path)


def test_33_34_nothing_outside_is_opened(folder):
    """The command does not open the files outside that the model names."""
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
    "not a number": {"offset": ""}, "other length": {"length": "12"},
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
    # Two initializers with the same range are tied weights.
    done = run("binade", "import", write(model, folder / "m.onnx"))
    assert done.returncode == 0 and b"warning" not in done.stderr
    for begin in (5, 1):
        model.graph.initializer[1].external_data[1].value = str(begin)
        done = run("binade", "import", write(model, folder / "m.onnx"))
        assert done.returncode == 0, done.stderr
        assert (
            f":initializer 'v': warning: uses bytes {begin} to {begin + 16} of 'w.bin', "
            "which overlap bytes 3 to 19 of 'w'; each tensor gets its own copy"
        ) in done.stderr.decode()
    model.graph.initializer[1].external_data[1].value = "19"
    done = run("binade", "import", write(model, folder / "m.onnx"))
    assert done.returncode == 0 and b"warning" not in done.stderr


NOT_FINITE = "2 values that are not finite, the first as element 2"
TRAIN = ["--loss", "mse(y, t)", "--batch", 4, "--steps", 1]


@pytest.fixture
def damaged(folder):
    """A model whose weight has NaN and infinity, and a data file."""
    np.array([1, 2, np.nan, np.inf], "<f4").tofile(folder / "w.bin")
    safetensors.save(
        folder / "data.safetensors", {name: np.ones(8, "f4") for name in "xt"}
    )
    write(place("w.bin"), folder / "m.onnx")
    return folder


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_31_non_finite_weights(number, damaged):
    """Training starts with a warning, and then stops because the loss is not finite."""
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
def test_31_fail_on_nonfinite(command, damaged):
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
    """Constants may contain minus infinity, as masks do, but no other non-finite value."""
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
    """The limit has a separate exit code, and the file is not read."""
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
