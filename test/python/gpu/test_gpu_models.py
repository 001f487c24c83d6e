"""Kernels of every shared model in every policy assemble and use only exact instructions.

One pair of ten runs always. The others are nightly tests, as are other chips, graphs that
contain gradients or a whole step, and models whose graphs have no weights. test_verify.py
checks the results of these kernels with `binade verify`, test_gpu_ops.py those of each op.
"""

import itertools
import json
import os
import re

import pytest
from support.gpu_code import CHIPS, find_ptxas, is_forbidden
from support.policies import GPU_POLICIES
from support.paths import MODELS
from support.reference import binade
from support.shared_models import FOLD

SMALL = ["mlp-digits", "gpt2-tiny", "llama-tiny", "resnet18-cifar-w8", "lstm-char",
         "clip-tiny", "detector-tiny"]  # fmt: skip
WITHOUT_WEIGHTS = ["gpt2-124m", "resnet18-imagenet", "gpt2-xl"]

# Errors of graphs that cannot become a step for any target.
NO_IMPORT = ["has ops that cannot be imported", "has no parameter to train"]


def check_kernels(model, policy, chip, folder, file="loss.onnx"):
    source = MODELS / model
    graph = source / file
    if not graph.exists():
        pytest.skip(f"{graph} is absent; BINADE_MODELS names its folder")
    weights = source / "weights.json"
    if weights.exists():  # Only sizes matter: a sparse file of zeros replaces them.
        graph = folder / file
        graph.write_bytes((source / file).read_bytes())
        with (folder / "weights.bin").open("wb") as file:
            os.truncate(file.fileno(), json.loads(weights.read_text())["total"])
    more = ["--optimizer", "tiger"] if policy.startswith("tiger") else []
    if file == "loss.onnx":
        more += FOLD.get(model, [])
    done = binade("compile", graph, "--policy", policy, *more,
                  f"--target=cuda:{chip}", "--save-kernels", folder / "kernels",
                  "-o", folder / "model.bnd")  # fmt: skip
    if any(reason in done.stderr for reason in NO_IMPORT):
        pytest.skip(done.stderr.splitlines()[0])
    assert done.returncode == 0, done.stderr
    (folder / "model.bnd").unlink()
    codes = sorted((folder / "kernels").glob("*.ptx"))
    assert len(codes) > 10
    if find_ptxas():
        assert len(list((folder / "kernels").glob("*.cubin"))) == len(codes)
    for path in codes:
        ptx = "".join(line.partition("//")[0] for line in path.open())
        symbol = re.search(r"\.entry (\w+)", ptx)[1]
        assert not is_forbidden(ptx, symbol), path


def mark(number, model):
    if number % 10:
        return [pytest.mark.nightly]
    return [] if model == "mlp-digits" else [pytest.mark.slow]


@pytest.mark.parametrize(
    ("model", "policy"),
    [
        pytest.param(model, policy, marks=mark(number, model))
        for number, (policy, model) in enumerate(itertools.product(GPU_POLICIES, SMALL))
    ],
)
def test_kernels_assemble(model, policy, tmp_path):
    check_kernels(model, policy, "sm_90", tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("chip", [chip for chip in CHIPS if chip != "sm_90"])
@pytest.mark.parametrize("policy", ["bf16-amp", "coat", "fp8-block"])
@pytest.mark.parametrize("model", SMALL)
def test_kernels_assemble_for_other_chips(model, policy, chip, tmp_path):
    check_kernels(model, policy, chip, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("policy", ["fp32", "bf16-amp", "coat"])
@pytest.mark.parametrize("file", ["grads.onnx", "train_step.adamw.onnx"])
@pytest.mark.parametrize("model", SMALL)
def test_kernels_of_exported_gradients_assemble(model, file, policy, tmp_path):
    """Import recovers the gradients of the file or keeps them."""
    check_kernels(model, policy, "sm_90", tmp_path, file)


@pytest.mark.nightly
@pytest.mark.parametrize("policy", ["bf16-amp", "coat"])
@pytest.mark.parametrize("model", WITHOUT_WEIGHTS)
def test_kernels_of_large_models_assemble(model, policy, tmp_path):
    check_kernels(model, policy, "sm_90", tmp_path)
