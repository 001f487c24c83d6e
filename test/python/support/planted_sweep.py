"""A sweep with given results, whose page needs neither training nor the compiler."""

import json

import numpy as np
from binade import sweep_layers, sweep_page
from binade.run import read_run
from binade.sweep import Member, Outcome
from support.planted_runs import plant

LAYERS = [f"blocks.{i}.{name}" for i in range(4)
          for name in ("attention.qkv/MatMul", "attention.proj/Add", "mlp/up/MatMul")]  # fmt: skip
GRADIENTS = [
    f"transformer.blocks.{i}.{name}" for i in range(4)
    for name in ("attention.in_proj_bias", "attention.in_proj_weight", "mlp.up.weight")
]  # fmt: skip
# Name, format of the ops, difference in loss, milliseconds, MiB.
POLICIES = [
    ("fp32", "f32", 0.0, 80, 67.6), ("tf32", "tf32", 0.0005, 73, 71.4),
    ("bf16-amp", "bf16", 0.002, 45, 45.4), ("fp16-amp", "f16", 0.004, 130, 49.0),
    ("fp8-current", "f8E4M3FN", 0.02, 50, 50.0), ("mxfp8", "f8E4M3FN", 0.06, 90, 49.0),
    ("mxfp4", "f4E2M1FN", 0.3, 95, 47.0), ("coat", "f8E4M3FN", 0.003, 71, 36.4),
]  # fmt: skip
SEEDS = range(3)
STEPS = 100


def write_statistics(run, random):
    """Writes statistics of gradients and results in every tenth step."""
    lines = []
    for step in range(10, STEPS + 1, 10):
        for layer in GRADIENTS:
            share = 0.33 if "bias" in layer else float(random.uniform(0, 0.05))
            lines.append({"step": step, "kind": "gradient", "layer": layer,
                          "underflow(f16)": share})  # fmt: skip
        for layer in LAYERS:
            lines.append({"step": step, "kind": "output", "layer": layer,
                          "absmax": float(random.uniform(1, 9)), "underflow(f16)": 0.01})  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (run / "stats.jsonl").write_text(text)


def explain(words):
    """Returns a report in the form of ``binade explain``."""
    format = next(row[1] for row in POLICIES if row[0] == words[-1])
    quantized = [format, format] if format.startswith(("f8", "f4")) else []
    return {
        "ops": [
            # The last operand is a bias in the format of the result.
            {"name": name, "op": "matmul", "class": "allow", "phase": phase,
             "format": "bf16" if quantized else format, "operands": [*quantized, "bf16"] if quantized else [],
             "rule": "class allow"}
            for name in LAYERS for phase in ("forward", "backward")
        ],
        "parameters": [{"format": "f32"}], "states": [{"format": "f32"}],
    }  # fmt: skip


def write_page(folder, monkeypatch):
    """Writes the page of a sweep of all policies; returns its path."""
    random = np.random.default_rng(1)
    noise = random.normal(0, 0.02, len(SEEDS))
    outcomes = []
    for policy, _, above, ms, mib in POLICIES:
        for seed in SEEDS:
            paired = random.normal(0, 0.002 if policy != "fp32" else 0)
            level = 2.3 + above + noise[seed] + paired
            curve = level + 2 * np.exp(-np.arange(STEPS) / 15)
            held_out = {
                step: float(curve[step - 1]) for step in range(20, STEPS + 1, 20)
            }
            losses = (curve + 0.2 + random.normal(0, 0.02, STEPS)).tolist()
            busy = 2.4 if (policy, seed) == ("tf32", 1) else 1
            by = (
                ["own avx512"] * 24
                if policy == "fp16-amp"
                else ["brgemm:avx512_core"] * 24
            )
            run = plant(folder / f"{policy}-{seed}", policy, seed, losses, held_out,
                        ms * busy, mib, by)  # fmt: skip
            write_statistics(run, random)
            words = ("model.onnx", "--data", "train.safetensors", "--policy", policy)
            member = Member(policy, None, seed, run, words)
            outcomes.append(Outcome(member, read_run(run), None))
    monkeypatch.setattr(sweep_layers, "_explain", explain)
    monkeypatch.setattr(sweep_page, "show_policy", lambda policy: f"name: {policy}\n")
    page = folder / "report.html"
    page.write_text(sweep_page.write_page("gpt.onnx: 8 policies compared", outcomes))
    return page
