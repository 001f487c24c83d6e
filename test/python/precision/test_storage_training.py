"""Training with parameters in 16 bits: initial values, companions (master weights, remainders,
compensations), resumed runs, and losses close to PyTorch in f32 (shared recordings)."""

import json
import os
import re

import numpy as np
import pytest
from support.paths import ROOT
from support.reference import BF16, F16, binade, safetensors
from support.shared_models import OPTIMIZERS, Model
from support.storage import assert_equal_bits, bits, join, start
from support.storage_runs import LOSS, Mlp, write_policy

F32 = np.float32
MASTERS = {"none": "", "f32": "master", "split_round": "remainder",
           "split_trunc": "remainder", "split_8bit": "remainder", "kahan": "compensation",
           "residual": "residual", "stochastic": ""}  # fmt: skip


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("master", MASTERS)
def test_losses_match_pytorch_with_each_master(master, optimizer, tmp_path):
    model = Model("mlp-digits", tmp_path)
    run = model.train(write_policy(tmp_path, master), optimizer)
    single = model.autocast["fp32"][optimizer]["loss"]
    narrow = model.autocast["bf16-amp"][optimizer]["loss"]
    # The bound is the error of autocast, which also rounds weights, times 8.
    allowed = 8 * np.abs(np.subtract(single, narrow)).max()
    found = run.column("loss")
    np.testing.assert_allclose(found, single, rtol=0, atol=allowed)
    assert not np.array_equal(found, single)
    for name in ("fc1.weight", "fc3.bias"):
        assert run.final[name].dtype == BF16
        companion = run.final.get(f"state/{MASTERS[master]}/{name}")
        if master in ("f32", "split_round", "split_trunc", "split_8bit"):
            exact = join(master, {"p": run.final[name], "b": companion})
            again = start(master, exact)["p"]
            if master == "split_8bit":  # Halfway, the other bf16 may be the even one.
                halfway = (bits(exact) & 0xFFFF) == 0x8000
                again[halfway] = run.final[name][halfway]
            assert_equal_bits(run.final[name], again)
            key = f"{optimizer}.step10.{name}"
            if key in model.recorded:
                # If a gradient is nearly 0, AdamW's update depends on its sign.
                far = np.abs(exact - model.recorded[key]) > 2e-3
                assert far.mean() < 0.01
        if master in ("kahan", "residual"):
            assert companion.dtype == BF16 and np.any(companion != 0)


def is_parameter(name):
    return "/" not in name and name not in ("step", "rng")


def assert_starts(found, weights, master, parameter=BF16):
    names = [name for name in weights if is_parameter(name)]
    assert names
    for name in names:
        expected = start(master, weights[name], parameter)
        if master == "residual":
            # A residual of half a unit after rounding may move to the next parameter.
            kept = {"p": found[name], "b": found[f"state/residual/{name}"]}
            assert_equal_bits(join(master, kept), join(master, expected))
            continue
        assert_equal_bits(found[name], expected["p"])
        if MASTERS[master]:
            companion = found[f"state/{MASTERS[master]}/{name}"]
            assert_equal_bits(companion, expected["b"])


@pytest.mark.parametrize("master", MASTERS)
def test_runs_start_from_the_f32_values_of_the_model(master, tmp_path):
    mlp = Mlp(tmp_path)
    policy, still = write_policy(tmp_path, master), ["--lr", 0]
    weights = mlp.weights()
    assert_starts(mlp.train(policy, 1, *still, optimizer="sgd"), weights, master)

    # A bundle contains the same f32 values.
    bundle = tmp_path / "step.bnd"
    done = binade("compile", mlp.model, "--loss", LOSS, "--policy", policy,
                  "--optimizer", "sgd", "-o", bundle)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert_starts(mlp.train(policy, 1, *still, model=bundle), weights, master)

    # A file of another run with f32 parameters and no companions.
    given = {name: 1.1 * x for name, x in weights.items() if is_parameter(name)}
    given = {name: x.astype(F32) for name, x in given.items()}
    safetensors.save(tmp_path / "f32.safetensors", given)
    init = ["--init", tmp_path / "f32.safetensors"]
    found = mlp.train(policy, 1, *still, *init, optimizer="sgd")
    assert_starts(found, given, master)

    # A file with 16-bit parameters only: companions start from the 16-bit values.
    narrow = {name: x.astype(BF16) for name, x in given.items()}
    safetensors.save(tmp_path / "bf16.safetensors", narrow)
    init = ["--init", tmp_path / "bf16.safetensors"]
    found = mlp.train(policy, 1, *still, *init, optimizer="sgd")
    assert_starts(found, {name: x.astype(F32) for name, x in narrow.items()}, master)


