"""Import rejects invalid files, external data and metadata with a message that says why."""

import json
import os
import subprocess

import numpy as np
import pytest
from binade import safetensors
from support.invalid_imports import messages, parse, translate
from support.paths import BUILD

onnx = pytest.importorskip("onnx")

TRANSLATE = BUILD / "bin" / "binade-translate"
EVAL = BUILD / "bin" / "binade-interpret"

pytestmark = pytest.mark.skipif(not TRANSLATE.exists(), reason="the tool is not built")

FILES = {
    "empty": (b"", "expected an ONNX model, got an empty file"),
    "text": (b"hello, this is not a model", "but the bytes cannot be parsed as one"),
    "gzip": (b"\x1f\x8b\x08\x00" + bytes(60), "got a gzip file\nm.onnx: note: decompress it first"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(60), "got a PNG image"),
    "safetensors": (
        (2).to_bytes(8, "little") + b'{"a": {}}' + bytes(60),
        "got a safetensors file",
    ),
    "git_lfs": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "got a Git LFS pointer\nm.onnx: note: run 'git lfs pull'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_file(name, tmp_path):
    content, message = FILES[name]
    (tmp_path / "m.onnx").write_bytes(content)
    assert message in messages(tmp_path / "m.onnx")


def test_damaged_models_are_rejected_or_imported(tmp_path):
    """Files that are cut short or corrupted never crash the importer."""
    graph = """g (float[4,6] x, int64[4] t) => (float loss)
      <float[6,3] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9}, int64[2] s = {4, 3}> {
      h = MatMul(x, w)  r = Reshape(h, s)  loss = SoftmaxCrossEntropyLoss(r, t) }"""
    data = parse(graph).SerializeToString()
    random = np.random.default_rng(5)
    path = tmp_path / "m.onnx"
    for step in range(150):
        changed = bytearray(data)
        if step % 3 == 0:
            changed = changed[: random.integers(1, len(data))]
        for _ in range(1 + step % 4):
            changed[random.integers(len(changed))] = random.integers(256)
        path.write_bytes(changed)
        assert translate(path).returncode in (0, 1), path.read_bytes()


def test_two_gibibytes_are_refused(tmp_path):
    with open(tmp_path / "m.onnx", "wb") as file:
        file.truncate(2 << 30)
    text = messages(tmp_path / "m.onnx")
    assert "file has 2147483648 bytes; an ONNX file of 2 GiB or more" in text
    assert "note: keep the weights as external data" in text


WEIGHT = """g (float[4] x) => (float[4] y) <float[4] w = [{}]> {{ y = Add(x, w) }}"""
# Name: (entries, content of w.bin, message).
PLACES = {
    "no_file": (
        '"location": "w.bin"', None, "w.bin: cannot open: No such file or directory",
    ),
    "no_location": ('"offset": "0"', None, "error: external data name no file"),
    "outside": ('"location": "../w.bin"', None, "'..'"),
    "absolute": ('"location": "/etc/passwd"', None, "/etc/passwd"),
    "negative_offset": (
        '"location": "w.bin", "offset": "-8"', bytes(16),
        "error: expected external offset to be a decimal number, got '-8'",
    ),
    "endless_offset": (
        '"location": "w.bin", "offset": "99999999999999999999"', bytes(16),
        "to be a decimal number, got '99999999999999999999'",
    ),
    "wrong_length": (
        '"location": "w.bin", "length": "12"', bytes(16),
        "error: external length is 12 bytes, its type 'tensor<4xf32>' needs 16",
    ),
    "file_too_short": ('"location": "w.bin", "offset": "4"', bytes(16), "w.bin"),
    "wrapping_offset": (
        '"location": "w.bin", "offset": "18446744073709551608"', bytes(16), "w.bin",
    ),
    "pointer_in_place_of_weights": (
        '"location": "w.bin", "offset": "200"',
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "note: the file is a Git LFS pointer: run 'git lfs pull'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_external_data(name, tmp_path):
    entries, content, message = PLACES[name]
    onnx.save(parse(WEIGHT.format(entries)), tmp_path / "m.onnx")
    if content is not None:
        (tmp_path / "w.bin").write_bytes(content)
    text = messages(tmp_path / "m.onnx")
    assert text.startswith("m.onnx:initializer 'w': error: ")
    assert message in text


def test_links_in_place_of_external_data(tmp_path):
    place = tmp_path / "model"
    place.mkdir()
    onnx.save(parse(WEIGHT.format('"location": "w.bin"')), place / "m.onnx")
    (tmp_path / "secret").write_bytes(bytes(16))
    (place / "w.bin").symlink_to("../secret")
    assert "initializer 'w': error: " in messages(place / "m.onnx")
    (place / "w.bin").unlink()
    os.link(tmp_path / "secret", place / "w.bin")
    assert "initializer 'w': error: " in messages(place / "m.onnx")
    assert translate(place / "m.onnx", "--allow-external-data-links").returncode == 0


def test_unknown_key_of_external_data_is_a_warning(tmp_path):
    onnx.save(
        parse(WEIGHT.format('"location": "w.bin", "colour": "red"')),
        tmp_path / "m.onnx",
    )
    (tmp_path / "w.bin").write_bytes(bytes(16))
    result = translate(tmp_path / "m.onnx")
    assert result.returncode == 0
    assert (
        "m.onnx:initializer 'w': warning: unknown key 'colour' of external data is "
        "ignored" in result.stderr
    )


def test_embedded_initializers_that_are_not_trained_are_reported(tmp_path):
    """PyTorch embeds small parameters in the file. Names without a dot are not warned
    about, because they are not attributes of a module."""
    (tmp_path / "w.bin").write_bytes(bytes(16))
    path = tmp_path / "m.onnx"

    def warnings(names, **metadata):
        model = parse("""g (float[4] x) => (float[4] y) <float[4] w = ["location": "w.bin"],
          float[4] b = {1, 2, 3, 4}, float[4] c = {1, 2, 3, 4}, float[4] m = {1, 1, 0, 0}> {
          p = Mul(x, w) q = Add(p, b) r = Add(q, c) y = Mul(r, m) }""")
        for old, new in names.items():
            for tensor in model.graph.initializer:
                tensor.name = new if tensor.name == old else tensor.name
            for node in model.graph.node:
                node.input[:] = [new if name == old else name for name in node.input]
        for key, value in metadata.items():
            model.metadata_props.add(key=f"binade.{key}", value=json.dumps(value))
        onnx.save(model, path)
        done = translate(path)
        assert done.returncode == 0, done.stderr
        return done.stderr

    both = warnings({"w": "fc.weight", "b": "fc.bias", "c": "out.bias"})
    assert (
        "m.onnx:initializer 'fc.bias': warning: is not trained, nor is 'out.bias': stored "
        "inside the model file, while without metadata 'binade.trainable' only "
        "initializers with external data are trained; --also-train '*' trains all\n"
        in both
    )
    assert "'fc.bias': warning: is not trained: " in warnings({"b": "fc.bias"})
    assert warnings({}) == ""
    assert warnings({"b": "fc.bias"}, version=1, trainable=["w"]) == ""


METADATA = {
    "version": ({"binade.version": 2}, "is 2; this build reads version 1"),
    "unknown_key": ({"binade.colour": 1}, "is not a key that this version knows"),
    "not_json": ({"binade.trainable": None}, "metadata 'binade.trainable'"),
    "not_a_list": ({"binade.trainable": {}}, "expected a list of names"),
    "name": (
        {"binade.trainable": ["w", "v"]},
        "names 'v', which is neither an initializer nor an input",
    ),
    "buffer": (
        {"binade.buffers": {"w": {"kind": "sum"}}},
        "has 'kind': \"sum\" for 'w', which this version does not know",
    ),
    "dims": ({"binade.dims": ["x"]}, "expected an object from dimensions to sizes"),
    "dim": (
        {"binade.dims": {"x": 0}},
        "has the size 0 for 'x'; expected a positive integer",
    ),
    "rule_of_initializer": (
        {"binade.init": {"w": {"rule": "ones"}}},
        "has a rule for 'w', which is an initializer with a value",
    ),
    "rule": (
        {"binade.init": {"x": {"rule": "orthogonal"}}},
        "has the rule {\"rule\":\"orthogonal\"} for 'x', which this version does not know",
    ),
    "rule_with_unknown_setting": (
        {"binade.init": {"x": {"rule": "ones", "gain": 2}}},
        "which this version does not know",
    ),
    "rule_of_descending_bounds": (
        {"binade.init": {"x": {"rule": "uniform", "low": 1, "high": 0}}},
        "which this version does not know",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", METADATA)
def test_metadata(name, tmp_path):
    entries, message = METADATA[name]
    model = parse(
        "g (float[4] x) => (float[4] y) <float[4] w = {1,2,3,4}> { y = Add(x, w) }"
    )
    text = {k: "{" if v is None else json.dumps(v) for k, v in entries.items()}
    onnx.helper.set_model_props(model, text)
    onnx.save(model, tmp_path / "m.onnx")
    found = messages(tmp_path / "m.onnx")
    assert message in found
    assert "metadata 'binade." in found


def test_tensor_data_of_wrong_size(tmp_path):
    model = parse(
        "g (float[4] x) => (float[4] y) <float[4] w = {1,2,3,4}> { y = Add(x, w) }"
    )
    del model.graph.initializer[0].float_data[3]
    onnx.save(model, tmp_path / "m.onnx")
    assert (
        "m.onnx:initializer 'w': error: holds 12 bytes of data, its type "
        "'tensor<4xf32>' needs 16" in messages(tmp_path / "m.onnx")
    )
    model.graph.initializer[0].dims[:] = [-4]
    onnx.save(model, tmp_path / "m.onnx")
    assert "has a dimension of negative length -4" in messages(tmp_path / "m.onnx")
    model.graph.initializer[0].dims[:] = [1 << 40, 1 << 40]
    onnx.save(model, tmp_path / "m.onnx")
    assert "has more than 2^48 elements" in messages(tmp_path / "m.onnx")


@pytest.mark.skipif(not EVAL.exists(), reason="the tool is not built")
@pytest.mark.parametrize("typed", [False, True])
def test_large_constants_stay_in_the_model_file(tmp_path, typed):
    """A constant of more than 64 KiB is not copied, but read from the ONNX file."""
    table = np.random.default_rng(3).normal(size=(64, 300)).astype(np.float32)
    model = parse("g (int64[5] i) => (float[5,300] y) { y = Gather(w, i) }")
    small = onnx.numpy_helper.from_array(np.float32([1]), "unused")
    model.graph.initializer.append(small)
    large = onnx.numpy_helper.from_array(table, "w")
    if typed:
        large.ClearField("raw_data")
        large.float_data.extend(table.ravel().tolist())
    model.graph.initializer.append(large)
    onnx.save(model, tmp_path / "m.onnx")
    result = translate(tmp_path / "m.onnx")
    assert result.returncode == 0, result.stderr
    assert ('#binade.external<"m.onnx", ' in result.stdout) == (not typed)
    (tmp_path / "m.mlir").write_text(result.stdout)
    indices = np.array([0, 63, 7, 7, -1])
    safetensors.save(tmp_path / "in.safetensors", {"i": indices})
    subprocess.run(
        [EVAL, tmp_path / "m.mlir", "--inputs", tmp_path / "in.safetensors",
         "--out", tmp_path / "out.safetensors"], check=True, timeout=600,
    )  # fmt: skip
    found = safetensors.load(tmp_path / "out.safetensors")["y"]
    np.testing.assert_array_equal(found, table[indices])
