"""Parts of run.py: conversions by the device's instructions, formats that expand ranges,
and small models that are trained on the CPU and on the device."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np
from artifacts import read_manifest
from rows import Rows
from runtime import Program
from selection import is_wanted

STEPS = 5


def draw_vectors(random: np.random.Generator) -> dict[str, np.ndarray]:
    x = random.standard_normal((8 * STEPS, 16), np.float32)
    return {"x": x, "labels": random.integers(0, 4, 8 * STEPS)}


def draw_text(random: np.random.Generator) -> dict[str, np.ndarray]:
    tokens = random.integers(0, 94, (16 * STEPS, 129))
    return {
        "input_ids": np.ascontiguousarray(tokens[:, :-1]),
        "labels": np.ascontiguousarray(tokens[:, 1:]),
    }


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    path: str
    policy: str
    options: tuple[str, ...]
    draw: Callable[[np.random.Generator], dict[str, np.ndarray]]
    # Most that a loss may differ from the CPU's, of the loss: of f32 a few hundred units
    # of sums in another order, of narrow formats what one code more or less makes.
    tolerance: float
    isTiny: bool = True


MLP = ("--loss", "cross_entropy(prediction, labels)", "--optimizer=adamw")
NARROW = ["bf16-amp", "fp16-amp", "fp8-current", "fp8-delayed", "mxfp8", "coat",
          "8bit-optimizer", "tiger-half"]  # fmt: skip
MODELS = [
    Model(f"mlp-{policy}", "examples/mlp/mlp.onnx", policy, MLP, draw_vectors, tolerance,
          isTiny=policy in ("fp32", "coat"))
    for policy, tolerance in [("fp32", 1e-5), ("tf32", 1e-5), *[(p, 1e-2) for p in NARROW]]
] + [
    Model(f"gpt-{policy}", "examples/char-gpt/mini.onnx", policy, ("--optimizer=adamw",),
          draw_text, tolerance, isTiny=False)
    for policy, tolerance in [("fp32", 1e-4), ("bf16-amp", 2e-2), ("coat", 2e-2)]
]  # fmt: skip

SMALL = "benchmarks/gpu/models/small_{}.onnx"
# Of these each record is compared.
RECORDS = [
    dataclasses.replace(model, isTiny=model.policy == "coat")
    for model in MODELS if model.name.startswith("mlp")
] + [
    Model(f"{name}-{policy}", path, policy, options, draw_text, 0, isTiny=False)
    for name, path, policies, options in [
        ("gpt2", SMALL.format("gpt2"), ["bf16-amp", "coat"], ()),
        ("llama", SMALL.format("llama"), ["fp8-block"], ()),
        ("resnet", "examples/resnet/resnet.onnx", ["bf16-amp"], ()),
    ]
    for policy in policies
]  # fmt: skip


def convert(bundle: pathlib.Path, values: np.ndarray) -> np.ndarray:
    program = Program(bundle)
    x = program["buffer", "x"]
    x[...] = values.view(x.dtype)
    program.run()
    return program["output", "y"].copy()


def check_conversions(folder: pathlib.Path) -> Iterator[tuple[dict, list[str]]]:
    """Of each cast what was compared, and what differs from the codes that are expected."""
    from binade import safetensors

    for path in sorted(folder.glob("*.bnd")):
        data = safetensors.load(path.with_suffix(".safetensors"))
        expected = data["y"]
        got = convert(path, data["x"]).view(expected.dtype)
        same = got.view(np.uint8).reshape(len(got), -1) == expected.view(
            np.uint8
        ).reshape(len(got), -1)
        # A NaN of 16 and 32 bits is any, and one of 8 bits the code that is expected.
        differs = ~same.all(1) & ~(is_nan(got, path.stem) & is_nan(expected, path.stem))
        print(f"  {path.stem}: {len(got)} values, {differs.sum()} wrong", flush=True)
        yield (
            {path.stem: {"values": len(got), "wrong": int(differs.sum())}},
            [
                f"{path.stem}: {data['x'][i]} became {got[i]}, not {expected[i]}"
                for i in np.flatnonzero(differs)[:3]
            ],
        )


def is_nan(codes: np.ndarray, name: str) -> np.ndarray:
    if codes.dtype == np.float32:
        return np.isnan(codes)
    bits = {"bf16": 0x7F80, "f16": 0x7C00}.get(name)
    return (codes & 0x7FFF) > bits if bits else np.zeros(len(codes), bool)


def run_groups(bundle: pathlib.Path, x: np.ndarray, names: list[str]) -> dict:
    """The outputs of a program for one input. The program is gone before the next."""
    program = Program(bundle)
    program["buffer", "x"][...] = x
    program.run()
    return {name: program["output", name].copy() for name in names}


def check_expansion(folder: pathlib.Path) -> Iterator[tuple[dict, list[str]]]:
    """Of each format the parts of quantized groups and what they are decoded to: the bits
    of the reference. NaN is any NaN."""
    from binade import safetensors

    for path in sorted(folder.glob("*.bnd")):
        data = safetensors.load(path.with_suffix(".safetensors"))
        outputs = run_groups(path, data.pop("x"), list(data))
        counts, found = {}, []
        for name, expected in data.items():
            got, want = (
                np.ascontiguousarray(a).reshape(-1).view(np.uint8).reshape(a.size, -1)
                for a in (outputs[name], expected)
            )
            differs = (got != want).any(1)
            if expected.dtype == np.float32:
                both = np.isnan(outputs[name]) & np.isnan(expected)
                differs &= ~both.reshape(-1)
            counts[name] = int(differs.sum())
            found += [
                f"{path.stem}: {name} {i} is {bytes(got[i]).hex()}, not "
                f"{bytes(want[i]).hex()}"
                for i in np.flatnonzero(differs)[:3]
            ]
        print(
            f"  {path.stem}: {data['codes'].size} values, wrong: {counts}", flush=True
        )
        yield {path.stem: {"values": data["codes"].size, "wrong": counts}}, found


def train(run: pathlib.Path, bundle: pathlib.Path, data: pathlib.Path, device: str):
    """Losses, and the bytes of the final state."""
    program = pathlib.Path(os.environ["BINADE_RUN"])
    done = subprocess.run(
        [program, bundle, "--data", data, "--order", "sequential", "--steps", str(STEPS),
         "--out", run, "--device", device, "--seed", "1"],
        capture_output=True, text=True, check=False,
        env=os.environ | {"BINADE_CONTRACTION": "own"},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{bundle.name}: {done.stderr.strip()}")
    lines = (run / "metrics.jsonl").read_text().splitlines()
    losses = np.array([json.loads(line)["loss"] for line in lines])
    return losses, (run / "final.safetensors").read_bytes()


def check_model(
    model: Model, folder: pathlib.Path, runs: pathlib.Path
) -> tuple[dict, list[str]]:
    data = folder / f"{model.name}.safetensors"
    results = {}
    for name, target in (("cpu", "cpu"), ("first", "cuda"), ("second", "cuda")):
        bundle = folder / f"{model.name}-{target}.bnd"
        results[name] = train(runs / f"{model.name}-{name}", bundle, data, target)
    losses, expected = results["first"][0], results["cpu"][0]
    distance = float(np.max(np.abs(losses - expected) / np.abs(expected)))
    isSame = results["first"][1] == results["second"][1]
    print(
        f"  {model.name}: losses within {distance:.1e} of the CPU's; twice the same: "
        f"{'yes' if isSame else 'NO'}", flush=True,
    )  # fmt: skip
    wrong = [] if isSame else [f"{model.name}: two runs differ"]
    if not distance <= model.tolerance:
        wrong.append(f"{model.name}: losses differ by {distance:.1e}, at most "
                     f"{model.tolerance:.0e} is expected")  # fmt: skip
    return {model.name: {"distance": distance, "repeats": isSame}}, wrong


def check_models(
    folder: pathlib.Path, runs: pathlib.Path, tiny: bool
) -> Iterator[tuple[dict, list[str]]]:
    for model in MODELS:
        isMade = (folder / f"{model.name}-cuda.bnd").exists()
        if isMade and is_wanted(model.name) and (model.isTiny or not tiny):
            yield check_model(model, folder, runs)


def main(what: str, folder: pathlib.Path, out: pathlib.Path) -> int:
    tiny, rows = read_manifest(folder)["tiny"], Rows(out)
    if what == "conversions":
        checks = check_conversions(folder / what)
    elif what == "expansion":
        checks = check_expansion(folder / what)
    else:
        checks = check_models(folder / what, out.with_suffix(".runs"), tiny)
    checked, wrong = {}, []
    for about, found in checks:
        checked |= about
        wrong += found
        rows.note(**{f"{what}_checked": checked, f"{what}_wrong": wrong})
        for message in found:
            print(f"  {message}", file=sys.stderr, flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])))
