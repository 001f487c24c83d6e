"""`binade ckpt convert` changes the format of optimizer states: quantized values, scales and
dequantized values match numpy, and inconsistent files are rejected."""

import hashlib
import json
import shutil

import numpy as np
import pytest
from support.codec import formats
from support.reference import binade, safetensors

onnx = pytest.importorskip("onnx")

from support.checkpoint_runs import change_manifest  # noqa: E402

F32 = np.float32
# 2535 and 195 elements: odd, and not multiples of a group.
GRAPH = """
<ir_version: 9, opset_import: ["" : 20]>
net (float[8, 39] x, int64[8] labels) => (float loss)
  <float[39, 65] up, float[65, 3] down> {
  a = MatMul(x, up)
  b = Relu(a)
  logits = MatMul(b, down)
  loss = SoftmaxCrossEntropyLoss(logits, labels)
}
"""
STATES = [(f"{state}/{name}", state == "exp_avg")
          for state in ("exp_avg", "exp_avg_sq") for name in ("up", "down")]  # fmt: skip
NAMES = [name for name in formats(True) if name != "f32"]
PARTS = ("", ".scale", ".power", ".centre")


def run(*arguments, code=0):
    process = binade(*arguments)
    assert process.returncode == code, process.stderr
    return process


class Work:
    """A bundle of one model per format of its states, and a run in f32."""

    def __init__(self, folder):
        self.folder, self.run = folder, folder / "run"
        draw = np.random.default_rng(5)
        model = onnx.parser.parse_model(GRAPH)
        for name, shape in (("up", (39, 65)), ("down", (65, 3))):
            value = draw.standard_normal(shape, F32)
            model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
        model.metadata_props.add(key="binade.trainable", value='["up", "down"]')
        onnx.save(model, folder / "net.onnx")
        x = draw.standard_normal((64, 39), F32)
        safetensors.save(
            folder / "data.safetensors", {"x": x, "labels": np.arange(64) % 3}
        )
        self.train("f32", "--out", self.run)

    def bundle(self, states):
        path = self.folder / f"{states}.bnd"
        if not path.exists():
            run("compile", self.folder / "net.onnx", "--optimizer", "adamw",
                "--states", f"*:{states}", "-o", path)  # fmt: skip
        return path

    def train(self, states, *more, steps=10, code=0):
        return run("train", self.bundle(states), "--data",
                   self.folder / "data.safetensors", "--steps", steps,
                   "--save-every", 5, *more, code=code)  # fmt: skip

    def convert(self, source, states, out, code=0):
        return run("ckpt", "convert", source, "--to", self.bundle(states), "-o", out,
                   code=code)  # fmt: skip


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return Work(tmp_path_factory.mktemp("states"))


def shard(directory, step=10):
    return directory / "checkpoints" / f"step-{step:06d}" / "state.safetensors"


def load(directory, step=10):
    return safetensors.load(shard(directory, step))


def parts_of(tensors, name):
    return [tensors[key].ravel() for suffix in PARTS
            if (key := f"state/{name}{suffix}") in tensors]  # fmt: skip


def check_quantized(form, parts, values):
    """Checks that `parts` are `values` quantized in `form`."""
    factors = form.choose(values)
    assert len(parts) == len(form.parts(values.size))
    for part, factor in zip(parts[1:], factors):
        # Errors of the logarithm may move a power to the next multiple of 1/16.
        np.testing.assert_allclose(part, factor, rtol=1e-5 if form.expand else 0)
    codes, doubtful = form.encode(values, parts[1:])
    found = form.unpack(parts[0], values.size)
    if not form.expand:
        doubtful[:] = False
    np.testing.assert_array_equal(found[~doubtful], codes[~doubtful])
    assert np.abs(found.astype(int) - codes).max() <= 1 and doubtful.mean() < 0.01


