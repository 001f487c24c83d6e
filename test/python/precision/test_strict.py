"""Formats that a target has no instructions for: compile reports what is emulated, and
--strict rejects it."""

import json
import re

import pytest
from support.cuda_runs import LOSS, MODEL, run
from support.fallback_models import write_one

# A format (MXFP4) of 4-bit elements with a scale, a power of two, per 32 elements.
FORMAT = """\
summary: E2M1, a power of two for each 32 elements of a row
element: f4E2M1FN
block: [1, 32]
scale: f8E8M0FNU
rule: round_up
"""
POLICY = """\
name: narrow
extends: bf16-amp
rules:
- match: { op: matmul, role: weight }
  quantize: { activation: FILE, weight: FILE, gradient: FILE }
"""


def compile(out, policy, *more, code=0):
    done = run("binade", "compile", MODEL, "--loss", LOSS, "--policy", policy,
               *more, "-o", out, code=code)  # fmt: skip
    return done.stderr


def emulated(text):
    """Maps each format to the counts in its note."""
    found = {}
    for name, rest in re.findall(r"note: (\w+): (.*)", text):
        numbers = re.search(r"(\d+) conversions?, of (\d+) elements", rest)
        matmuls = re.search(r"(\d+) contractions?, in a wider format", rest)
        found[name] = {
            "conversions": int(numbers[1]) if numbers else 0,
            "elements": int(numbers[2]) if numbers else 0,
            "matmuls": int(matmuls[1]) if matmuls else 0,
        }
    return found


def count_in_module(path, name):
    """The conversions between a format and wider ones in the step, and their elements."""
    step = path.read_text().split("func.func @step")[1].split("\n  }")[0]
    ops = elements = 0
    for line in step.splitlines():
        types = re.findall(r"tensor<([\dx]*)(\w+)>", line.split(" : ")[-1])
        own = [shape for shape, element in types if element == name]
        wide = [element for _, element in types if element in ("f32", "bf16")]
        if not own or not wide or "matmul" in line:
            continue
        ops += 1
        sizes = [[int(size) for size in shape.split("x") if size] for shape in own]
        elements += max(prod(size) for size in sizes)
    return ops, elements


def prod(sizes):
    result = 1
    for size in sizes:
        result *= size
    return result


def test_a_chip_without_fp8_names_what_it_emulates(tmp_path):
    text = compile(tmp_path / "a.bnd", "fp8-current", "--target", "cuda:sm_80")
    assert "warning: cuda:sm_80 has no instructions for f8E4M3FN, f8E5M2: emulated" in (
        text
    )
    # 108 multiprocessors with 64 integer lanes each, at 1.41 GHz.
    count, time, unit = re.search(
        r"note: predicted cost: at most (\S+) instructions a step, (\S+) (us|ns) on an A100",
        text,
    ).groups()
    seconds = float(time) * {"us": 1e-6, "ns": 1e-9}[unit]
    assert seconds == pytest.approx(float(count) / (108 * 64 * 1.41e9), rel=0.05)
    module = tmp_path / "step.mlir"
    compile(module, "fp8-current", "--to=materialize")
    found = emulated(text)
    for name in ("f8E4M3FN", "f8E5M2"):
        ops, elements = count_in_module(module, name)
        assert found[name]["conversions"] == ops > 0
        assert found[name]["elements"] == elements
    # Only the first of the two layers is FP8: its forward matmul and the gradient of its
    # weight, with one operand in E5M2. The gradient of the input is not computed.
    assert found["f8E4M3FN"]["matmuls"] == 2 and found["f8E5M2"]["matmuls"] == 1


def test_a_chip_with_fp8_emulates_nothing(tmp_path):
    """--strict also needs shapes that are multiples of 16; the example's batch of 8 is not."""
    target = ["--target", "cuda:sm_90"]
    text = compile(tmp_path / "a.bnd", "fp8-current", *target)
    assert "no instructions" not in text and "k = 8 is not a multiple of 16" in text
    text = compile(tmp_path / "b.bnd", "fp8-current", *target, "--strict", code=3)
    assert "no instructions" not in text and "refused by --strict" in text
    model = write_one(tmp_path / "one.onnx", 64)
    done = run("binade", "compile", model, "--loss-output", "loss", "--policy", "fp8-current",
               *target, "--strict", "-o", tmp_path / "c.bnd")  # fmt: skip
    assert not done.stderr


@pytest.mark.parametrize("chip, policy, formats", [
    ("sm_90", "mxfp8", "f8E8M0FNU"),
    ("sm_90", "narrow", "f4E2M1FN, f8E8M0FNU"),
])  # fmt: skip
def test_formats_of_microscaling_are_emulated(chip, policy, formats, tmp_path):
    if policy == "narrow":
        file = tmp_path / "mxfp4.yaml"
        file.write_text(FORMAT)
        policy = tmp_path / "narrow.yaml"
        policy.write_text(POLICY.replace("FILE", json.dumps(str(file))))
    target = ["--target", f"cuda:{chip}"]
    text = compile(tmp_path / "a.bnd", policy, *target)
    found = re.search(r"has no instructions for (.*): emulated", text)[1]
    assert set(found.split(", ")) == set(formats.split(", "))
    text = compile(tmp_path / "b.bnd", policy, *target, "--strict", code=3)
    assert "refused by --strict" in text and not (tmp_path / "b.bnd").exists()


@pytest.mark.parametrize("policy, formats", [
    ("fp32", None), ("bf16-amp", None), ("tf32", "tf32"), ("fp16-amp", "f16"),
    ("fp8-current", "f8E4M3FN, f8E5M2"),
])  # fmt: skip
def test_emulation_on_cpus_is_reported_with_strict_only(policy, formats, tmp_path):
    assert "no instructions" not in compile(tmp_path / "a.bnd", policy)
    text = compile(tmp_path / "b.bnd", policy, "--strict", code=3 if formats else 0)
    if formats:
        found = re.search(r"a CPU has no instructions for (.*): refused", text)[1]
        assert set(found.split(", ")) == set(formats.split(", "))


def test_strict_is_rejected_after_materialize(tmp_path):
    module = tmp_path / "step.mlir"
    compile(module, "fp8-current", "--to=programs")
    done = run("binade", "compile", module, "--from=programs", "--strict",
               "-o", tmp_path / "a.bnd", code=2)  # fmt: skip
    assert "--strict" in done.stderr
