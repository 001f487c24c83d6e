"""Runs the programs of benchmarks/gpu as on a machine with a GPU, on the simulated driver."""

import json
import os
import subprocess
import sys

from support.cuda_runs import SIMULATED
from support.paths import BUILD, ROOT

GPU = ROOT / "benchmarks" / "gpu"
# Rows of every part that are quick to simulate.
FEW_ROWS = ("attention-gpt2", "clip", "fp8-16384x2048x2048", "gpt2-bf16", "head-gpt2",
            "mlp-fp32", "product-64x32", "row")  # fmt: skip


def run_python(program, *arguments, **environment):
    return subprocess.run(
        [sys.executable, GPU / program, *map(str, arguments)],
        env=os.environ | {"BINADE_BUILD": str(BUILD)} | environment,
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


def prepare(folder, *arguments):
    """Makes artifacts for the simulated driver, in small sizes."""
    done = run_python("prepare.py", "--tiny", "--out", folder, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def measure(artifacts, out, *arguments, library_path=SIMULATED, **environment):
    """Runs run.sh as on a machine with a GPU. Returns the process and its JSON result."""
    done = subprocess.run(
        [GPU / "run.sh", "--artifacts", artifacts, "--out", out, *map(str, arguments)],
        env=os.environ | {"PYTHON": sys.executable, "LD_LIBRARY_PATH": str(library_path)}
        | environment,
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    written = sorted(out.glob("*.json")) if out.exists() else []
    return done, json.loads(written[0].read_text()) if written else None


def make_runtime(folder, **manifest):
    """Creates the smallest artifacts that run.py accepts."""
    (folder / "runtime/bin").mkdir(parents=True)
    (folder / "runtime/bin/binade-run").symlink_to(BUILD / "bin/binade-run")
    manifest = {"tiny": True, "commit": "", "bytes": {}} | manifest
    (folder / "manifest.json").write_text(json.dumps(manifest))