@pytest.mark.parametrize("name", NAMES)
def test_states_are_quantized_and_dequantized(work, name, tmp_path):
    printed = work.convert(work.run, name, tmp_path / "codes").stdout
    assert "4 states" in printed
    before, codes = load(work.run), load(tmp_path / "codes")
    work.convert(tmp_path / "codes", "f32", tmp_path / "dequantized")
    after = load(tmp_path / "dequantized")
    for state, signed in STATES:
        form, values = formats(signed)[name], before[f"state/{state}"].ravel()
        parts = parts_of(codes, state)
        check_quantized(form, parts, values)
        found = after[f"state/{state}"]
        assert found.dtype == F32 and found.shape == before[f"state/{state}"].shape
        expected = form.decode(parts, values.size)
        np.testing.assert_allclose(
            found.ravel(), expected, rtol=1e-5 if form.expand else 0, atol=0
        )
    for key in ("up", "down", "step"):
        np.testing.assert_array_equal(codes[key], before[key])
        np.testing.assert_array_equal(after[key], before[key])


def test_quantized_states_are_converted_to_other_formats(work, tmp_path):
    work.convert(work.run, "dyn8", tmp_path / "dyn8")
    work.convert(tmp_path / "dyn8", "e5m2", tmp_path / "e5m2")
    work.convert(tmp_path / "dyn8", "bf16", tmp_path / "bf16")
    tensors = [load(tmp_path / name) for name in ("dyn8", "e5m2", "bf16")]
    for state, signed in STATES:
        forms = formats(signed)
        size = tensors[2][f"state/{state}"].size
        values = forms["dyn8"].decode(parts_of(tensors[0], state), size)
        check_quantized(forms["e5m2"], parts_of(tensors[1], state), values)
        narrow = tensors[2][f"state/{state}"]
        np.testing.assert_array_equal(narrow.ravel(), values.astype(narrow.dtype))


def test_the_same_format_keeps_its_bits(work, tmp_path):
    """Even bits that quantization would never write, such as -0 and NaN."""
    work.convert(work.run, "e4m3x", tmp_path / "a")
    edit(tmp_path / "a", lambda tensors, _: tensors["state/exp_avg/up"].view(
        np.uint8).ravel()[:3].__setitem__(slice(3), [0x80, 0x7F, 0xFF]))  # fmt: skip
    work.convert(tmp_path / "a", "e4m3x", tmp_path / "b")
    first, second = load(tmp_path / "a"), load(tmp_path / "b")
    assert first.keys() == second.keys()
    for key, value in first.items():
        assert second[key].tobytes() == value.tobytes(), key


def edit(directory, change):
    """Changes tensors and metadata of a checkpoint, and updates its size and hash."""
    path = shard(directory)
    tensors, metadata = safetensors.load(path), safetensors.read_header(path).metadata
    change(tensors, metadata)
    safetensors.save(path, tensors, metadata)

    def correct(manifest):
        data = path.read_bytes()
        manifest["shards"][0]["bytes"] = len(data)
        manifest["shards"][0]["sha256"] = hashlib.sha256(data).hexdigest()

    change_manifest(path.parent, correct)


