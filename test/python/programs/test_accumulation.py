"""Gradient accumulation: updates by the mean gradient of several batches equal PyTorch's."""

import json

import ml_dtypes
import numpy as np
import pytest
from support.accumulated_runs import BATCHES, KINDS, RULE, STEPS, Files, read_metrics
from support.reference import binade, safetensors

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")

from binade import export
from support import export_models as models
from support.runtime import LIBRARY, Runtime

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built")


@pytest.fixture(scope="module", params=KINDS)
def files(request, tmp_path_factory):
    return Files(request.param, tmp_path_factory.mktemp("accumulation"))


@pytest.fixture(scope="module")
def mlp(tmp_path_factory):
    return Files("mlp", tmp_path_factory.mktemp("accumulation"))


@pytest.mark.parametrize(
    ("policy", "tolerance"), [("fp32", 2e-5), ("bf16-amp", 3e-2), ("fp16-amp", 4e-3)]
)
def test_a_step_of_several_batches(policy, tolerance, files, tmp_path):
    options = ["--policy", policy, "--clip", 0.5]
    if policy == "fp16-amp":
        text = "name: calm\nextends: fp16-amp\nloss_scale: {init: 1024}\n"
        (tmp_path / "calm.yaml").write_text(text)
        options[1] = tmp_path / "calm.yaml"
    files.train(tmp_path / "run", *options)
    metrics = read_metrics(tmp_path / "run")
    assert not any(line["skipped"] for line in metrics)
    losses, norms, state = files.train_with_pytorch(clip=0.5)
    np.testing.assert_allclose([m["loss"] for m in metrics], losses, rtol=tolerance)
    np.testing.assert_allclose([m["grad_norm"] for m in metrics], norms, rtol=tolerance)
    final = safetensors.load(tmp_path / "run" / "final.safetensors")
    for name in state.keys() & final.keys():  # Tied parameters have one name.
        np.testing.assert_allclose(
            final[name], state[name], rtol=tolerance, atol=tolerance, err_msg=name
        )
    assert len(state.keys() - final.keys()) <= 1
    assert final["step"] == STEPS


def test_gradients_equal_those_of_one_large_batch(mlp, tmp_path):
    mlp.train(tmp_path / "run", "--save-grads", 1, steps=1)
    found = safetensors.load(tmp_path / "run" / "grads-000001.safetensors")
    net = models.MLP()
    net.load_state_dict(mlp.net.state_dict())
    x, labels = (torch.tensor(v[: 5 * BATCHES]) for v in mlp.data.values())
    models.cross_entropy(net(x), labels).backward()
    for name, parameter in net.named_parameters():
        np.testing.assert_allclose(found[name], parameter.grad, rtol=1e-5, atol=1e-7)


def test_accumulated_gradients_have_the_format_of_the_policy(mlp, tmp_path):
    """In bf16, accumulators take half of the bytes, and all sums but the last are rounded."""
    policy = tmp_path / "narrow.yaml"
    policy.write_text(
        "name: narrow\nextends: fp32\nrules:\n"
        "  - {match: {op: optimizer_update}, accumulator: bf16}\n"
    )
    mlp.train(tmp_path / "wide", "--save-grads", 1, steps=1)
    mlp.train(tmp_path / "run", "--save-grads", 1, "--policy", policy, steps=1)
    parts = []
    for batch in range(BATCHES):
        net = models.MLP()
        net.load_state_dict(mlp.net.state_dict())
        part = slice(5 * batch, 5 * batch + 5)
        x, labels = (torch.tensor(v[part]) for v in mlp.data.values())
        models.cross_entropy(net(x), labels).backward()
        parts.append({n: p.grad.numpy() for n, p in net.named_parameters()})
    wide = safetensors.load(tmp_path / "wide" / "grads-000001.safetensors")
    found = safetensors.load(tmp_path / "run" / "grads-000001.safetensors")
    differ = False
    for name in parts[0]:
        total = parts[0][name].astype(ml_dtypes.bfloat16).astype(np.float32)
        total = (total + parts[1][name]).astype(ml_dtypes.bfloat16).astype(np.float32)
        total = (total + parts[2][name]) / BATCHES
        # Gradients that differ in their last bit may round to adjacent values.
        unit = 2.0**-8 * np.abs(total).max()
        np.testing.assert_allclose(found[name], total, atol=unit / 2, err_msg=name)
        assert np.abs(found[name] - total).mean() < unit / 100
        differ |= not np.array_equal(found[name], wide[name])
    assert differ
    ledgers = [
        json.loads((tmp_path / run / "run.json").read_text())["ledger"]
        for run in ("wide", "run")
    ]
    elements = sum(part.size for part in parts[0].values())
    assert ledgers[0]["gradient"] - ledgers[1]["gradient"] == 2 * elements


