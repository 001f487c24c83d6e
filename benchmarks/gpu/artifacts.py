"""Artifacts for a machine with a GPU: bundles and the files that belong to them."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from typing import Protocol, TypeVar

from cases import ROOT, TINY, Case, Sizes
from selection import is_wanted

sys.path.insert(0, str(ROOT / "benchmarks"))

from runtime import BUILD  # noqa: E402


class HasName(Protocol):
    @property
    def name(self) -> str: ...


Named = TypeVar("Named", bound=HasName)
MANIFEST = "manifest.json"
# An unpacked archive has these files and the artifacts side by side.
FOLDER = (
    ROOT
    if (ROOT / MANIFEST).exists()
    else pathlib.Path(__file__).resolve().parent / "artifacts"
)
CHIP = "cuda:sm_90"
# What run.sh reads of the repository, and the license of the corpus.
SOURCES = [
    "benchmarks/*.py", "benchmarks/gpu/*.py", "benchmarks/gpu/*.sh",
    "benchmarks/gpu/results/predicted-*.json", "examples/char-gpt/*.py",
    "examples/char-gpt/corpus/*", "python/binade/*.py",
]  # fmt: skip


def copy_sources(folder: pathlib.Path) -> None:
    """So that the archive is all that a machine with a GPU needs."""
    for pattern in SOURCES:
        for path in ROOT.glob(pattern):
            target = folder / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)


def find_commit() -> str:
    """The commit that is checked out, followed by `+` if files were changed. Of an unpacked
    archive the commit that it was made from, whatever repository contains it."""
    if not (ROOT / ".git").exists():
        path = ROOT / MANIFEST
        return json.loads(path.read_text())["commit"] if path.exists() else "unknown"
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
    """The folder as one archive next to it: most of it is the text of kernels."""
    with tarfile.open(find_archive(folder), "w:gz", compresslevel=6) as archive:
        archive.add(folder, folder.name)
    return find_archive(folder)


def unpack(folder: pathlib.Path) -> None:
    """For a machine that has only the packed file."""
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


def list_files(folder: pathlib.Path) -> list[str]:
    """Returns the files of the artifacts, for the manifest, relative to `folder`."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(str(path.relative_to(folder)) for path in files)


def find_missing(folder: pathlib.Path, manifest: dict, part: str) -> str:
    """Returns a message about files of subfolder `part` that were made, but are not there any
    more; empty if there are none."""
    files = (name for name in manifest.get("files", []) if name.startswith(f"{part}/"))
    missing = [name for name in files if not (folder / name).exists()]
    if not missing:
        return ""
    return (
        f"{len(missing)} files of the artifacts are missing, first {missing[0]}: unpack "
        "artifacts.tar.gz again"
    )


def list_made(named: Iterable[Named], folder: pathlib.Path) -> list[Named]:
    """Returns those that were prepared, and are not excluded from this run."""
    return [
        one
        for one in named
        if is_wanted(one.name) and (folder / f"{one.name}.bnd").exists()
    ]


def sizes_of(manifest: dict) -> Sizes:
    return TINY if manifest["tiny"] else Sizes()
