"""Stochastic rounding in training runs: it keeps updates that rounding to nearest loses, in
states, parameters and values that a policy quantizes, and in checkpoints."""

import json

import numpy as np
import pytest
from support.reference import BF16, F16, binade, safetensors
from support.storage_runs import LOSS, Mlp, write_policy

F32 = np.float32
DTYPES = {"bf16": BF16, "f16": F16}


def small_rate(folder, dtype, master, steps=40):
    """A parameter before and after updates far below half a unit in the last place."""
    mlp = Mlp(folder)
    policy = write_policy(folder, master, parameter=dtype)
    begin = mlp.train(policy, 1, "--lr", "0", out="begin")["fc1_weight"]
    end = mlp.train(policy, steps, "--lr", "1e-6", out="end")["fc1_weight"]
    return begin.astype(F32), end.astype(F32)


@pytest.mark.parametrize("dtype", DTYPES)
def test_small_updates_need_stochastic_rounding(dtype, tmp_path):
    """Rounding to nearest in 16 bits loses updates of 1e-6 to weights of about 0.1."""
    begin, end = small_rate(tmp_path, dtype, "none")
    large = np.abs(begin) > 0.02
    assert large.mean() > 0.5
    np.testing.assert_array_equal(end[large], begin[large])
    begin, end = small_rate(tmp_path, dtype, "stochastic")
    moved = (end != begin)[large]
    assert moved.mean() > 0.01
    wide = Mlp(tmp_path)
    policy = tmp_path / "f32.yaml"
    policy.write_text("name: plain\nextends: fp32\n")
    first = wide.train(policy, 1, "--lr", "0", out="b")["fc1_weight"]
    last = wide.train(policy, 40, "--lr", "1e-6", out="e")["fc1_weight"]
    # On average the parameter moves by the same amount as in f32, in the same direction.
    direction = np.sign(last - first)[large]
    way = ((end - begin)[large] * direction).mean()
    expected = np.abs(last - first)[large].mean()
    error = ((end - begin) - (last - first))[large].std() / np.sqrt(large.sum())
    assert abs(way - expected) < 5 * error


@pytest.mark.parametrize(
    "policy, lost", [("tiger-half", "2^-12"), ("tiger-half-bf16", "2^-9")]
)
def test_tiger_in_half_precision(policy, lost, tmp_path):
    """Compiling warns of the updates that are lost, and the proposed policy keeps them."""
    mlp = Mlp(tmp_path)
    dtype = "f16" if policy == "tiger-half" else "bf16"
    process = binade("compile", mlp.model, "--loss", LOSS, "--policy", policy,
                     "--optimizer", "tiger", "--lr", "1e-4", "--to", "assign",
                     "-o", tmp_path / "x.mlir")  # fmt: skip
    bound = 1e-4 * 2.0 ** -int(lost[2:])
    assert f"loses updates below {lost} of it" in process.stderr
    warning = f"lr = 0.0001 on elements beyond {bound:.3g} root mean squares"
    assert warning in process.stderr
    remedy = tmp_path / "remedy.yaml"
    remedy.write_text(
        f"name: remedy\nextends: {policy}\nrules:\n- {{match: {{op: optimizer_update}}, "
        f"parameter: {dtype}, master: stochastic, state: {dtype}:stochastic}}\n"
    )

    def train(name, rate, steps):
        found = mlp.train(name, steps, "--lr", rate, out="out", optimizer="tiger")
        return found["fc1_weight"].astype(F32)

    changed = {}
    for name in (policy, remedy):
        begin, end = train(name, "0", 1), train(name, "1e-5", 10)
        large = np.abs(begin) > np.abs(begin).mean()
        changed[name] = (begin != end)[large].mean()
    assert changed[policy] == 0 and changed[remedy] > 0.005


@pytest.mark.parametrize("states", ["bf16:stochastic", "*:dyn8:stochastic",
                                    "*:e4m3x:stochastic+f16:stochastic"])  # fmt: skip
