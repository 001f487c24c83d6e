"""Feed-forward layers beyond f16, as T5 has them, and what clamps do about it.

A trained char-GPT gets a residual stream that is a power of two larger: what is added to it,
embeddings and second products of attention and feed-forward layers, is multiplied by it.
Norms divide by it again, so that f32 computes the same losses but for their epsilon.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence

import numpy as np
from training import (
    MODEL,
    ROOT,
    Runs,
    binade,
    find_text,
    require,
    shorten,
    table,
    write_records,
)

from binade import safetensors

POLICIES = pathlib.Path(__file__).parent / "policies"
LARGE = ("token.", "position.", "attention.proj.", "mlp.2.")
SIZES = [2**16, 2**17, 2**18]
NAMES = ["fp32", "bf16-amp", "fp16-amp", "fp16-clamp", "fp16-finite", "fp16-wide"]
TRAINED, STEPS = 200, 30
RESULTS = ROOT / "docs/results/clamp.json"


def prepare(runs: Runs) -> list[pathlib.Path]:
    """The model with each size of its stream."""
    base = runs.out / "large/base"
    if not (base / "final.safetensors").exists():
        require(binade("train", MODEL, "--threads", "1", *find_text(runs.out), "--lr", "1e-3",
                       "--steps", str(TRAINED), "--seed", "0", "--out", base,
                       "--overwrite"))  # fmt: skip
    weights = safetensors.load(base / "final.safetensors")
    weights = {k: v for k, v in weights.items() if not k.startswith(("state/", "step"))}
    paths = []
    for size in SIZES:
        paths.append(runs.out / f"large/{size}.safetensors")
        safetensors.save(paths[-1], {
            name: np.float32(size) * x if any(part in name for part in LARGE) else x
            for name, x in weights.items()
        })  # fmt: skip
    return paths


def run(runs: Runs, seeds: int) -> None:
    starts = prepare(runs)
    own = {name: POLICIES / f"{name}.yaml" for name in NAMES}
    policies = [str(own[name] if own[name].exists() else name) for name in NAMES]
    # A rate of 0: what is evaluated after the only step is the start.
    cells = [(start, policy) for start in starts for policy in policies]
    lengths = [["--lr", "0", "--steps", "1"], ["--lr", "1e-4", "--steps", str(STEPS)]]
    found = runs.train(MODEL, [
        [*find_text(runs.out), "--policy", policy, "--init", str(start), "--seed", "0",
         *length] for start, policy in cells for length in lengths
    ])  # fmt: skip
    records = []
    for i, size in enumerate(SIZES):
        for j, name in enumerate(NAMES):
            at, after = found[2 * (i * len(NAMES) + j) :][:2]
            records.append({
                "log2 size": size.bit_length() - 1, "policy": name,
                "loss": shorten(at["loss"]), "after": shorten(after["loss"]),
                "stopped": after["code"] != 0, "skipped": after["skipped"],
            })  # fmt: skip
    write_records(RESULTS, records)
    print(make_table(records))


def read() -> list[dict]:
    """Returns the recorded results: a record for each size and policy."""
    return json.loads(RESULTS.read_text())


def make_table(records: Sequence[dict]) -> str:
    """Returns the table of docs/Underflow.md."""
    head = [
        "stream times",
        "policy",
        "held-out loss",
        f"after {STEPS} steps",
        "skipped",
    ]

    def show(loss: float | None) -> str:
        return "nan" if loss is None else f"{loss:.4f}"

    return table(head, [
        [
            f"2^{one['log2 size']}", f"`{one['policy']}`", show(one["loss"]),
            "stopped" if one["stopped"] else show(one["after"]), str(one["skipped"]),
        ]
        for one in records
    ])  # fmt: skip
