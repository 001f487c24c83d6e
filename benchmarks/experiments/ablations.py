"""NVFP4's published ablations, by the error of gradients.

For each seed, bf16-amp trains a model, whose gradients under `nvfp4` and its ablations are
compared with those in f32, at the same weights and for the same batches. Errors are compared seed
by seed, which shows the sign of an ablation.
"""

from __future__ import annotations

import concurrent.futures
import math
import pathlib
import statistics
import sys
from collections.abc import Iterator

import numpy as np
from training import MODEL, Runs, binade, find_text, require, table

STEPS, COUNT = 200, 16
BASE = "bf16-amp"
Policy = str | dict
Gradients = dict[str, np.ndarray]
TRANSFORM = {"hadamard": 16, "signs": "fixed"}


def write_policy(
    rounding: str = ":stochastic",
    weight: str = "nvfp4-16x16",
    transform: dict | None = TRANSFORM,
    others: dict | None = None,
    wide: bool = True,
) -> Policy:
    """`nvfp4`, or what differs: the rounding of gradients, the format of weights, the transform
    of the gradient of the weight and that of the `others`, and whether some layers stay `wide`."""
    products = {
        "fprop": {"activation": "nvfp4", "weight": weight},
        "dgrad": {"gradient": f"nvfp4{rounding}", "weight": weight},
        "wgrad": {"activation": "nvfp4", "gradient": f"nvfp4{rounding}"},
    }
    for name, keys in products.items():
        chosen = transform if name == "wgrad" else others
        if chosen:
            keys["transform"] = chosen
    layers = {"op": "matmul", "role": "weight"}
    rules = [{"match": layers, "quantize": products}]
    if wide:
        kept = ({"blocks": {"first": "3%", "last": "13%"}}, {"layer": "last"})
        rules += [{"match": layers | part, "class": "allow"} for part in kept]
    return {"name": "ablation", "extends": BASE, "rules": rules}


# By what is published of the loss: + is worse, 0 is the same.
ABLATIONS: dict[str, tuple[Policy, str]] = {
    "no stochastic rounding": (write_policy(rounding=""), "+"),
    "no transform": (write_policy(transform=None), "+"),
    "no blocks of 16 x 16": (write_policy(weight="nvfp4"), "+"),
    "all layers": (write_policy(wide=False), "+"),
    "transform of all products": (write_policy(others=TRANSFORM), "+"),
    "transform of 4": (write_policy(transform=TRANSFORM | {"hadamard": 4}), "+"),
    "transform of 128": (write_policy(transform=TRANSFORM | {"hadamard": 128}), "0"),
    "signs of each step": (write_policy(transform=TRANSFORM | {"signs": "step"}), "0"),
}
POLICIES: dict[str, Policy] = {
    "nvfp4": "nvfp4", BASE: BASE, **{name: it[0] for name, it in ABLATIONS.items()}
}  # fmt: skip
# What is compared with that in f32: the mean over batches, or over draws of random numbers.
MEASURES = (
    "one gradient",
    f"mean of {COUNT} batches",
    f"mean of {COUNT} draws for one batch",
)


def train(runs: Runs, seed: int) -> pathlib.Path:
    """The weights of a trained model."""
    folder = runs.out / f"ablated-{seed}-{STEPS}"
    if not (folder / "final.safetensors").exists():
        require(binade("train", MODEL, *find_text(runs.out), "--policy", BASE,
                       "--lr", "1e-3", "--steps", str(STEPS), "--seed", str(seed),
                       "--threads", "1", "--resume", folder))  # fmt: skip
    return folder / "final.safetensors"


def draw_batches(runs: Runs, seed: int) -> list[dict[str, np.ndarray]]:
    from binade import safetensors

    tokens = safetensors.load(runs.out / "data/train.safetensors")["tokens"]
    random = np.random.default_rng(seed)
    batches = []
    for _ in range(COUNT):
        starts = random.integers(0, len(tokens) - 129, 16)
        windows = np.stack([tokens[at : at + 129] for at in starts]).astype(np.int64)
        batches.append({"input_ids": windows[:, :-1], "labels": windows[:, 1:]})
    return batches