@pytest.mark.parametrize("master", ["none", "f32", "kahan", "residual"])
def test_runs_start_in_f16(master, tmp_path):
    mlp = Mlp(tmp_path)
    policy = write_policy(tmp_path, master, parameter="f16")
    found = mlp.train(policy, 1, "--lr", 0, optimizer="sgd")
    assert_starts(found, mlp.weights(), master, F16)


@pytest.mark.parametrize("master", MASTERS)
def test_a_continued_run_has_the_same_bits(master, tmp_path):
    mlp = Mlp(tmp_path)
    policy = write_policy(tmp_path, master, base="bf16-amp", state="bf16")
    whole = mlp.train(policy, 6, out="whole")
    mlp.train(policy, 3, out="first")
    first = tmp_path / "first" / "final.safetensors"
    again = mlp.train(policy, 3, "--init", first, out="second")
    assert whole.keys() == again.keys()
    for name in whole:
        np.testing.assert_array_equal(bits(whole[name]), bits(again[name]), name)


def test_stochastic_rounding_depends_only_on_the_seed(tmp_path):
    mlp = Mlp(tmp_path)
    policy = write_policy(tmp_path, "stochastic")
    cores = sorted(os.sched_getaffinity(0))
    runs = [
        mlp.train(policy, 3, "--init-seed", seed, out=f"run{i}",
                  preexec_fn=lambda allowed=allowed: os.sched_setaffinity(0, allowed))
        for i, (seed, allowed) in enumerate([(1, cores), (1, cores[:1]), (2, cores)])
    ]  # fmt: skip
    same, same_again, other = (run["fc1_weight"] for run in runs)
    assert_equal_bits(same, same_again)
    assert np.any(bits(same) != bits(other))


def test_skipped_steps_keep_every_bit(tmp_path):
    """Kahan summation of a zero update would change the parameter, because it adds the
    compensation of the last update."""
    mlp = Mlp(tmp_path)
    base = tmp_path / "overflow.yaml"
    base.write_text(
        "name: overflow\nextends: fp16-amp\nloss_scale: {static: 1.0e+30}\n"
    )
    for master in MASTERS:
        policy = write_policy(tmp_path, master, base="bf16-amp")
        mlp.train(policy, 3, out="first")
        first = tmp_path / "first" / "final.safetensors"
        overflow = write_policy(tmp_path, master, base=base.name)
        found = mlp.train(overflow, 4, "--init", first, "--on-nonfinite", "skip")
        before = safetensors.load(first)
        lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
        assert all(json.loads(line)["skipped"] for line in lines)
        for name, expected in before.items():
            if name != "rng":
                np.testing.assert_array_equal(bits(found[name]), bits(expected), name)


def test_updates_write_the_bf16_weights_that_matmuls_read(tmp_path):
    """The run has the same bits as with `bf16-amp`, and no casts of weights."""
    mlp = Mlp(tmp_path)
    plain = mlp.train("bf16-amp", 5, out="plain")
    found = mlp.train("bf16-master", 5)
    weights = [name for name in plain if name.endswith("weight") and "/" not in name]
    assert weights
    for name in weights:
        assert_equal_bits(found[f"state/master/{name}"], plain[name])
        assert_equal_bits(found[name], plain[name].astype(BF16))
    for count, used in ((len(weights), "bf16-amp"), (0, "bf16-master")):
        text = binade("inspect", mlp.model, "--loss", LOSS, "--policy", used).stdout
        casts = re.findall(r"^cast_\d+ .* (\S*weight)$", text, re.MULTILINE)
        assert len(casts) == count, text


