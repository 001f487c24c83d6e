#!/usr/bin/env python3
"""Makes what benchmarks/gpu/run.sh needs on a machine with a GPU and no compiler.

    benchmarks/gpu/prepare.sh [--out FOLDER] [--tiny] [--only NAME,...] [PART...]

Bundles for sm_90 of all rows, bundles of small models for both targets, inputs and
expected codes of conversions and results of records, the runtime, and the programs that
measure: into benchmarks/gpu/artifacts, which git ignores. All that has to be carried is
artifacts.tar.gz, at most 64 MiB, or that folder; benchmarks/gpu/run.sh is in it. Parts are
those of run.sh, all unless some are named; so are rows, models and bundles of records.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np
from artifacts import (
    FOLDER,
    MANIFEST,
    PARTS,
    compile_case,
    compile_model,
    copy_sources,
    find_commit,
    pack,
)
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

sys.path.insert(0, str(ROOT / "test/python"))

from support import range_expansion as expansion  # noqa: E402
from support import narrow_floats as conversions  # noqa: E402
from binade import safetensors  # noqa: E402
from bundles import Bundle  # noqa: E402
from checks import MODELS, RECORDS, Model  # noqa: E402
from runtime import BUILD  # noqa: E402
from steps import (  # noqa: E402
    compile_step,
    compile_watched,
    list_steps,
    list_watched,
)
from updates import port  # noqa: E402

LIMIT = 64 << 20
SMALL = Sizes(layers=1, width=32, vocabulary=64, rows=128, columns=256)  # Of records.
TINY_RECORDS = ("clip", "empty-e4m3x", "product-50x32", "product-64x32", "row")


class Wanted:
    """Which rows, models and bundles are made: all, or those of these names."""

    def __init__(self, names: str | None):
        self.names = None if names is None else names.split(",")

    def __call__(self, name: str) -> bool:
        return self.names is None or name in self.names


def prepare_kernels(
    folder: pathlib.Path, sizes: Sizes, wanted: Wanted, more: list[str]
) -> dict:
    """Useful bytes of each case."""
    folder.mkdir()
    moved = {}
    for case in [*filter(lambda case: wanted(case.name), CASES), COPY]:
        compile_case(case, sizes, folder, *more)
        bundle = Bundle(folder / f"{case.name}.bnd")
        moved[case.name] = case.count_bytes(bundle.bytes_of)
    return moved


def prepare_conversions(folder: pathlib.Path, more: list[str]) -> None:
    """For each format a cast of its edges, and one of all its codes back."""
    folder.mkdir()

    def add(name: str, source: str, target: str, attribute: str, x, y) -> None:
        kinds = [f"tensor<{len(x)}x{element}>" for element in (source, target)]
        path = folder / f"{name}.mlir"
        path.write_text(
            f"func.func @step(%x: {kinds[0]} {port('buffer', 'x')}) "
            f"-> ({kinds[1]} {port('output', 'y')}) {{\n"
            f"  %y = binade.cast %x {attribute} : ({kinds[0]}) -> {kinds[1]}\n"
            f"  return %y : {kinds[1]}\n}}\n"
        )
        compile_model(path, path.with_suffix(".bnd"), "--from=programs", *more)
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


def prepare_expansion(folder: pathlib.Path, tiny: bool, more: list[str]) -> None:
    """For each format that expands its range a program that quantizes and decodes groups,
    and what the reference makes of them."""
    folder.mkdir()
    for name in expansion.FORMATS:
        x = expansion.draw_groups(name, 1 if tiny else 16)
        path = folder / f"{name}.mlir"
        path.write_text(expansion.write_module(name, len(x)))
        compile_model(path, path.with_suffix(".bnd"), "--from=programs", *more)
        expected = expansion.quantize(name, x, "reference")
        path.unlink()
        safetensors.save(path.with_suffix(".safetensors"), {"x": x, **expected})


def prepare_model(model: Model, folder: pathlib.Path, more: list[str]) -> None:
    """Bundles for both targets, and data."""
    random = np.random.default_rng(7)
    safetensors.save(folder / f"{model.name}.safetensors", model.draw(random))
    options = ["--policy", model.policy, *model.options, "--lr=1e-3"]
    path = ROOT / model.path
    compile_model(path, folder / f"{model.name}-cpu.bnd", *options, target="")
    compile_model(path, folder / f"{model.name}-cuda.bnd", *options, *more)


def draw_case(case: Case, sizes: Sizes) -> dict[str, np.ndarray]:
    """Parameters, gradients and inputs; what starts as 0 says little."""
    random = np.random.default_rng(11)
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


def prepare_records(
    folder: pathlib.Path, tiny: bool, wanted: Wanted, more: list[str]
) -> None:
    """Bundles, and what the CPU computes of each record."""
    folder.mkdir()

    def save_expected(bundle: pathlib.Path, *options: str) -> None:
        expected = bundle.with_suffix(".safetensors")
        done = subprocess.run(
            [BUILD / "bin/binade", "verify", bundle, "--save-expected", expected, *options],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{bundle.name}: {done.stdout}{done.stderr}")
        packed = {name: np.asarray(x) for name, x in safetensors.load(expected).items()}
        np.savez_compressed(bundle.with_suffix(".npz"), **packed)
        expected.unlink()

    for model in RECORDS:
        if wanted(model.name) and (model.isTiny or not tiny):
            bundle = folder / f"{model.name}.bnd"
            options = ["--policy", model.policy, *model.options, "--lr=1e-3"]
            compile_model(ROOT / model.path, bundle, *options, *more)
            save_expected(bundle)
    for case in [*CASES, *PRODUCTS, *EMPTY]:
        if wanted(case.name) and (case.name in TINY_RECORDS or not tiny):
            compile_case(case, SMALL, folder, *more)
            start = folder / "start.safetensors"
            safetensors.save(start, draw_case(case, SMALL))
            # The second step has states that are not 0.
            steps = "2" if isinstance(case, Update) else "1"
            save_expected(
                folder / f"{case.name}.bnd", "--init", start, "--steps", steps
            )
            start.unlink()


def prepare_runtime(folder: pathlib.Path) -> None:
    subprocess.run(
        [ROOT / "utils/build_runtime.sh", folder],
        env=os.environ | {"BINADE_BUILD": str(BUILD)},
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="parts (default: all)")
    parser.add_argument(
        "--out", type=pathlib.Path, default=FOLDER, help="folder to write"
    )
    parser.add_argument(
        "--tiny", action="store_true",
        help="small sizes for the simulated driver, and the IR of kernels that it needs",
    )  # fmt: skip
    parser.add_argument(
        "--only", metavar="NAME,...", help="only these rows, models and bundles"
    )
    arguments = parser.parse_args()
    wanted = Wanted(arguments.only)
    tiny, parts = arguments.tiny, arguments.parts or list(PARTS)
    unknown = [name for name in parts if name not in PARTS]
    if unknown:
        parser.error(f"no part is called {unknown[0]}; there are {', '.join(PARTS)}")
    out, sizes = arguments.out, TINY if tiny else Sizes()
    if out.exists() and not (out / MANIFEST).exists() and any(out.iterdir()):
        print(f"prepare: error: {out} has other files; name another folder")
        return 2
    # What is there stays until all is made.
    whole, out = out, out.with_name(f"{out.name}.new")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    more = ["--save-kernels", str(out / "ir")] if tiny else []

    start = time.perf_counter()

    def say(what: str) -> None:
        print(f"prepare: {time.perf_counter() - start:.0f} s: {what}", flush=True)

    def prepare_models() -> None:
        (out / "models").mkdir()
        for model in MODELS:
            if wanted(model.name) and (model.isTiny or not tiny):
                say(f"model {model.name}")
                prepare_model(model, out / "models", more)

    def prepare_statistics() -> None:
        (out / "statistics").mkdir()
        for watched in filter(lambda row: wanted(row.name), list_watched(tiny)):
            say(f"statistics of {watched.name}")
            compile_watched(watched, out / "statistics", *more)

    def prepare_steps() -> None:
        (out / "steps").mkdir()
        for step in filter(lambda step: wanted(step.name), list_steps(tiny)):
            say(f"step {step.name}")
            compile_step(step, tiny, out / "steps", *more)

    prepare = {
        "conversions": lambda: prepare_conversions(out / "conversions", more),
        "expansion": lambda: prepare_expansion(out / "expansion", tiny, more),
        "records": lambda: prepare_records(out / "records", tiny, wanted, more),
        "models": prepare_models,
        "kernels": lambda: moved.update(
            prepare_kernels(out / "kernels", sizes, wanted, more)
        ),
        "statistics": prepare_statistics,
        "steps": prepare_steps,
        "rates": lambda: None,  # This part needs no artifacts.
    }
    moved: dict[str, int] = {}
    say("runtime")
    prepare_runtime(out / "runtime")
    copy_sources(out)
    for part in parts:
        say(part)
        prepare[part]()
    manifest = {
        "commit": find_commit(), "tiny": tiny, "bytes": moved, "parts": parts,
        "date": datetime.date.today().isoformat(),
    }  # fmt: skip
    (out / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    shutil.rmtree(whole, ignore_errors=True)
    out = out.rename(whole)
    archive = pack(out)
    size = archive.stat().st_size
    say(f"{out}; packed {archive}, {size / 2**20:.1f} MiB")
    if size > LIMIT and not tiny:
        print(f"prepare: error: more than {LIMIT >> 20} MiB")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
