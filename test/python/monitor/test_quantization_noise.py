"""The statistic `noise` of results of matmuls with quantized operands, and its alarm."""

import json

import numpy as np
import pytest
from binade.run import read_statistics
from support.paths import BUILD, ROOT
from support.reference import binade, safetensors

pytestmark = pytest.mark.skipif(
    not (BUILD / "bin/binade").exists(), reason=f"{BUILD} is not built"
)

MODEL = ROOT / "examples/char-gpt/mini.onnx"
WINDOW = "input_ids=tokens[0:128],labels=tokens[1:129]"
POLICY = """\
name: coarse
extends: {base}
rules:
- match: {{ op: matmul, role: weight }}
  quantize:
    wgrad: {{ activation: {format}, gradient: "{format}:stochastic"{transform} }}
"""
TRANSFORM = ", transform: { hadamard: 16, signs: fixed }"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "tokens.safetensors"
    # Sequences of 40 words of four tokens, so that there is something to learn.
    draw = np.random.default_rng(5)
    words = draw.integers(0, 90, (40, 4))
    safetensors.save(path, {"tokens": words[draw.integers(0, 40, 4000)].reshape(-1)})
    return path


def write(folder, base="bf16-amp", format="nvfp4", transform=TRANSFORM):
    path = folder / "coarse.yaml"
    path.write_text(POLICY.format(base=base, format=format, transform=transform))
    return path


def train(data, out, policy, *more, steps=1, code=0):
    process = binade(
        "train", MODEL, "--data", data, "--window", WINDOW, "--policy", policy, "--lr", 1e-3,
        "--steps", steps, "--out", out, *more,
    )  # fmt: skip
    assert process.returncode == code, process.stderr
    return process


def read_gradients(run):
    found = safetensors.load(run / "grads-000001.safetensors")
    return {name: x.astype(np.float64) for name, x in found.items()}


@pytest.mark.parametrize("base, format, transform, tolerance", [
    ("bf16-amp", "nvfp4", TRANSFORM, 0.25),
    ("fp16-amp", "nvfp4", "", 0.25),
    ("bf16-amp", "e4m3-row", "", 0.35),
])  # fmt: skip
def test_the_noise_is_the_change_by_quantization(
    data, tmp_path, base, format, transform, tolerance
):
    """Compared with the gradients of the same step whose operands are not quantized."""
    train(data, tmp_path / "exact", base, "--save-grads", 1)
    policy = write(tmp_path, base, format, transform)
    train(
        data, tmp_path / "run", policy, "--save-grads", 1, "--stats", "gradient:noise"
    )
    exact, noisy = (read_gradients(tmp_path / name) for name in ("exact", "run"))
    lines = read_statistics(tmp_path / "run")
    found = {x["layer"]: x["noise"] for x in lines if "noise" in x}
    assert len(found) == 17 and all(name.endswith(".weight") for name in found)
    for name, noise in found.items():
        change = np.linalg.norm(noisy[name] - exact[name])
        assert noise == pytest.approx(change, rel=tolerance), name


@pytest.mark.parametrize("quantized, more", [(False, []), (True, ["--accumulate", 2])])
def test_other_gradients_have_no_noise(data, tmp_path, quantized, more):
    """Gradients without quantized operands, and sums over the batches of a step."""
    policy = write(tmp_path) if quantized else "bf16-amp"
    process = train(
        data, tmp_path / "run", policy, "--stats", "gradient:noise", *more, code=3
    )
    assert "none of the requested values has the statistic 'noise'" in process.stderr


def test_the_alarm_compares_noise_with_the_gradient(data, tmp_path):
    """Without the noise, the norm would be sqrt(norm^2 - noise^2), which is less than sqrt(3) times
    the noise if the measured norm is less than twice the noise."""
    run = tmp_path / "run"
    train(data, run, write(tmp_path), "--stats", "gradient/head*:norm,noise", steps=1)
    measured = [(1.99, 10), (2.01, 20), (1.99, 30), (1.9, 40), (1.9, 50)]
    (run / "stats.jsonl").write_text("".join(
        json.dumps({"step": step, "kind": "gradient", "layer": "head.weight", "norm": norm,
                    "noise": 1.0}) + "\n"
        for norm, step in measured
    ))  # fmt: skip
    metrics = json.loads((run / "metrics.jsonl").read_text().splitlines()[0])
    (run / "metrics.jsonl").write_text(
        "".join(json.dumps(metrics | {"step": step}) + "\n" for step in range(1, 51))
    )
    shown = binade("alarms", run, "--alarms", "quantization-noise").stdout
    assert "step 40: alarm quantization-noise: " in shown and "head.weight" in shown
    assert "step 30" not in shown


def test_the_policy_changes_after_the_alarm(data, tmp_path):
    """With a limit that the first steps exceed."""
    rule = tmp_path / "early.yaml"
    rule.write_text(
        '- { name: early, watch: "gradient/head*:norm,noise", value: noise / norm,\n'
        '    level: 0.01, window: 9, when: "count >= 2", says: "{value}" }\n'
    )
    train(data, tmp_path / "run", write(tmp_path), "--alarms", rule, "--on-alarm",
          "switch:bf16-amp", steps=4)  # fmt: skip
    about = json.loads((tmp_path / "run/run.json").read_text())
    parts = [(one["policy"], one["after_step"]) for one in about["invocations"]]
    assert parts == [("coarse", 0), ("bf16-amp", 2)]
