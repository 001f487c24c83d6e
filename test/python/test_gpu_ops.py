"""Every op of the dialect has kernels for a GPU: they assemble for each chip, and have the
reference's values in the simulator."""

import json
import re

import pytest
from cuda_runs import run
from gpu_code import find_ptxas
from op_examples import EXAMPLES, MADE, list_ops, write, write_all
from reference import run as evaluate
from reference import safetensors
from test_gpu_code import CHIPS, FORBIDDEN


def test_every_op_has_an_example():
    assert list_ops() == {*EXAMPLES, *MADE}


@pytest.mark.parametrize("op", EXAMPLES)
def test_kernels_have_the_references_values(op):
    module, inputs = write(op)
    process, _ = evaluate(module, inputs, "--backend", "simulator", "--check")
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ops")
    (folder / "ops.mlir").write_text(write_all())
    return folder


def compile_all(folder, chip):
    bundle = folder / f"{chip}.bnd"
    run("binade", "compile", folder / "ops.mlir", "--from=materialize",
        f"--target=cuda:{chip}", "-o", bundle)  # fmt: skip
    return bundle


@pytest.mark.parametrize("chip", CHIPS)
def test_kernels_assemble(chip, folder):
    """As PTX and, where the assembler is at hand, as machine code; exact, all of them."""
    tensors = safetensors.load(compile_all(folder, chip))
    version = chip.removeprefix("sm_")
    images = {f"compute_{version}", *([chip] if find_ptxas() else [])}
    plan = json.loads(tensors["plan"].tobytes())
    modules = {kernel.get("module", 0) for kernel in plan["device_kernels"]}
    assert len(modules) > 80
    for module in modules:
        prefix = f"modules/{module}/"
        found = {n.removeprefix(prefix) for n in tensors if n.startswith(prefix)}
        assert found == images
        ptx = tensors[f"{prefix}compute_{version}"].tobytes().decode()
        assert not FORBIDDEN.search(re.sub(r"//.*", "", ptx)), ptx


def test_records_keep_to_their_bounds(folder):
    """Products, convolutions and attention too, which the evaluator has no kernels for."""
    bundle = compile_all(folder, "sm_90")
    done = run("binade", "verify", bundle, "--device", "simulator", "--json")
    report = json.loads(done.stdout)
    assert report["equal"] and report["modules"]["other_ptx"] == []
    kinds = {record["kind"] for record in report["records"]}
    assert kinds >= {"launch", "matmul", "convolution", "attention"}