def differentiate(
    policy: Policy, seed: int, weights: pathlib.Path, batches: list
) -> Iterator[Gradients]:
    """The gradients of the matrices of all linear layers, for each batch at the same weights.
    Each batch has random numbers of its own, as in a step."""
    import binade

    step = binade.compile(MODEL, policy=policy, optimizer="sgd", settings={"lr": 0.0},
                          keep_gradients=True, seed=seed, threads=1)  # fmt: skip
    step.restore(weights)
    names = [name for name, value in step.gradients.items()
             if value.ndim == 2 and not name.startswith(("token.", "position."))]  # fmt: skip
    for number, batch in enumerate(batches):
        step.updates = number
        step(batch)
        yield {name: step.gradients[name].astype(np.float64) for name in names}


def get_square(gradients: Gradients, exact: Gradients | None = None) -> float:
    """The squared norm of gradients, or of their difference."""
    return sum(
        float(np.sum((value - exact[name] if exact else value) ** 2))
        for name, value in gradients.items()
    )


def average(gradients: list[Gradients]) -> Gradients:
    return {name: np.mean([one[name] for one in gradients], 0) for name in gradients[0]}


def get_error(found: list[Gradients], exact: list[Gradients]) -> float:
    """The squared error of the mean of gradients, of the squared norm."""
    mean = average(exact)
    return get_square(average(found), mean) / get_square(mean)


def measure(runs: Runs, seed: int) -> dict[str, list[float]]:
    """The errors of each policy, by `MEASURES`."""
    weights, batches = train(runs, seed), draw_batches(runs, seed)
    one = batches[:1] * COUNT
    exact = list(differentiate("fp32", seed, weights, batches))
    errors = {}
    for name, policy in POLICIES.items():
        found = list(differentiate(policy, seed, weights, batches))
        drawn = list(differentiate(policy, seed, weights, one))
        single = [get_error([x], [y]) for x, y in zip(found, exact)]
        errors[name] = [statistics.mean(single), get_error(found, exact),
                        get_error(drawn, exact[:1])]  # fmt: skip
    print(f"draw {seed} is measured", file=sys.stderr, flush=True)
    return errors


def describe(error: list[float], base: list[float]) -> str:
    """The mean change in percent and its standard error; it has a sign if it exceeds two standard
    errors."""
    change = [100 * (x / y - 1) for x, y in zip(error, base)]
    mean = statistics.mean(change)
    deviation = statistics.stdev(change) / math.sqrt(len(change))
    none = "" if abs(mean) > 2 * deviation else "none: "
    return f"{none}{mean:+.1f} ({deviation:.1f})"


def run(runs: Runs, seeds: int) -> None:
    find_text(runs.out)
    with concurrent.futures.ThreadPoolExecutor(runs.jobs) as pool:
        draws = list(pool.map(lambda seed: measure(runs, seed), range(seeds)))
    head = ["policy"]
    for name in MEASURES:
        head += [f"{name}, %", "change, %"]
    rows = []
    for name in POLICIES:
        row = [f"`{name}`" if name in ("nvfp4", BASE) else name]
        for errors in zip(*(draw[name] for draw in draws)):
            row.append(f"{100 * statistics.mean(errors):.3g}")
            base = [draw["nvfp4"][len(row) // 2 - 1] for draw in draws]
            is_compared = name in ABLATIONS and seeds > 1
            row.append(describe(list(errors), base) if is_compared else "")
        rows.append([*row, ABLATIONS[name][1] if name in ABLATIONS else ""])
    print(f"{seeds} draws, after {STEPS} steps\n")
    print(table([*head, "published, of the loss"], rows))
