"""Whole training steps: what is compiled, and what is predicted of them."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator

from artifacts import compile_model
from bundles import Bundle
from cases import ROOT

MODELS = pathlib.Path(__file__).resolve().parent / "models"
COMPILED = "torch.compile, bf16"


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    title: str
    model: str  # Of models.py.
    policy: str
    # Peers and the most that time and memory may be of theirs; of Binade's own steps by
    # their names.
    peers: dict[str, float | None]
    memory_peers: dict[str, float | None]
    isTiny: bool = False


# Of all kinds of values all statistics, in each step.
EVERY_STATISTIC = (
    "--stats", "*:norm,min,max,absmax,absmean,mean,std,zeros,nonfinite,underflow,"
    "overflow,saturated,exponents,sqnr",
    "--stats", "weight:lost,update_ratio",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Watched:
    """A step with statistics and the same step without."""

    name: str
    title: str
    model: str
    isTiny: bool = False
    goal: float = 1.03  # Of the time without.


WATCHED = [
    Watched("char-gpt", "char-GPT 10.8M, 8 x 256, bf16-amp, all statistics in each step",
            "examples/char-gpt/char-gpt.onnx"),
    Watched("gpt2", "GPT-2 124M, 32 x 1024, bf16-amp, all statistics in each step",
            "benchmarks/gpu/models/gpt2.onnx"),
    Watched("mlp", "MLP, bf16-amp, all statistics in each step",
            "examples/mlp/mlp.onnx", isTiny=True),
]  # fmt: skip
LOSS = ("--loss", "cross_entropy(prediction, labels)")

STEPS = [
    Step("gpt2-bf16", "GPT-2 124M, 32 x 1024, bf16-amp", "gpt2", "bf16-amp",
         {COMPILED: 0.95}, {COMPILED: 0.60}, isTiny=True),
    Step("gpt2-coat", "GPT-2 124M, 32 x 1024, coat", "gpt2", "coat",
         {COMPILED: None, "gpt2-bf16": 0.85}, {COMPILED: 0.45}, isTiny=True),
    Step("llama-bf16", "Llama 1.1B, 8 x 2048, bf16-amp", "llama", "bf16-amp",
         {COMPILED: 0.95}, {COMPILED: 0.80}),
    Step("llama-coat", "Llama 1.1B, 8 x 2048, coat", "llama", "coat",
         {COMPILED: None, "llama-bf16": 0.75}, {COMPILED: 0.50}),
    Step("gpt2-master", "GPT-2 124M, 32 x 1024, bf16-master", "gpt2", "bf16-master",
         {"gpt2-bf16": 1.0}, {}),
    Step("llama-master", "Llama 1.1B, 8 x 2048, bf16-master", "llama", "bf16-master",
         {"llama-bf16": 1.0}, {}),
]  # fmt: skip


def compile_step(
    step: Step, tiny: bool, folder: pathlib.Path, *more: str
) -> pathlib.Path:
    """The bundle. What is tiny is the smallest model of the examples."""
    model = MODELS / f"{step.model}.onnx"
    if tiny:
        model = ROOT / "examples/mlp/mlp.onnx"
        more = (*LOSS, *more)
    bundle = folder / f"{step.name}.bnd"
    compile_model(model, bundle, "--policy", step.policy, "--optimizer=adamw", *more)
    return bundle


def list_watched(tiny: bool) -> list[Watched]:
    return [watched for watched in WATCHED if watched.isTiny == tiny]


def compile_watched(watched: Watched, folder: pathlib.Path, *more: str) -> None:
    """NAME.bnd, and NAME-watched.bnd with the statistics."""
    more = (*(LOSS if watched.isTiny else ()), *more)
    options = ("--policy=bf16-amp", "--optimizer=adamw", *more)
    model = ROOT / watched.model
    compile_model(model, folder / f"{watched.name}.bnd", *options)
    compile_model(
        model, folder / f"{watched.name}-watched.bnd", *options, *EVERY_STATISTIC
    )


def list_steps(tiny: bool) -> list[Step]:
    return [step for step in STEPS if step.isTiny or not tiny]


def walk(records: list[dict], times: int = 1) -> Iterator[tuple[dict, int]]:
    """Records, and how often each runs."""
    for record in records:
        if record["kind"] == "loop":
            yield from walk(record["body"], times * record["count"])
        else:
            yield record, times


def count_records(bundle: Bundle) -> int:
    """How many a step runs: about as many kernels."""
    return sum(times for _, times in walk(bundle.plan["records"]))
