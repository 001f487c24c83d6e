"""Every op of the dialect has GPU kernels, which assemble for each chip and compute the
values of the reference in the simulator."""

import json
import re

import pytest
from support.cuda_runs import run
from support.gpu_code import CHIPS, find_ptxas, is_forbidden
from support.op_examples import EXAMPLES, MADE, list_ops, write, write_all
from support.reference import run as evaluate
from support.reference import safetensors

# All ops whose kernels contain divisions, which the assembler expands to a sequence with a
# slow path for rare operands. Each entry has the number of divisions and the reason why
# they are not multiplications by a reciprocal.
OF_A_ROW = "one per row, channel or group, none per element"
OWN = "each element has a divisor of its own; four in a block, one in the last block's loop"
DIVISIONS = {
    "abs_encode": (2, OF_A_ROW),
    "attention": (2, "one per query, of which a thread has two"),
    "batch_norm": (1, OF_A_ROW),
    "batch_norm_grad": (1, OF_A_ROW),
    "batch_norm_param_grad": (1, OF_A_ROW),
    "choose_scale": (4, OF_A_ROW),
    "div": (5, OWN),
    "encode": (9, "the reciprocal of the scale; eight elements on the slow path"),
    "label_weight": (1, OF_A_ROW),
    "layer_norm": (1, OF_A_ROW),
    "reciprocal": (5, OWN),
    "reduce_mean": (1, OF_A_ROW),
    "rms_norm": (1, OF_A_ROW),
    "sigmoid": (5, OWN),
    "silu": (5, OWN),
    "silu_grad": (5, OWN),
    "softmax": (1, OF_A_ROW),
    "tanh": (5, OWN),
}


# Ops without kernels: the runtime executes them, as test_cuda_exchange.py checks.
IN_RUNTIME = {"exchange", "exchange_add"}


def test_every_op_has_an_example():
    assert list_ops() == {*EXAMPLES, *MADE, *IN_RUNTIME}


@pytest.mark.parametrize("op", EXAMPLES)
def test_kernels_compute_the_values_of_the_reference(op):
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


def read_ptx(tensors, module, chip):
    name = f"modules/{module}/compute_{chip.removeprefix('sm_')}"
    return re.sub(r"//.*", "", tensors[name].tobytes().decode())


@pytest.mark.parametrize("chip", CHIPS)
def test_kernels_assemble(chip, folder):
    """Bundles contain PTX and, if ptxas is available, machine code. All instructions are
    exact, but for the exponentials of attention."""
    tensors = safetensors.load(compile_all(folder, chip))
    version = chip.removeprefix("sm_")
    images = {f"compute_{version}", *([chip] if find_ptxas() else [])}
    plan = json.loads(tensors["plan"].tobytes())
    modules = {kernel.get("module", 0) for kernel in plan["device_kernels"]}
    assert len(modules) > 80
    divisions = {}
    for kernel in plan["device_kernels"]:
        ptx = read_ptx(tensors, kernel.get("module", 0), chip)
        if found := len(re.findall(r"\b(?:div|rcp)\.rn\.f32", ptx)):
            divisions[re.sub(r"_\d+$", "", kernel["name"])] = found
    assert divisions == {op: count for op, (count, _) in DIVISIONS.items()}
    for module in modules:
        prefix = f"modules/{module}/"
        found = {n.removeprefix(prefix) for n in tensors if n.startswith(prefix)}
        assert found == images
        ptx = read_ptx(tensors, module, chip)
        assert not is_forbidden(ptx, re.search(r"\.entry (\w+)", ptx)[1]), ptx


def test_records_stay_within_their_bounds(folder):
    """Includes matmuls, convolutions and attention, which the evaluator cannot run."""
    bundle = compile_all(folder, "sm_90")
    done = run("binade", "verify", bundle, "--device", "simulator", "--json")
    report = json.loads(done.stdout)
    assert report["equal"] and report["modules"]["other_ptx"] == []
    kinds = {record["kind"] for record in report["records"]}
    assert kinds >= {"launch", "matmul", "convolution", "attention"}