@pytest.mark.parametrize(
    "states", ["f32", "bf16", "e4m3x", "dyn8", "f16-scaled", "softsign8"]
)
def test_squares_that_overflow_skip_the_step(states, tmp_path):
    """The gradients are finite, but the second moment of one would overflow, and states that
    share a scale with it would be lost."""
    mlp = Mlp(tmp_path)
    data = tmp_path / "data.safetensors"
    batch = safetensors.load(data)
    x = np.concatenate([batch["x"]] * 3)
    x[11, 3] = 3e25
    safetensors.save(data, {"x": x, "labels": np.concatenate([batch["labels"]] * 3)})
    flags = ["--on-nonfinite", "skip", "--states", f"*:{states}"]
    found = mlp.train("fp32", 6, *flags)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    skipped = [json.loads(line)["skipped"] for line in lines]
    assert skipped == [0, 1, 0, 0, 1, 0]
    for name, value in found.items():
        assert np.isfinite(value.astype(np.float64)).all(), name
    # After clipping of the norm, the squares do not overflow f32.
    mlp.train("fp32", 6, *flags, "--clip", 1.0)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert not any(json.loads(line)["skipped"] for line in lines)


def test_explain_reports_formats_of_parameters_and_states(tmp_path):
    policy = tmp_path / "mixed.yaml"
    policy.write_text(
        "name: mixed\nextends: bf16-amp\nrules:\n"
        "- {match: {op: optimizer_update}, parameter: bf16, master: kahan}\n"
        "- {match: {name: fc1_bias, op: optimizer_update}, state: bf16}\n"
    )
    model = ROOT / "examples/mlp/mlp.onnx"
    flags = ["--loss", LOSS, "--policy", policy, "--optimizer", "sgd"]
    done = binade("explain", model, *flags, "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    kept = {entry["name"]: entry for entry in report["parameters"] + report["states"]}
    assert kept["fc1_weight"] == {
        "name": "fc1_weight", "format": "bf16", "master": "kahan",
        "rule": f"{policy}:4"}  # fmt: skip
    assert kept["fc1_bias"]["format"] == "f32"
    assert kept["momentum_buffer/fc1_weight"]["format"] == "f32"
    assert kept["momentum_buffer/fc1_bias"] == {
        "name": "momentum_buffer/fc1_bias", "format": "bf16",
        "rule": f"{policy}:5"}  # fmt: skip

    # The compiler inserts no cast of the bf16 parameter.
    module = tmp_path / "step.mlir"
    done = binade("compile", model, *flags, "--to=materialize", "-o", module)
    assert done.returncode == 0, done.stderr
    assert "binade.cast %arg0" not in module.read_text()
    counted = binade("policy", "check", policy, "--model", model, "--loss", LOSS)
    assert counted.returncode == 0, counted.stderr
    assert "fc1_weight" in counted.stdout and "master kahan" in counted.stdout

    asked = binade("explain", model, *flags, "--op", "fc1_bias")
    assert re.search(
        r"^f32, states bf16 +optimizer_update at 'fc1_bias', optimizer  <- .*mixed.yaml:5",
        asked.stdout, re.MULTILINE,
    )  # fmt: skip
    # Of four parameters, the second rule decides one and the first rule the others.
    summary = binade("explain", model, *flags, "--summary").stdout
    changes = re.findall(r"^ +(\d+) .*mixed\.yaml:(\d)$", summary, re.MULTILINE)
    assert changes == [("3", "4"), ("1", "5")]

    flags = ["--loss", LOSS, "--policy", "bf16-amp", "--policy", policy]
    differs = binade("diff", model, *flags)
    assert differs.returncode == 1
    assert re.search(r"^updates that differ +0 -> +4$", differs.stdout, re.MULTILINE)
    report = json.loads(binade("diff", model, *flags, "--format", "json").stdout)
    bias = next(update for update in report["updates"] if update["name"] == "fc1_bias")
    assert bias["first"] == {"format": "f32, states f32", "cause": "no rule"}
    assert bias["second"]["format"] == "f32, states bf16"