def test_resumed_runs_have_the_same_bits(states, tmp_path):
    mlp = Mlp(tmp_path)
    flags = ["--states", states, "--save-every", 3]
    whole = mlp.train("fp32", 6, *flags, out="whole")
    mlp.train("fp32", 3, *flags, out="parts")
    process = binade(
        "train", mlp.model, "--loss", LOSS, "--data", tmp_path / "data.safetensors",
        "--order", "sequential", "--states", states, "--resume", tmp_path / "parts",
        "--steps", 6,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    again = safetensors.load(tmp_path / "parts" / "final.safetensors")
    assert whole.keys() == again.keys()
    for name in whole:
        np.testing.assert_array_equal(
            whole[name].tobytes(), again[name].tobytes(), name
        )
    nearest = mlp.train(
        "fp32", 6, "--states", states.replace(":stochastic", ""), out="n"
    )
    assert any(nearest[name].tobytes() != whole[name].tobytes() for name in nearest)


def test_a_policy_can_round_gradients_stochastically(tmp_path):
    """Runs with FP8 gradients differ by seed only, and the loss decreases."""
    policy = tmp_path / "chance.yaml"
    policy.write_text(
        "name: chance\nextends: bf16-amp\nrules:\n- match: {op: matmul, role: weight}\n"
        "  quantize: {gradient: e5m2-tensor:stochastic, activation: e4m3-tensor,\n"
        "             weight: e4m3-tensor}\n"
    )
    mlp = Mlp(tmp_path)
    mlp.weights()
    begin = ["--init", tmp_path / "start" / "final.safetensors"]

    def train(seed, out, policy=policy):
        found = mlp.train(policy, 20, "--init-seed", seed, *begin, out=out)
        return found["fc1_weight"].tobytes()

    first, again, other = (train(seed, f"r{i}") for i, seed in enumerate([1, 1, 2]))
    assert first == again and first != other
    nearest = tmp_path / "nearest.yaml"
    nearest.write_text(policy.read_text().replace(":stochastic", ""))
    assert train(1, "n1", nearest) == train(2, "n2", nearest) != first
    lines = (tmp_path / "r0" / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    assert losses[-1] < losses[0]


def test_states_in_f32_cannot_be_rounded_stochastically(tmp_path):
    process = binade("compile", Mlp(tmp_path).model, "--loss", LOSS, "--states",
                     "f32:stochastic", "-o", tmp_path / "x.bnd")  # fmt: skip
    assert process.returncode == 3
    assert "'f32' rounds no value" in process.stderr


def test_tiger_adds_noise_when_it_shrinks(tmp_path):
    mlp = Mlp(tmp_path)
    begin = mlp.train("fp32", 1, "--lr", 0, out="begin")["fc1_weight"]
    data = tmp_path / "data.safetensors"
    batch = safetensors.load(data)
    safetensors.save(data, batch | {"x": np.full_like(batch["x"], np.nan)})
    flags = ["--on-nonfinite", "shrink", "--set", "shrink=0.5"]
    calm = mlp.train("fp32", 1, *flags, optimizer="tiger", out="calm")["fc1_weight"]
    np.testing.assert_array_equal(calm, begin * F32(0.5))
    noisy = mlp.train(
        "fp32", 1, *flags, "--set", "noise=0.1", optimizer="tiger", out="n"
    )
    moved = (noisy["fc1_weight"] - calm).astype(float)
    assert 0.09 < np.abs(moved).max() <= 0.1001
    assert abs(moved.mean()) < 5 * 0.1 / np.sqrt(3 * moved.size)


def test_checkpoints_are_converted_with_rounding_to_nearest(tmp_path):
    mlp = Mlp(tmp_path)
    mlp.train("fp32", 3, "--save-every", 3, out="wide")
    found = {}
    for name in ("dyn8", "dyn8:stochastic"):
        bundle, run = tmp_path / "step.bnd", tmp_path / name.replace(":", "-")
        process = binade("compile", mlp.model, "--loss", LOSS, "--states", f"*:{name}",
                         "-o", bundle)  # fmt: skip
        assert process.returncode == 0, process.stderr
        process = binade(
            "ckpt", "convert", tmp_path / "wide", "--to", bundle, "-o", run
        )
        assert process.returncode == 0, process.stderr
        found[name] = safetensors.load(next(run.rglob("*.safetensors")))
    nearest, stochastic = found.values()
    assert nearest["state/exp_avg/fc1_weight"].dtype == np.int8
    for name, value in nearest.items():
        assert value.tobytes() == stochastic[name].tobytes(), name
    process = binade("train", bundle, "--data", tmp_path / "data.safetensors", "--order",
                     "sequential", "--resume", run, "--steps", 4)  # fmt: skip
    assert process.returncode == 0, process.stderr
