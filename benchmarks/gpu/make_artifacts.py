"""Makes the folders of the artifacts: bundles, inputs and expected results of each part."""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess
import sys
from collections.abc import Callable

import numpy as np
from artifacts import compile_case, compile_model
from bundles import Bundle
from cases import (
    CASES,
    COPY,
    EMPTY,
    PRODUCTS,
    ROOT,
    TINY,
    Case,
    Empty,
    Product,
    Sizes,
    Update,
    list_tensors,
)
from checks import MODELS, RECORDS
from contraction_cases import ATTENTION, CONTRACTIONS, HEADS
from contraction_inputs import draw_inputs
from contraction_modules import Contraction
from runtime import BUILD
from steps import compile_step, compile_watched, list_steps, list_watched
from updates import port

sys.path.insert(0, str(ROOT / "test/python"))

from support import narrow_floats as conversions  # noqa: E402
from support import range_expansion as expansion  # noqa: E402
from binade import safetensors  # noqa: E402

SMALL = Sizes(layers=1, width=32, vocabulary=64, rows=128, columns=256)  # Of records.
TINY_RECORDS = ("attention-llama", "clip", "empty-e4m3x", "head-gpt2", "product-50x32",
                "product-64x32", "row")  # fmt: skip


@dataclasses.dataclass
class Preparation:
    out: pathlib.Path
    tiny: bool
    rows: tuple[str, ...]  # Only these rows, models and bundles; all if empty.
    say: Callable[[str], None]
    # Useful bytes of each kernel, which its row divides by its time.
    moved: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def more(self) -> list[str]:
        """Options of each compilation for a GPU."""
        return ["--save-kernels", str(self.out / "ir")] if self.tiny else []

    def wants(self, name: str) -> bool:
        return not self.rows or name in self.rows

    def make_folder(self, name: str) -> pathlib.Path:
        folder = self.out / name
        folder.mkdir()
        return folder


def make_kernels(task: Preparation) -> None:
    folder, sizes = task.make_folder("kernels"), TINY if task.tiny else Sizes()
    for case in [*filter(lambda case: task.wants(case.name), CASES), COPY]:
        compile_case(case, sizes, folder, *task.more)
        bundle = Bundle(folder / f"{case.name}.bnd")
        task.moved[case.name] = case.count_bytes(bundle.bytes_of)


def make_contractions(part: str, task: Preparation) -> None:
    folder = task.make_folder(part)
    for case in filter(lambda case: task.wants(case.name), CONTRACTIONS[part]):
        case = case.shrink() if task.tiny else case
        compile_case(case, Sizes(), folder, *task.more)
        bundle = Bundle(folder / f"{case.name}.bnd")
        task.moved[case.name] = case.count_bytes(bundle.bytes_of)


def make_conversions(task: Preparation) -> None:
    """For each format a cast of its edges, and one of all its codes back."""
    folder = task.make_folder("conversions")

    def add(name: str, source: str, target: str, attribute: str, x, y) -> None:
        kinds = [f"tensor<{len(x)}x{element}>" for element in (source, target)]
        path = folder / f"{name}.mlir"
        path.write_text(
            f"func.func @step(%x: {kinds[0]} {port('buffer', 'x')}) "
            f"-> ({kinds[1]} {port('output', 'y')}) {{\n"
            f"  %y = binade.cast %x {attribute} : ({kinds[0]}) -> {kinds[1]}\n"
            f"  return %y : {kinds[1]}\n}}\n"
        )
        compile_model(path, path.with_suffix(".bnd"), "--from=programs", *task.more)
        path.unlink()
        safetensors.save(path.with_suffix(".safetensors"), {"x": x, "y": y})

    for name in conversions.FORMATS:
        x = conversions.edges(name)
        for saturate in (False, True) if name.startswith("f8") else (False,):
            codes = conversions.expected_codes(x, name, saturate)
            title = f"{name}-saturate" if saturate else name
            add(title, "f32", name, "{saturate}" if saturate else "", x, codes)
        codes = conversions.all_codes(name)
        add(f"{name}-decode", name, "f32", "", conversions.words(codes),
            codes.astype(np.float32))  # fmt: skip


def make_expansion(task: Preparation) -> None:
    """For each format that expands its range a program that quantizes and decodes groups,
    and what the reference makes of them."""
    folder = task.make_folder("expansion")
    for name in expansion.FORMATS:
        x = expansion.draw_groups(name, 1 if task.tiny else 16)
        path = folder / f"{name}.mlir"
        path.write_text(expansion.write_module(name, len(x)))
        compile_model(path, path.with_suffix(".bnd"), "--from=programs", *task.more)
        expected = expansion.quantize(name, x, "reference")
        path.unlink()
        safetensors.save(path.with_suffix(".safetensors"), {"x": x, **expected})


