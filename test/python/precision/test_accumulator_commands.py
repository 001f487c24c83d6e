"""What commands say about modelled accumulators: explain, compile, convert, export and train."""

import json
import subprocess

import pytest
from support.fallback_models import write_one
from support.paths import BUILD
from support.reference import binade

LOSS = ["--loss-output", "loss", "--optimizer=adamw"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_one(tmp_path_factory.mktemp("linear") / "m.onnx", 64)


def test_explain_prints_the_accumulator(model):
    text = binade("explain", model, "--policy", "fp8-hopper", *LOSS).stdout
    assert "accumulator of 14 bits, never promoted" in text
    assert "accumulator of 14 bits, promoted every 128 products" in text
    report = binade(
        "explain", model, "--policy", "fp8-block-hopper", "--format", "json", *LOSS
    )
    found = [op.get("accumulation") for op in json.loads(report.stdout)["ops"]]
    assert found.count({"bits": 14, "step": 32, "promote": 128}) == 2
    assert all("plan" not in op for op in json.loads(report.stdout)["ops"])


def test_a_gpu_has_accumulators_of_its_own(model, tmp_path):
    out = ["-o", tmp_path / "m.binade"]
    given = [model, "--policy", "fp8-hopper", *LOSS]
    for chip in ("sm_80", "sm_90"):
        process = binade("compile", *given, "--target", f"cuda:{chip}", *out)
        assert process.returncode == 3, process.stderr
        assert (
            "error: models an accumulator of 14 bits, which only the CPU computes; compile for "
            "the CPU, or with a policy without such 'accumulate', for example fp8-current"
        ) in process.stderr
    assert not (tmp_path / "m.binade").exists()
    assert binade("compile", *given, *out).returncode == 0
    assert b'"accumulation":[14,32,0]' in (tmp_path / "m.binade").read_bytes()


def test_onnx_has_no_such_accumulator(model, tmp_path):
    step = tmp_path / "step.mlir"
    given = [model, "--policy", "fp8-hopper", *LOSS, "--to=materialize", "-o", step]
    assert binade("compile", *given).returncode == 0
    assert "accumulation = #binade.accumulation" in step.read_text()
    process = subprocess.run(
        [BUILD / "bin/binade-translate", "--export-onnx", step, "-o", tmp_path / "e.onnx"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert process.returncode != 0
    assert (
        "models the accumulator of a matrix unit, for which ONNX has no op"
        in process.stderr
    )


def test_convert_notes_that_sums_are_f32(model, tmp_path):
    process = binade(
        "convert", model, "--policy", "fp8-hopper", "-o", tmp_path / "c.onnx"
    )
    assert process.returncode == 0, process.stderr
    assert (
        "ONNX has no accumulator of 14 bits: products of quantized operands are added in f32"
        in process.stdout + process.stderr
    )
