#!/usr/bin/env python3
"""Runs the fuzzers of test/fuzz, which feed mutated files to the readers of files.

usage: cmake --preset fuzz && cmake --build --preset fuzz
       utils/fuzz.py [--runs N] [--build DIR] [TARGET...]

Each target mutates valid files (ONNX's node tests, exported models, the texts of the
tests and files that Binade ships) and the files of test/fuzz/Inputs. Inputs that reach new
code are kept in DIR/fuzz/TARGET for the next run. The result of each target is printed. An
input that crashes a reader is saved in DIR/fuzz/findings, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = pathlib.Path(
    os.environ.get("BINADE_MODELS", ROOT.parent / "shared" / "models")
)
# Bytes of a file; small ones are read often.
LARGEST = {"onnx": 40 << 10, "convert": 40 << 10}
USUALLY_LARGEST = 8 << 10
# What one file may take. Sanitizers make everything several times slower and larger: the
# most that a model may have written out takes 10 s, and more where others compute too.
LIMITS = ["-timeout=120", "-rss_limit_mb=4096", "-malloc_limit_mb=1024"]


def list_onnx() -> Iterator[bytes]:
    """Node tests, plain and with small integers as part of the model; small models."""
    import onnx
    from onnx.backend.test.case.node import collect_testcases

    warnings.simplefilter("ignore")  # Some tests are about overflow.
    for case in collect_testcases(None):
        model = case.model
        if model is None:
            continue
        yield model.SerializeToString()
        known = onnx.ModelProto()
        known.CopyFrom(model)
        for value, array in zip(model.graph.input, case.data_sets[0][0], strict=False):
            integers = value.type.tensor_type.elem_type in (6, 7)
            if integers and getattr(array, "size", 99) <= 64:
                tensor = onnx.numpy_helper.from_array(array, value.name)
                known.graph.initializer.append(tensor)
        if known.graph.initializer:
            yield known.SerializeToString()
    for path in MODELS.glob("*/*.onnx"):
        yield path.read_bytes()


def list_files(*patterns: str, parts: str = "") -> Iterator[bytes]:
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            data = path.read_bytes()
            yield from data.split(parts.encode()) if parts else [data]


TARGETS = {
    "onnx": list_onnx,
    "convert": list_onnx,
    "module": lambda: list_files(
        "test/*/*.mlir", "lib/Optimizer/Rules/*.mlir", parts="// -----"
    ),
    "policy": lambda: list_files("lib/Precision/Policies/*.yaml"),
    "safetensors": lambda: list_files("test/unittests/Container/Inputs/*.safetensors"),
    "numpy": lambda: list_files("test/fuzz/Inputs/numpy/*"),
    "plan": lambda: list_files(),
}


def write_seeds(target: str, folder: pathlib.Path, limit: int) -> None:
    """Fills a new folder with the seed corpus of the target."""
    if folder.exists():
        return
    folder.mkdir(parents=True)
    seeds = {data for data in TARGETS[target]() if 0 < len(data) <= limit}
    for data in seeds:
        (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


def run(target: str, build: pathlib.Path, runs: int) -> bool:
    """Fuzzes the target with `runs` files; returns whether there was no finding."""
    place = build / "fuzz"
    findings = place / "findings"
    findings.mkdir(parents=True, exist_ok=True)
    limit = LARGEST.get(target, USUALLY_LARGEST)
    write_seeds(target, place / target, limit)
    command = [
        build / "bin" / f"binade-fuzz-{target}",
        *LIMITS,
        f"-runs={runs}",
        f"-max_len={limit}",
        f"-artifact_prefix={findings}/{target}-",
        place / target,
        ROOT / "test/fuzz/Inputs" / target,
    ]
    log = place / f"{target}.log"
    start = time.monotonic()
    with log.open("w") as output:
        status = subprocess.call(command, stderr=output)
    seconds = time.monotonic() - start
    text = log.read_text(errors="replace")
    done = max(map(int, re.findall(r"^#(\d+)", text, re.MULTILINE)), default=0)
    print(f"{target}: {done} files in {seconds:.0f} s: ", end="")
    if status == 0:
        print("clean", flush=True)
        return True
    found = re.search(r"Test unit written to (\S+)", text)
    print(f"FOUND {found[1] if found else 'something'}; see {log}", flush=True)
    return False


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help="fuzzer (default: all)"
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=1_000_000,
        help="inputs per target (default: 1000000)",
    )
    parser.add_argument(
        "--build", type=pathlib.Path, default=ROOT / "build/fuzz", metavar="DIR",
        help="build directory of the preset fuzz (default: build/fuzz)",
    )  # fmt: skip
    args = parser.parse_args()
    if unknown := set(args.targets) - set(TARGETS):
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(TARGETS)}")
    clean = [run(target, args.build, args.runs) for target in args.targets or TARGETS]
    return not all(clean)


if __name__ == "__main__":
    sys.exit(main())