def make_models(task: Preparation) -> None:
    """Bundles for both targets, and data."""
    folder = task.make_folder("models")
    for model in MODELS:
        if not task.wants(model.name) or (task.tiny and not model.isTiny):
            continue
        task.say(f"model {model.name}")
        random = np.random.default_rng(7)
        safetensors.save(folder / f"{model.name}.safetensors", model.draw(random))
        options = ["--policy", model.policy, *model.options, "--lr=1e-3"]
        path = ROOT / model.path
        compile_model(path, folder / f"{model.name}-cpu.bnd", *options, target="")
        compile_model(path, folder / f"{model.name}-cuda.bnd", *options, *task.more)


def draw_case(case: Case, sizes: Sizes) -> dict[str, np.ndarray]:
    """Parameters, gradients and inputs; what starts as 0 says little."""
    random = np.random.default_rng(11)
    if isinstance(case, Contraction):
        drawn = draw_inputs(case, random)
        return {name: x for (role, name), x in drawn.items() if role == "buffer"}
    if isinstance(case, Product):
        return {
            name: random.standard_normal(shape, np.float32)
            for name, shape in case.shapes().items()
        }
    if not isinstance(case, Update):
        shapes = {"x": (sizes.rows, sizes.columns)}
        drawn = {n: random.standard_normal(s, np.float32) for n, s in shapes.items()}
        sides = {"ONE": (), "COLUMNS": (sizes.columns,)}
        for vector in case.vectors:
            name, kind = vector.split(":")
            drawn[name] = np.ones(sides[kind], np.float32)
        return drawn
    drawn = {}
    tensors = case.tensors() if isinstance(case, Empty) else list_tensors(sizes)
    for name, shape in tensors.items():
        drawn[name] = 0.02 * random.standard_normal(shape, np.float32)
        drawn[f"gradient/{name}"] = 1e-3 * random.standard_normal(shape, np.float32)
    return drawn


def save_expected(bundle: pathlib.Path, *options: str) -> None:
    expected = bundle.with_suffix(".safetensors")
    done = subprocess.run(
        list(map(str, [BUILD / "bin/binade", "verify", bundle, "--save-expected", expected,
                       *options])),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{bundle.name}: {done.stdout}{done.stderr}")
    packed = {name: np.asarray(x) for name, x in safetensors.load(expected).items()}
    np.savez_compressed(bundle.with_suffix(".npz"), **packed)
    expected.unlink()


def make_records(task: Preparation) -> None:
    """Bundles, and what the CPU computes of each record."""
    folder = task.make_folder("records")
    for model in RECORDS:
        if task.wants(model.name) and (model.isTiny or not task.tiny):
            bundle = folder / f"{model.name}.bnd"
            options = ["--policy", model.policy, *model.options, "--lr=1e-3"]
            compile_model(ROOT / model.path, bundle, *options, *task.more)
            save_expected(bundle)
    small = [case.shrink() for case in (*ATTENTION, *HEADS)]
    for case in [*CASES, *PRODUCTS, *EMPTY, *small]:
        if task.wants(case.name) and (case.name in TINY_RECORDS or not task.tiny):
            compile_case(case, SMALL, folder, *task.more)
            start = folder / "start.safetensors"
            safetensors.save(start, draw_case(case, SMALL))
            # The second step has states that are not 0.
            steps = "2" if isinstance(case, Update) else "1"
            save_expected(
                folder / f"{case.name}.bnd", "--init", start, "--steps", steps
            )
            start.unlink()


def make_statistics(task: Preparation) -> None:
    folder = task.make_folder("statistics")
    for watched in filter(lambda row: task.wants(row.name), list_watched(task.tiny)):
        task.say(f"statistics of {watched.name}")
        compile_watched(watched, folder, *task.more)


def make_steps(task: Preparation) -> None:
    folder = task.make_folder("steps")
    for step in filter(lambda step: task.wants(step.name), list_steps(task.tiny)):
        task.say(f"step {step.name}")
        compile_step(step, task.tiny, folder, *task.more)


# By the folders that parts read.
MAKE: dict[str, Callable[[Preparation], None]] = {
    "conversions": make_conversions, "expansion": make_expansion, "records": make_records,
    "models": make_models, "kernels": make_kernels, "statistics": make_statistics,
    "steps": make_steps,
    **{part: lambda task, part=part: make_contractions(part, task)
       for part in CONTRACTIONS},
}  # fmt: skip
