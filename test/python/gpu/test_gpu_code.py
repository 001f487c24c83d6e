"""PTX of GPU kernels uses only exact instructions, and stays within budgets.

A budget is an upper bound per kernel: PTX instructions per element in the innermost loops,
divisions and roots among them (rare branches included), registers, spills and shared
memory. `lanes` is the number of elements that a thread processes at a time. `pytest -s`
prints the counts. Templates do not spill.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess

import pytest
from support.gpu_code import (
    CHIPS,
    TOOLS,
    assemble,
    check_instructions,
    compile_ptx,
    find_ptxas,
    identify,
    parse,
    read_kernels,
)
from support.paths import ROOT
from support.policies import GPU_POLICIES
from support.reference import binade

DATA = ROOT / "test/data"

UPDATES = json.loads((DATA / "gpu-update-budgets.json").read_text())

# Bytes that kernels are known to spill on some chips. Lower them, never raise them.
# A thread keeps the 128 elements of a group of the transform of quartet2.
SPILLS = {"abs_encode": 8, "gather_grad": 4, "hadamard_reduce_max": 636}

needs_ptxas = pytest.mark.skipif(not find_ptxas(), reason="no ptxas")


@pytest.fixture(scope="module")
def templates():
    process = compile_ptx(DATA / "gpu-kernels.mlir")
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_templates_stay_within_their_budgets(templates, tmp_path):
    budgets = json.loads((DATA / "gpu-budgets.json").read_text())
    entries = parse(templates)
    for entry in entries:
        entry.kernel += "_finish" if entry.symbol.endswith("_finish") else ""
    assert {entry.kernel for entry in entries} == set(budgets)
    check_instructions(entries)
    usage = assemble(templates, "sm_90", tmp_path) if find_ptxas() else {}
    columns = ["per_element", "divisions", "registers", "spills", "shared"]
    print(f"\n{'':20}" + "".join(f"{name:>12}" for name in columns))
    over = []
    for entry in entries:
        used = usage.get(entry.symbol)
        lanes = budgets[entry.kernel]["lanes"]
        found = {
            "per_element": len(entry.hot()) / lanes,
            "divisions": entry.divisions() / lanes,
            "shared": entry.shared,
        }
        if used:
            found |= {"registers": used.registers, "spills": used.spills + used.stack}
        print(
            f"{entry.kernel:20}"
            + "".join(f"{found.get(name, '-'):>12}" for name in columns)
        )
        most = budgets[entry.kernel] | {"spills": 0}
        over += [
            f"{entry.kernel} has {name} {value}, more than {most[name]}"
            for name, value in found.items()
            if value > most[name]
        ]
    assert not over, over


def test_every_schedule_has_a_template():
    source = (ROOT / "include/binade/IR/BinadeEnums.td").read_text()
    cases = re.search(r"Binade_Schedule : (.*?)\]>;", source, re.DOTALL)[1]
    schedules = set(re.findall(r'\d+, "(\w+)">', cases))
    text = (DATA / "gpu-kernels.mlir").read_text()
    found = set(re.findall(r"#binade\.schedule<(\w+)>", text))
    # Updates are multi-tensor kernels; views and library calls have no fused kernel.
    assert schedules - found == {"multi_tensor", "view", "library"}


@pytest.mark.parametrize("policy", UPDATES)
def test_updates_stay_within_their_budgets(policy, tmp_path):
    """Budgets apply to whole kernels; of each kind, the largest counts."""
    found = {}
    for name, text in read_kernels(policy).items():
        kind = re.sub(r"_\d+$", "", name)
        if kind not in UPDATES[policy]:
            continue
        (tmp_path / "kernel.mlir").write_text(text)
        process = compile_ptx(tmp_path / "kernel.mlir")
        assert process.returncode == 0, process.stderr
        entries = parse(process.stdout)
        check_instructions(entries)
        usage = assemble(process.stdout, "sm_90", tmp_path) if find_ptxas() else {}
        for entry in entries:
            most = found.setdefault(kind, dict.fromkeys(UPDATES[policy][kind], 0))
            used = usage.get(entry.symbol)
            own = {"instructions": len(entry.instructions()), "shared": entry.shared}
            if used:
                own["registers"] = used.registers
                assert used.spills + used.stack == 0, f"{name}: {used}"
            found[kind] = most | {n: max(most[n], value) for n, value in own.items()}
    print(f"\n{policy}: {found}")
    assert set(found) == set(UPDATES[policy])
    over = [
        f"{kind} has {value} {what}, more than {UPDATES[policy][kind][what]}"
        for kind, numbers in found.items()
        for what, value in numbers.items()
        if value > UPDATES[policy][kind][what]
    ]
    assert not over, over


def test_targets_are_listed(monkeypatch, tmp_path):
    chips = re.findall(r"^cuda:(\w+)", binade("list", "targets").stdout, re.MULTILINE)
    assert chips == CHIPS
    monkeypatch.setenv("BINADE_CUDA_ROOT", str(tmp_path))
    assert (
        "ptxas was not found: set BINADE_CUDA_ROOT" in binade("list", "targets").stdout
    )


def test_ptx_needs_no_assembler(monkeypatch, tmp_path):
    monkeypatch.setenv("BINADE_CUDA_ROOT", str(tmp_path))
    (tmp_path / "one.mlir").write_text(
        re.search(
            r"^func.*?^}",
            (DATA / "gpu-kernels.mlir").read_text(),
            re.DOTALL | re.MULTILINE,
        )[0]
    )
    assert compile_ptx(tmp_path / "one.mlir").returncode == 0
    command = [TOOLS / "binade-translate", tmp_path / "one.mlir", "--kernels-to-cubin"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert "found no ptxas; set BINADE_CUDA_ROOT" in process.stderr


@needs_ptxas
@pytest.mark.parametrize("chip", CHIPS)
def test_templates_assemble(chip, tmp_path):
    process = compile_ptx(DATA / "gpu-kernels.mlir", chip)
    assert process.returncode == 0, process.stderr
    entries = parse(process.stdout)
    check_instructions(entries)
    usage = assemble(process.stdout, chip, tmp_path)
    assert {entry.symbol for entry in entries} == set(usage)


# Policies with hundreds of kernels that no other policy has.
MANY_KERNELS = {"nvfp4-four-six", "quartet2"}


def choose_marks(policy, chip, fast):
    """Policies of `fast` are tested for one chip; the others and other chips take longer."""
    if chip != "sm_90" or policy in MANY_KERNELS:
        return pytest.mark.nightly
    return [] if policy in fast else pytest.mark.slow


@needs_ptxas
@pytest.mark.parametrize(
    ("policy", "chip"),
    [
        pytest.param(
            policy, chip,
            marks=choose_marks(policy, chip, {"coat"}),
        )
        for policy in ("fp32", "coat", "mxfp8", "8bit-optimizer") for chip in CHIPS
    ],
)  # fmt: skip
def test_kernels_of_a_step_assemble_as_one_file(policy, chip, tmp_path):
    """The printed PTX contains code books and other constants of many kernels."""
    module = tmp_path / "step.mlir"
    done = binade("compile", ROOT / "examples/mlp/mlp.onnx", "--policy", policy,
                  "--loss", "cross_entropy(prediction, labels)", "--optimizer=adamw",
                  "--target", f"cuda:{chip}", "--to=kernels", "-o", module)  # fmt: skip
    assert done.returncode == 0, done.stderr
    process = compile_ptx(module, chip)
    assert process.returncode == 0, process.stderr
    for word in (".version", ".target", ".address_size"):
        assert (
            len(re.findall(rf"^{re.escape(word)} ", process.stdout, re.MULTILINE)) == 1
        )
    entries = re.findall(r"\.visible \.entry (\w+)\(", process.stdout)
    assert len(entries) > 5 and len(set(entries)) == len(entries)
    assert set(entries) == {entry.symbol for entry in parse(process.stdout)}
    path = tmp_path / "step.ptx"
    path.write_text(process.stdout)
    done = subprocess.run(
        [find_ptxas(), f"-arch={chip}", path, "-o", tmp_path / "step.cubin"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("policy", ["bf16-amp", "coat"])
def test_kernel_symbols_name_ops_for_profilers(policy, tmp_path):
    done = binade("compile", ROOT / "examples/char-gpt/mini.onnx", "--policy", policy,
                  "--optimizer=adamw", "--target", "cuda:sm_90", "-o", tmp_path / "a.bnd")  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = binade("inspect", tmp_path / "a.bnd", "--json")
    kernels = json.loads(done.stdout)["device_kernels"]
    assert len(kernels) > 20
    prefixes = set()
    for kernel in kernels:
        for entry in kernel["entries"]:
            found = re.fullmatch(
                r"([a-z][a-z0-9_]*)_[0-9a-f]{12}(_finish)?", entry["symbol"]
            )
            assert found, entry
            prefixes.add(found[1])
            others = ("optimizer_update", "product", "attention", "convolution", "copy")
            assert kernel["name"].startswith((*others, found[1])), (kernel, entry)
    assert {"adamw_update", "matmul", "attention"} <= prefixes


@pytest.fixture(scope="module")
def assembled():
    """Kernels that a test of this module has assembled, by chip and `identify`."""
    return set()


@needs_ptxas
@pytest.mark.parametrize(
    ("policy", "chip"),
    [
        pytest.param(
            policy,
            chip,
            marks=choose_marks(policy, chip, {"fp32", "bf16-amp", "coat", "fp8-block"}),
        )
        for policy in GPU_POLICIES
        for chip in (CHIPS if policy == "coat" else ["sm_90"])
    ],
)
def test_kernels_of_policies_assemble(policy, chip, assembled, tmp_path):
    """Kernels that policies share are assembled once."""
    kernels = read_kernels(policy)
    assert kernels
    codes, without, own = [], [], set()
    for name, text in kernels.items():
        key = (chip, identify(name, text))
        if key in assembled | own:
            continue
        own.add(key)
        path = tmp_path / "kernel.mlir"
        path.write_text(text)
        process = compile_ptx(path, chip)
        if "has no schedule for a GPU" in process.stderr:
            without.append(name)
            continue
        assert process.returncode == 0, f"{name}: {process.stderr}"
        codes.append(process.stdout)
    print(
        f"\n{policy}: {len(codes)} of {len(kernels)} kernels; "
        f"no schedule: {', '.join(without) or 'none'}"
    )
    if not own:
        return
    assert codes
    ptx = "".join(codes)
    entries = parse(ptx)
    check_instructions(entries)
    usage = assemble(ptx, chip, tmp_path)
    assert {entry.symbol for entry in entries} == set(usage)
    for entry in entries:
        # The assembler implements f64 divisions as subroutines.
        if not any(".f64" in line for line in entry.instructions()):
            used, op = usage[entry.symbol], re.sub(r"_\d+$", "", entry.kernel)
            assert used.spills <= SPILLS.get(op, 0), f"{entry.kernel}: {used}"
    assembled.update(own)


@needs_ptxas
def test_the_version_of_the_assembler_is_queried_once(monkeypatch, tmp_path):
    real, calls = find_ptxas(), tmp_path / "calls"
    program = tmp_path / "bin/ptxas"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$1" >> {shlex.quote(str(calls))}\nexec {real} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("BINADE_CUDA_ROOT", str(tmp_path))
    done = binade("compile", ROOT / "examples/mlp/mlp.onnx", "--policy", "bf16-amp",
                  "--loss", "cross_entropy(prediction, labels)",
                  "--target", "cuda:sm_90", "-o", tmp_path / "mlp.bnd")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert calls.read_text().split().count("--version") == 1
