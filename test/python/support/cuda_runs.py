"""A model's bundles for both targets, and runs of them on the simulated driver.

The simulated driver runs PTX, so that CUDA's ptxas is not needed.
"""

import os
import subprocess

import numpy as np
import pytest
from support.paths import BUILD, ROOT
from support.reference import safetensors

SIMULATED = BUILD / "simulated-cuda"
CUDNN = BUILD / "simulated-cudnn"
MODEL = ROOT / "examples" / "mlp" / "mlp.onnx"
LOSS = "cross_entropy(prediction, labels)"
CUDA = ["--target", "cuda:sm_90"]
BATCH, STEPS, RATE = 8, 5, 1e-3


def run(program, *arguments, code=0, library_path=SIMULATED, **environment):
    done = subprocess.run(
        [BUILD / "bin" / program, *map(str, arguments)],
        env=dict(os.environ, LD_LIBRARY_PATH=str(library_path), **environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == code, done.stderr
    return done


def need_simulated_driver():
    if not (SIMULATED / "libcuda.so.1").exists():
        pytest.skip("the simulated driver is not built: ninja binade-tests")


class Bundles:
    """The model for both targets, and data for it."""

    def __init__(self, folder):
        need_simulated_driver()
        self.folder = folder
        self.data = folder / "data.safetensors"
        draw = np.random.default_rng(9)
        samples = BATCH * STEPS
        x = draw.standard_normal((samples, 16), np.float32)
        safetensors.save(self.data, {"x": x, "labels": draw.integers(0, 4, samples)})

    def compile(self, target="cuda", policy="fp32", optimizer="adamw", batches=1):
        bundle = self.folder / f"{target}-{policy}-{optimizer}-{batches}.bnd"
        if not bundle.exists():
            more = [*CUDA, "--save-kernels", self.folder] if target == "cuda" else []
            more += ["--accumulate", batches]
            run(
                "binade", "compile", MODEL, "--loss", LOSS, "--policy", policy,
                "--optimizer", optimizer, "--lr", RATE, *more, "-o", bundle,
            )  # fmt: skip
        return bundle

    def train(
        self, bundle, out, *more, steps=STEPS, code=0, settings="", data=None, **options
    ):
        arguments = [bundle, "--data", data or self.data, "--order", "sequential",
                     "--steps", steps, *out, *more]  # fmt: skip
        return run(
            "binade-run", *arguments, code=code,
            BINADE_SIMULATED_KERNELS=str(self.folder),
            BINADE_SIMULATED_CUDA=settings, **options,
        )  # fmt: skip


NARROW = [
    "bf16-amp",
    "fp16-amp",
    "fp8-current",
    "fp8-delayed",
    "fp8-block",
    "mxfp8",
    "coat",
    "tiger-half",
]
