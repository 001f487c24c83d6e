"""`binade ckpt convert` writes a checkpoint in the formats of another policy: values are
rounded as by numpy, and a run resumes from it.
"""

import json
import shutil

import ml_dtypes
import numpy as np
import pytest
from support.reference import binade, safetensors

onnx = pytest.importorskip("onnx")

from support.checkpoint_runs import GRAPH, draw_values  # noqa: E402
from support.storage import assert_equal_bits, join, start  # noqa: E402

POLICIES = {
    "wide": "extends: fp32\n",
    "split": "extends: fp32\nrules:\n"
    "- {match: {op: optimizer_update}, parameter: bf16, master: split_round}\n",
    "code": "extends: fp32\nrules:\n"
    "- {match: {op: optimizer_update}, parameter: bf16, master: split_8bit}\n",
    "short": "extends: fp32\nrules:\n"
    "- {match: {op: optimizer_update}, parameter: bf16, master: f32, state: bf16}\n",
    "scaled": "extends: fp16-amp\n",
}


def run(*arguments, code=0):
    process = binade(*arguments)
    assert process.returncode == code, process.stderr
    return process


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with data, a bundle of one model per policy, and a run of 10 steps in f32."""
    folder = tmp_path_factory.mktemp("convert")
    draw = np.random.default_rng(5)
    values = draw_values(draw)
    model = onnx.parser.parse_model(GRAPH)
    for name, value in values.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    model.metadata_props.add(
        key="binade.trainable", value=json.dumps(["up", "gain", "shift", "down"])
    )
    onnx.save(model, folder / "net.onnx")
    x = draw.standard_normal((64, 6), np.float32)
    safetensors.save(folder / "data.safetensors", {"x": x, "labels": np.arange(64) % 3})
    for name, text in POLICIES.items():
        (folder / f"{name}.yaml").write_text(f"name: {name}\n{text}")
        run("compile", folder / "net.onnx", "--policy", folder / f"{name}.yaml",
            "--optimizer", "adamw", "-o", folder / f"{name}.bnd")  # fmt: skip
    train(folder, "wide", "--out", folder / "run", steps=10)
    return folder


def train(folder, policy, *more, steps, code=0):
    return run("train", folder / f"{policy}.bnd", "--data", folder / "data.safetensors",
               "--steps", steps, "--save-every", 5, *more, code=code)  # fmt: skip


def convert(source, bundle, out, code=0):
    return run("ckpt", "convert", source, "--to", bundle, "-o", out, code=code)


def state(directory, step=10):
    return safetensors.load(
        directory / "checkpoints" / f"step-{step:06d}" / "state.safetensors"
    )


def test_values_are_rounded_once(work, tmp_path):
    convert(work / "run", work / "short.bnd", tmp_path / "short")
    before, after = state(work / "run"), state(tmp_path / "short")
    moments = [name for name in before if name.startswith("state/")]
    assert len(moments) == 8  # Two per parameter.
    for name in moments:
        expected = before[name].astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(after[name], expected)
    for name in ("up", "gain", "shift", "down"):
        expected = before[name].astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(after[name], expected)
        [master] = [
            value for key, value in after.items()
            if value.dtype == np.float32 and key.startswith("state/")
            and key.endswith(f"/{name}") and key not in before
        ]  # fmt: skip
        np.testing.assert_array_equal(master, before[name])
    for name in ("mean", "var", "step", "rng"):
        np.testing.assert_array_equal(after[name], before[name])


def test_converting_back_gives_the_same_bits(work, tmp_path):
    """bf16 parameters with a remainder contain all bits of f32 parameters."""
    convert(work / "run", work / "split.bnd", tmp_path / "split")
    convert(tmp_path / "split", work / "wide.bnd", tmp_path / "wide")
    before, after = state(work / "run"), state(tmp_path / "wide")
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)
    assert state(tmp_path / "split")["up"].dtype == ml_dtypes.bfloat16


def test_errors_of_bf16_parameters_are_converted(work, tmp_path):
    convert(work / "run", work / "code.bnd", tmp_path / "code")
    convert(tmp_path / "code", work / "wide.bnd", tmp_path / "wide")
    before, code, after = (
        state(folder) for folder in (work / "run", tmp_path / "code", tmp_path / "wide")
    )
    for name in ("up", "gain", "shift", "down"):
        expected = start("split_8bit", before[name])
        assert_equal_bits(code[name], expected["p"])
        assert_equal_bits(code[f"state/remainder/{name}"], expected["b"])
        assert_equal_bits(after[name], join("split_8bit", expected))
    printed = train(work, "code", "--resume", tmp_path / "code", steps=20).stdout
    assert "resumed after step 10" in printed
    train(work, "wide", "--out", tmp_path / "whole", steps=20)
    kept = state(tmp_path / "code", 20)
    found = join("split_8bit", {"p": kept["up"], "b": kept["state/remainder/up"]})
    np.testing.assert_allclose(found, state(tmp_path / "whole", 20)["up"], atol=1e-2)


def test_a_run_resumes_from_a_converted_checkpoint(work, tmp_path):
    """In the same formats, it has the bits of an unbroken run."""
    train(work, "wide", "--out", tmp_path / "whole", steps=20)
    convert(work / "run", work / "wide.bnd", tmp_path / "same")
    train(work, "wide", "--resume", tmp_path / "same", steps=20)
    whole, same = state(tmp_path / "whole", 20), state(tmp_path / "same", 20)
    for name, value in whole.items():
        np.testing.assert_array_equal(same[name], value, err_msg=name)

    convert(work / "run", work / "split.bnd", tmp_path / "split")
    printed = train(work, "split", "--resume", tmp_path / "split", steps=20).stdout
    assert "resumed after step 10" in printed
    halves = state(tmp_path / "split", 20)["up"].astype(np.float32)
    np.testing.assert_allclose(halves, whole["up"], rtol=2**-7, atol=1e-2)


def test_converting_a_checkpoint_named_by_its_path(work, tmp_path):
    source = work / "run" / "checkpoints" / "step-000005"
    printed = convert(source, work / "short.bnd", tmp_path / "short").stdout
    assert printed == (
        f"{tmp_path}/short/checkpoints/step-000005: 16 tensors of {source}, "
        "policy wide -> short\n"
    )
    np.testing.assert_array_equal(
        state(tmp_path / "short", 5)["mean"], state(work / "run", 5)["mean"]
    )
    run("ckpt", "verify", tmp_path / "short")


def test_the_loss_scale_is_added_or_left_out(work, tmp_path):
    printed = convert(work / "run", work / "scaled.bnd", tmp_path / "scaled").stdout
    assert "with their initial values: scaler/" in printed
    assert state(tmp_path / "scaled")["scaler/scale"] == 65536
    printed = convert(tmp_path / "scaled", work / "wide.bnd", tmp_path / "wide").stdout
    assert "left out: scaler/" in printed
    assert not any(name.startswith("scaler/") for name in state(tmp_path / "wide"))


def test_unsuitable_checkpoints_are_rejected(work, tmp_path):
    run("compile", work / "net.onnx", "--optimizer", "sgd", "--set", "momentum=0.9",
        "-o", tmp_path / "sgd.bnd")  # fmt: skip
    process = convert(work / "run", tmp_path / "sgd.bnd", tmp_path / "out", code=3)
    assert "(F32 [6, 32]) is not in the checkpoint" in process.stderr
    assert "the bundle has to be of the same model and optimizer" in process.stderr
    assert not (tmp_path / "out").exists()

    process = convert(work / "run", work / "wide.bnd", work / "run", code=3)
    assert "contains a run: " in process.stderr

    process = convert(tmp_path, work / "wide.bnd", tmp_path / "out", code=3)
    assert "manifest.json" in process.stderr

    shutil.copytree(work / "run", tmp_path / "damaged")
    shard = tmp_path / "damaged/checkpoints/step-000010/state.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1] + b"\1")
    process = convert(tmp_path / "damaged", work / "wide.bnd", tmp_path / "out", code=3)
    assert "its hash is" in process.stderr
    assert not (tmp_path / "out").exists()
