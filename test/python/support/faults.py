"""Makes programs fail, hang or be killed when they change a file, by faults.c."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from support.paths import BUILD
from support.reference import binade


def build_shim(folder):
    """Builds faults.c as a library for LD_PRELOAD, whose path must not have blanks."""
    compiler = shutil.which("cc") or shutil.which("clang")
    if not compiler:
        pytest.skip("no C compiler")
    if " " in str(folder):
        folder = pathlib.Path(tempfile.mkdtemp(dir=BUILD))
    library = folder / "faults.so"
    source = pathlib.Path(__file__).with_name("faults.c")
    command = [compiler, "-shared", "-fPIC", "-O1", source, "-o", library, "-ldl"]
    subprocess.run(command, check=True)
    return library


def make_fault(shim, under, call, at, what=None):
    """The environment of a process in which faults.c injects a fault."""
    environment = os.environ | {
        "LD_PRELOAD": str(shim), "FAULT_UNDER": str(under), "FAULT_CALL": call,
        "FAULT_AT": str(at), "FAULT_COUNT": str(under.parent.parent / "count"),
    }  # fmt: skip
    return environment | ({f"FAULT_{what}": "1"} if what else {})


def check_is_clean(run):
    """Checks that no temporary file is left and that all checkpoints are valid."""
    assert not [path for path in run.rglob("*") if ".tmp-" in path.name]
    assert binade("ckpt", "verify", run).returncode == 0
