#!/usr/bin/env python3
"""Makes what benchmarks/gpu/run.sh needs on a machine with a GPU and no compiler.

    benchmarks/gpu/prepare.sh [--out FOLDER] [--tiny]

Bundles for sm_90 of all rows, bundles of small models for both targets, inputs and
expected codes of conversions and results of records, and the runtime: into
benchmarks/gpu/artifacts, which git ignores. Carry artifacts.tar.gz, at most 64 MiB, or that
folder along with the repository.
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
    compile_case,
    compile_model,
    find_commit,
    pack,
)
from cases import CASES, COPY, ROOT, TINY, Case, Sizes, Update, list_tensors

sys.path.insert(0, str(ROOT / "test/python"))

import test_gpu_conversions as conversions  # noqa: E402
from binade import safetensors  # noqa: E402
from checks import MODELS, RECORDS, Model  # noqa: E402
from counts import Bundle  # noqa: E402
from runtime import BUILD  # noqa: E402
from steps import compile_step, list_steps  # noqa: E402
from updates import port  # noqa: E402

LIMIT = 64 << 20
SMALL = Sizes(layers=1, width=32, vocabulary=64, rows=128, columns=256)  # Of records.
TINY_RECORDS = ("clip", "row")


def prepare_kernels(folder: pathlib.Path, sizes: Sizes, more: list[str]) -> dict:
    """Useful bytes of each case."""
    folder.mkdir()
    moved = {}
    for case in [*CASES, COPY]:
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
    if not isinstance(case, Update):
        shapes = {"x": (sizes.rows, sizes.columns)}
        drawn = {n: random.standard_normal(s, np.float32) for n, s in shapes.items()}
        sides = {"ONE": (), "COLUMNS": (sizes.columns,)}
        for vector in case.vectors:
            name, kind = vector.split(":")
            drawn[name] = np.ones(sides[kind], np.float32)
        return drawn
    drawn = {}
    for name, shape in list_tensors(sizes).items():
        drawn[name] = 0.02 * random.standard_normal(shape, np.float32)
        drawn[f"gradient/{name}"] = 1e-3 * random.standard_normal(shape, np.float32)
    return drawn


def prepare_records(folder: pathlib.Path, tiny: bool, more: list[str]) -> None:
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
        if model.isTiny or not tiny:
            bundle = folder / f"{model.name}.bnd"
            options = ["--policy", model.policy, *model.options, "--lr=1e-3"]
            compile_model(ROOT / model.path, bundle, *options, *more)
            save_expected(bundle)
    for case in CASES:
        if case.name in TINY_RECORDS or not tiny:
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
    parser.add_argument("--out", type=pathlib.Path, default=FOLDER)
    parser.add_argument(
        "--tiny", action="store_true",
        help="sizes that the simulated driver can do, and the kernels' IR for it",
    )  # fmt: skip
    arguments = parser.parse_args()
    out, sizes = arguments.out, TINY if arguments.tiny else Sizes()
    if out.exists() and not (out / MANIFEST).exists() and any(out.iterdir()):
        print(f"prepare: error: {out} has other files; name another folder")
        return 2
    # What is there stays until all is made.
    whole, out = out, out.with_name(f"{out.name}.new")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    more = ["--save-kernels", str(out / "ir")] if arguments.tiny else []

    start = time.perf_counter()

    def say(what: str) -> None:
        print(f"prepare: {time.perf_counter() - start:.0f} s: {what}", flush=True)

    say("runtime")
    prepare_runtime(out / "runtime")
    say("conversions")
    prepare_conversions(out / "conversions", more)
    (out / "models").mkdir()
    for model in MODELS:
        if model.isTiny or not arguments.tiny:
            say(f"model {model.name}")
            prepare_model(model, out / "models", more)
    say("records")
    prepare_records(out / "records", arguments.tiny, more)
    say("kernels")
    moved = prepare_kernels(out / "kernels", sizes, more)
    (out / "steps").mkdir()
    for step in list_steps(arguments.tiny):
        say(f"step {step.name}")
        compile_step(step, arguments.tiny, out / "steps", *more)
    manifest = {
        "commit": find_commit(), "tiny": arguments.tiny, "bytes": moved,
        "date": datetime.date.today().isoformat(),
    }  # fmt: skip
    (out / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    shutil.rmtree(whole, ignore_errors=True)
    out = out.rename(whole)
    archive = pack(out)
    size = archive.stat().st_size
    say(f"{out}; packed {archive}, {size / 2**20:.1f} MiB")
    if size > LIMIT and not arguments.tiny:
        print(f"prepare: error: more than {LIMIT >> 20} MiB")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
