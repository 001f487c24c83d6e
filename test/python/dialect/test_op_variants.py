"""Every op with every format, decision and kind of attribute is refused by the verifier, with
one clear message, or it compiles: no variant is "a bug in Binade"."""

import concurrent.futures
import re
import subprocess
import tempfile

import pytest
from support.op_examples import SIMPLE, write
from support.op_variants import (
    FORMATS,
    find_errors,
    vary_attributes,
    vary_decisions,
    vary_types,
)
from support.paths import BUILD, ROOT
from support.reference import run

# Ops of each family, and formats of each kind.
SAMPLE = ["add", "attention", "compare", "conv", "dequantize", "erf", "gather", "gather_grad",
          "layer_norm", "matmul", "reduce_max", "save", "scaled_matmul", "select"]  # fmt: skip
FEW = ["f64", "f16", "f8E4M3FN", "f4E2M1FN", "tf32"]
DECIDED = ["gather", "matmul", "relu", "reshape", "save", "softmax"]
# Words of LLVM and of C++ types, which users cannot act on.
UNCLEAR = re.compile(
    r"bug|LLVM|::|Both operands|FPTrunc|ZExt|Invalid|is to be a|Binade_"
)


def verify(variants):
    """Returns the variants that the verifier accepts."""
    variants = list(variants)
    done, errors = find_errors([module for _, module in variants])
    assert done.returncode in (0, 1), done.stderr[-2000:]
    assert bool(done.returncode) == bool(errors)
    for number, messages in errors.items():
        assert len(messages) == 1, (variants[number], messages)
        assert not UNCLEAR.search(messages[0]), (variants[number], messages)
    return [variant for number, variant in enumerate(variants) if number not in errors]


def check(process, label):
    assert process.returncode in (0, 3), (label, process.stderr)
    assert not UNCLEAR.search(process.stderr), (label, process.stderr)
    assert bool(process.returncode) == ("error: " in process.stderr), (label, process)


def evaluate(variant):
    label, module = variant
    inputs = write(label.split(":")[0])[1]
    check(run(module, inputs, "--backend", "cpu")[0], label)


def add_roles(module):
    """The step whose only function is the module's."""
    port = '{{binade.name = "{}", binade.role = #binade.role<{}>}}'
    head, body = module.replace("@f(", "@step(", 1).split("->", 1)
    head = re.sub(
        r"%(\w+): (tensor<[^>]*>)",
        lambda m: f"{m[0]} {port.format(m[1], 'batch')}",
        head,
    )
    results, body = body.split("{\n", 1)
    kinds = [
        f"{kind} {port.format(f'result{i}', 'output')}"
        for i, kind in enumerate(re.findall(r"tensor<[^>]*>", results))
    ]
    return f"{head}-> ({', '.join(kinds)}) {{\n{body}"


def compile_step(variant):
    label, module = variant
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/step.mlir"
        with open(path, "w") as file:
            file.write(add_roles(module))
        done = subprocess.run(
            [BUILD / "bin/binade", "compile", path, "--policy=bf16-amp", "-o", f"{path}.bnd"],
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip
    check(done, label)


def check_all(check_one, variants):
    assert variants
    with concurrent.futures.ThreadPoolExecutor() as threads:
        list(threads.map(check_one, variants))


def test_formats_are_refused_or_compile():
    check_all(
        evaluate, verify(v for op in SAMPLE for v in vary_types(op, FEW[:3]))[::3]
    )


def test_decisions_are_refused_or_compile():
    check_all(
        compile_step,
        verify(v for op in DECIDED for v in vary_decisions(op, FEW[:3]))[::2],
    )


@pytest.mark.parametrize("formats", [FEW])
def test_formats_of_all_ops_are_verified(formats):
    accepted = verify(v for op in SIMPLE for v in vary_types(op, formats))
    labels = {label for label, _ in accepted}
    assert "add: 7x33xf16, 7x33xf32 -> 7x33xf32" in labels
    assert not any("tf32" in label.partition("{")[0] for label in labels)
    assert not any(
        re.fullmatch(r"(matmul|conv): .*xf8.*", label.partition(" {")[0])
        for label in labels
    )


def list_decided():
    """Ops that have decisions."""
    page = (ROOT / "docs/generated/Dialect.md").read_text()
    sections = re.split(r"^### `binade\.(\w+)`", page, flags=re.MULTILINE)
    return [
        op for op, text in zip(sections[1::2], sections[2::2])
        if op in SIMPLE and "PrecisionOpInterface" in text
    ]  # fmt: skip


def test_decisions_of_all_ops_are_verified():
    decided = list_decided()
    assert len(decided) > 40
    accepted = verify(v for op in decided for v in vary_decisions(op, FEW))
    labels = {label for label, _ in accepted}
    assert "matmul: compute = f16, accumulate = f64, result = f16" in labels
    assert not any("result = f8" in label for label in labels if "save" not in label)
    sums = {label.split(":")[0] for label in labels if "accumulate" in label}
    assert sums == {"attention", "attention_grad", "conv", "conv_input_grad",
                    "conv_weight_grad", "matmul"}  # fmt: skip


def test_attributes_of_every_kind_are_refused_or_accepted():
    """Nothing crashes; the messages of MLIR name attributes and expected kinds."""
    variants = [v for op in SIMPLE for v in vary_attributes(op)]
    assert len(variants) > 1000
    done, errors = find_errors([module for _, module in variants])
    assert done.returncode == 1, done.stderr[-2000:]
    assert len(errors) > len(variants) / 2


@pytest.mark.nightly
def test_all_formats_are_refused_or_compile():
    check_all(evaluate, verify(v for op in SIMPLE for v in vary_types(op, FORMATS)))


@pytest.mark.nightly
def test_all_decisions_are_refused_or_compile():
    check_all(
        compile_step,
        verify(v for op in list_decided() for v in vary_decisions(op, FORMATS)),
    )


@pytest.mark.nightly
def test_accepted_attributes_compile():
    variants = [v for op in SIMPLE for v in vary_attributes(op)]
    errors = find_errors([module for _, module in variants])[1]
    check_all(evaluate, [v for i, v in enumerate(variants) if i not in errors])
