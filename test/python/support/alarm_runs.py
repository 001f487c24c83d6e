"""Runs that raise alarms, and parsers of their output."""

import json
import re

import numpy as np
from support.reference import ONE_WEIGHT, binade, safetensors, write_model


def read_alarms(text):
    """The step, rule and message of each alarm in `text`."""
    found = re.findall(r"^step (\d+): alarm ([\w-]+): (.*)$", text, re.MULTILINE)
    return [(int(step), rule, rest) for step, rule, rest in found]


F32 = np.float32
SIZE = 64  # Codes are for parameters of 4096 elements or more.
WEIGHT = np.linspace(-1, 1, SIZE * SIZE, dtype=F32).reshape(SIZE, SIZE)
MODEL = ONE_WEIGHT.replace("2, 4", f"2, {SIZE}").replace("4, 4", f"{SIZE}, {SIZE}")
STEPS = 64
# Steps whose batches overflow in f16.
HARD = range(54, 59)


def write_inputs(folder):
    """A model of one weight, and data of which some batches overflow in f16."""
    write_model(folder, MODEL, ["weight"], WEIGHT)
    x = np.random.default_rng(5).standard_normal((2 * STEPS, SIZE)).astype(F32) / 8
    for step in HARD:
        x[2 * step - 2 : 2 * step] *= F32(1e8)
    safetensors.save(folder / "data.safetensors", {"x": x})


def train(folder, out, *more, policy="fp16-amp", resume=False, code=0, steps=STEPS):
    process = binade(
        "train", folder / "model.onnx", "--data", folder / "data.safetensors",
        "--order", "sequential", "--optimizer", "adamw", "--lr", 0.01, "--steps", steps,
        "--policy", policy, "--resume" if resume else "--out", out, *more,
    )  # fmt: skip
    assert process.returncode == code, process.stderr
    return process


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


# The third halving shows in the scale of the step after it.
COLLAPSE = HARD[2] + 1


def lose_time(run):
    return [{k: v for k, v in line.items() if k != "ms"}
            for line in read_lines(run / "metrics.jsonl")]  # fmt: skip


def train_switched(folder, run):
    """A run that an alarm switches from FP16 with f32 states to BF16 with 8-bit states."""
    policy = folder / "other.yaml"
    policy.write_text(
        "name: other\nextends: bf16-amp\nrules:\n"
        "- {match: {op: optimizer_update}, state: e4m3}\n"
    )
    process = train(folder, run, "--on-alarm", f"switch:{policy}", "--save-every", 2,
                    "--keep", 99)  # fmt: skip
    assert f"step-{COLLAPSE:06d}: policy fp16-amp -> other, " in process.stdout


def write_policy(path, text, base="fp16-amp"):
    path.write_text(f"name: {path.stem}\nextends: {base}\n{text}")
    return path