def test_dropout_draws_a_new_mask_for_each_batch_and_resumes(tmp_path):
    torch.manual_seed(0)
    batch = models.vectors()
    export.export_onnx(
        models.Dropping(), batch, tmp_path / "net.onnx", loss=models.cross_entropy
    )
    one = {name: value.numpy()[:1] for name, value in batch.items()}
    same = {name: np.repeat(value, 40, axis=0) for name, value in one.items()}
    safetensors.save(tmp_path / "data.safetensors", same)

    def train(out, batches, steps, begin="--out", lr=0, save=0):
        process = binade(
            "train", tmp_path / "net.onnx", "--data", tmp_path / "data.safetensors",
            "--optimizer", "adamw", "--lr", lr, "--set", "weight_decay=0", "--steps",
            steps, "--accumulate", batches, "--save-every", save, begin, tmp_path / out,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
        return [line["loss"] for line in read_metrics(tmp_path / out)]

    single = train("single", 1, 8)
    assert len(set(single)) > 4
    double = train("double", 2, 4)
    np.testing.assert_allclose(double, np.reshape(single, (4, 2)).mean(1), rtol=1e-6)
    whole = train("whole", 2, 6, lr=0.1)
    train("parts", 2, 3, "--resume", lr=0.1, save=2)
    assert train("parts", 2, 6, "--resume", lr=0.1, save=2) == whole
    finals = [
        (tmp_path / n / "final.safetensors").read_bytes() for n in ("whole", "parts")
    ]
    assert finals[0] == finals[1]


def test_a_step_that_overflows_in_any_batch_is_skipped(mlp, tmp_path):
    data = {name: value.copy() for name, value in mlp.data.items()}
    data["x"][2] = 1e6  # In the first of three batches.
    path = tmp_path / "overflow.safetensors"
    safetensors.save(path, data)
    process = binade(
        "train", mlp.model, "--data", path, "--order", "sequential", "--optimizer",
        "adamw", "--policy", "fp16-amp", "--steps", 2, "--accumulate", BATCHES,
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    metrics = read_metrics(tmp_path / "run")
    assert [line["skipped"] for line in metrics] == [True, False]
    assert metrics[1]["grad_norm"] is not None  # The accumulators were reset.


def test_c_interface(mlp, tmp_path):
    process = binade(
        "compile", mlp.model, "--optimizer", "sgd", *RULE, "--accumulate", BATCHES, "-o", tmp_path / "net.bnd",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    runtime = Runtime()
    code, program = runtime.load(tmp_path / "net.bnd")
    assert code == 0, runtime.error()
    means = []
    for step in range(STEPS):
        losses = []
        for batch in range(BATCHES):
            begin = 5 * (BATCHES * step + batch)
            for name, value in mlp.data.items():
                assert program.assign("batch", name, value[begin : begin + 5]) == 0
            if batch < BATCHES - 1:
                code, loss = program.accumulate()
                losses.append(loss)
            else:
                code = program.run()
                losses.append(float(program.find("metric", "loss")))
            assert code == 0
        means.append(np.mean(losses))
    np.testing.assert_allclose(means, mlp.train_with_pytorch()[0], rtol=2e-5)
    process = binade("compile", mlp.model, "-o", tmp_path / "one.bnd")
    assert process.returncode == 0, process.stderr
    code, program = runtime.load(tmp_path / "one.bnd")
    assert program.accumulate()[0] == 2
    assert "one batch per step" in runtime.error()


def test_invalid_options(mlp, tmp_path):
    process = mlp.train(tmp_path / "run", batches=0, status=2)
    assert "--accumulate" in process.stderr
    process = binade(
        "compile", mlp.model, "--accumulate", 2, "-o", tmp_path / "two.bnd"
    )
    assert process.returncode == 0, process.stderr
    process = binade(
        "train", tmp_path / "two.bnd", "--data", mlp.path, "--steps", 1,
        "--accumulate", 3, "--out", tmp_path / "run",
    )  # fmt: skip
    assert process.returncode == 2 and "--accumulate" in process.stderr
    assert not (tmp_path / "run").exists()
