"""Python files that are not on the path, and trees of source files for them."""

import importlib.util
import pathlib
import subprocess
import sys

from support.paths import ROOT


def load_file(path):
    """Imports a file of the repository."""
    name = pathlib.Path(path).with_suffix("").as_posix().replace("/", ".")
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Where dataclasses look.
    spec.loader.exec_module(module)
    return module


def load(name):
    """Imports a program of utils/."""
    return load_file(f"utils/{name}.py")


def git(root, *arguments):
    """The output of a git command, or None if it fails."""
    identity = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b.c",
        "-c",
        "commit.gpgsign=false",
    ]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=root, capture_output=True, text=True
    )
    return done.stdout if done.returncode == 0 else None


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def list_sources(*suffixes):
    return [
        str(ROOT / name)
        for name in load("check_words").list_files(ROOT)
        if name.endswith(suffixes) and (ROOT / name).is_file()
    ]
