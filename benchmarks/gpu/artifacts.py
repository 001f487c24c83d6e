"""Bundles and what belongs to them: made here, carried to a machine with a GPU."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tarfile

from cases import ROOT, TINY, Case, Sizes

sys.path.insert(0, str(ROOT / "benchmarks"))

from runtime import BUILD  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent / "artifacts"
MANIFEST = "manifest.json"
CHIP = "cuda:sm_90"


def find_commit() -> str:
    """What is checked out; `+` behind it where files were changed since."""
    done = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--abbrev=12", "--dirty=+"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or "unknown"


def compile_case(case: Case, sizes: Sizes, folder: pathlib.Path, *more: str) -> None:
    """Leaves NAME.bnd, by the command that users call."""
    source = folder / f"{case.name}.mlir"
    case.write(source, sizes)
    compile_model(source, folder / f"{case.name}.bnd", *case.options, *more)
    source.unlink()


def compile_model(
    model: pathlib.Path, bundle: pathlib.Path, *options: str, target: str = CHIP
) -> None:
    """For CPUs where `target` is empty."""
    command = [BUILD / "bin/binade", "compile", model, *options]
    if target:
        command.append(f"--target={target}")
    done = subprocess.run(
        list(map(str, [*command, "-o", bundle])),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{bundle.name}: {done.stderr.strip()}")


def find_archive(folder: pathlib.Path) -> pathlib.Path:
    return folder.with_name(f"{folder.name}.tar.gz")


def pack(folder: pathlib.Path) -> pathlib.Path:
    """The folder as one file beside it: code of kernels is text, mostly."""
    with tarfile.open(find_archive(folder), "w:gz", compresslevel=6) as archive:
        archive.add(folder, folder.name)
    return find_archive(folder)


def unpack(folder: pathlib.Path) -> None:
    """Where only the packed file was brought along."""
    if not folder.exists() and find_archive(folder).exists():
        subprocess.run(
            ["tar", "-xzf", find_archive(folder), "-C", folder.parent], check=True
        )


def read_manifest(folder: pathlib.Path) -> dict:
    unpack(folder)
    path = folder / MANIFEST
    if not path.exists():
        raise SystemExit(
            f"{folder} has no {MANIFEST}: run benchmarks/gpu/prepare.sh on a machine "
            "that has Binade's compiler, and bring the folder along"
        )
    return json.loads(path.read_text())


def sizes_of(manifest: dict) -> Sizes:
    return TINY if manifest["tiny"] else Sizes()