@pytest.mark.parametrize("name", ["e4m3", "e4m3x", "dyn8", "dyn4", "softsign8"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_stay_non_finite(work, name, value, tmp_path):
    shutil.copytree(work.run, tmp_path / "run")

    def change(tensors, _):
        tensors["state/exp_avg/up"][3, 7] = value  # Element 202.

    edit(tmp_path / "run", change)
    work.convert(tmp_path / "run", name, tmp_path / "codes")
    work.convert(tmp_path / "codes", "f32", tmp_path / "dequantized")
    found = load(tmp_path / "dequantized")["state/exp_avg/up"].ravel()
    assert np.isnan(found[202]) if np.isnan(value) else not np.isfinite(found[202])
    group = formats(True)[name].group
    others = np.arange(found.size) // group != 202 // group
    assert np.isfinite(found[others]).all()


def test_a_run_resumes_with_quantized_states(work, tmp_path):
    """Parameters stay close to those of the run with f32 states."""
    work.convert(work.run, "dyn8", tmp_path / "dyn8")
    printed = work.train("dyn8", "--resume", tmp_path / "dyn8", steps=20).stdout
    assert "resumed after step 10" in printed
    work.train("f32", "--out", tmp_path / "whole", steps=20)
    found, whole = load(tmp_path / "dyn8", 20), load(tmp_path / "whole", 20)
    moved = np.abs(whole["up"] - load(work.run)["up"]).max()
    assert np.abs(found["up"] - whole["up"]).max() < 0.2 * moved


def test_a_rejection_names_the_convert_command(work, tmp_path):
    shutil.copytree(work.run, tmp_path / "run")
    process = work.train("dyn8", "--resume", tmp_path / "run", steps=20, code=3)
    note = f"'binade ckpt convert {tmp_path}/run/checkpoints/step-000010 --to STEP.bnd"
    assert note in process.stderr
    # It is not named if another setting differs, too.
    process = work.train("dyn8", "--resume", tmp_path / "run", "--seed", 3, steps=20,
                         code=3)  # fmt: skip
    assert "ckpt convert" not in process.stderr


@pytest.mark.parametrize("before, after", [("f32", "dyn8"), ("e4m3", "e4m3x"),
                                           ("dyn8", "linear8")])  # fmt: skip
def test_init_rejects_states_of_another_format(work, before, after, tmp_path):
    """Even if types and sizes agree."""
    work.convert(work.run, before, tmp_path / "from")
    process = work.train(after, "--init", shard(tmp_path / "from"), "--out",
                         tmp_path / "to", code=3)  # fmt: skip
    assert "'state/exp_avg/down'" in process.stderr
    assert "'binade ckpt convert' writes a checkpoint with states" in process.stderr


def drop_scale(tensors, _):
    del tensors["state/exp_avg/up.scale"]


def cut_scale(tensors, _):
    tensors["state/exp_avg/up.scale"] = tensors["state/exp_avg/up.scale"][:-1]


def replace(old, new):
    def change(_, metadata):
        text = metadata["quantized_states"]
        assert old in text
        metadata["quantized_states"] = text.replace(old, new)

    return change


@pytest.mark.parametrize("change, message", [
    (drop_scale, "'state/exp_avg/up.scale' (part of 'state/exp_avg/up') is not in"),
    (cut_scale, "'state/exp_avg/up' and its parts are not what their format says"),
    (replace("[39,65]", "[65,39]"), "'state/exp_avg/up' is quantized [65, 39] in the"),
    (replace("f8E4M3FN", "f8E4M3FM"), "f8E4M3FM"),
    (replace("#binade.quantized<", "[" * 9999), "are not what their format says"),
    (replace('{"format"', "{format"), "not valid JSON"),
    (replace("per_group<128>", "per_group<0>"), "positive numbers"),
])  # fmt: skip
def test_inconsistent_files_are_rejected(work, change, message, tmp_path):
    work.convert(work.run, "e4m3", tmp_path / "codes")
    edit(tmp_path / "codes", change)
    before = shard(tmp_path / "codes").read_bytes()
    process = work.convert(tmp_path / "codes", "f32", tmp_path / "out", code=3)
    assert message in process.stderr
    assert not (tmp_path / "out").exists()
    assert shard(tmp_path / "codes").read_bytes() == before


def test_metadata_describes_quantized_states(work, tmp_path):
    work.convert(work.run, "dyn4", tmp_path / "codes")
    metadata = safetensors.read_header(shard(tmp_path / "codes")).metadata
    found = {}
    for entry in json.loads(metadata["quantized_states"]):
        assert entry["format"].startswith("#binade.quantized<#binade.code_book<")
        for state in entry["states"]:
            found[state["parts"][0]] = (state["parts"], state["shape"])
    assert found["state/exp_avg_sq/down"] == (
        ["state/exp_avg_sq/down", "state/exp_avg_sq/down.scale"], [65, 3]
    )  # fmt: skip
    assert len(found) == 4
