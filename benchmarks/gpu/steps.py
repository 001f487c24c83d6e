"""Whole training steps: what is compiled, and what is predicted of them."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterator

from artifacts import compile_model
from cases import ROOT
from counts import Bundle, Work, count

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


STEPS = [
    Step("gpt2-bf16", "GPT-2 124M, 32 x 1024, bf16-amp", "gpt2", "bf16-amp",
         {COMPILED: 1.05}, {COMPILED: 0.60}, isTiny=True),
    Step("gpt2-coat", "GPT-2 124M, 32 x 1024, coat", "gpt2", "coat",
         {COMPILED: None, "gpt2-bf16": None}, {COMPILED: 0.45}, isTiny=True),
    Step("llama-bf16", "Llama 1.1B, 8 x 2048, bf16-amp", "llama", "bf16-amp",
         {COMPILED: None}, {COMPILED: None}),
    Step("llama-coat", "Llama 1.1B, 8 x 2048, coat", "llama", "coat",
         {COMPILED: None, "llama-bf16": 0.80}, {COMPILED: 0.60}),
]  # fmt: skip


def compile_step(
    step: Step, tiny: bool, folder: pathlib.Path, *more: str
) -> pathlib.Path:
    """The bundle. What is tiny is the smallest model of the examples."""
    model = MODELS / f"{step.model}.onnx"
    if tiny:
        model = ROOT / "examples/mlp/mlp.onnx"
        more = ("--loss", "cross_entropy(prediction, labels)", *more)
    bundle = folder / f"{step.name}.bnd"
    compile_model(model, bundle, "--policy", step.policy, "--optimizer=adamw", *more)
    return bundle


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


def predict_step(
    step: Step,
    bundle: Bundle,
    predict_launch: Callable[[Work, int], tuple[float, str]],
    products: dict[str, float],
) -> dict:
    seconds, known, limits = 0.0, {}, {}
    for record, times in walk(bundle.plan["records"]):
        if record["kind"] in ("launch", "attention"):
            kernel = record.get("kernel") or record["device_kernel"]
            # Equal kernels do equal work, wherever their operands lie.
            if kernel not in known:
                known[kernel] = count(bundle, record)
            work = known[kernel]
        else:
            work = Work(kernels=1)
        taken, limit = predict_launch(work, bundle.count_bytes(record))
        if record["kind"] == "matmul":
            rate = products[bundle.dtype_of(record["lhs"])]
            batch = 1
            for extent in record.get("batch", []):
                batch *= extent
            flops = (
                2 * batch * record.get("m", 1) * record.get("n", 1) * record.get("k", 1)
            )
            if flops / rate > taken:
                taken, limit = flops / rate, "products"
        seconds += times * taken
        limits[limit] = limits.get(limit, 0) + times * taken
    return {
        "part": "steps", "name": step.name, "title": step.title,
        "ms": round(1e3 * seconds, 2), "arena": bundle.plan["arena_bytes"],
        "live": bundle.live_bytes(),
        "records": count_records(bundle), "peers": {},
        "ms_limited_by": {k: round(1e3 * v, 2) for k, v in sorted(limits.items())},
    }  # fmt: skip
