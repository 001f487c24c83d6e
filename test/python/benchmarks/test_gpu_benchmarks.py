"""Runs benchmarks/gpu as on a machine with a GPU, but on the simulated driver."""

import json
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from support.cuda_runs import SIMULATED, need_simulated_driver
from support.gpu_benchmarks import GPU, make_runtime, measure, prepare, run_python
from support.gpu_code import find_ptxas
from support.reference import safetensors

KERNELS = ["adamw", "clip", "e4m3", "e4m3x", "dyn8", "tiger", "row", "group", "delayed", "turned",
           "both", "norm"]  # fmt: skip
STEPS = ["gpt2-bf16", "gpt2-coat"]
WATCHED = ["mlp-watched"]
ATTENTION = ["attention-gpt2", "attention-gpt2-backward", "attention-llama",
             "attention-llama-backward", "attention-wide", "attention-wide-backward"]  # fmt: skip
HEADS = ["loss", "head-gpt2", "head-llama"]
MATMULS = ["fp8-32768x2304x768", "fp8-32768x3072x768", "fp8-32768x768x3072",
           "fp8-16384x2048x2048", "fp8-16384x8192x2048", "fp8-16384x2048x8192"]  # fmt: skip
PARTS = ["conversions", "expansion", "records", "models", "steps", "attention", "head",
         "kernels", "matmuls", "launches", "statistics"]  # fmt: skip
RECORDS = ["attention-llama", "clip", "empty-e4m3x", "head-gpt2", "mlp-coat", "product-50x32",
           "product-64x32", "row"]  # fmt: skip
EXPANDED = ["dyn8x", "e4m3x", "e5m2x", "f16x"]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    need_simulated_driver()
    return prepare(tmp_path_factory.mktemp("gpu") / "artifacts")


@pytest.mark.nightly
def test_all_parts(artifacts, tmp_path):
    done, result = measure(artifacts, tmp_path, "--time", 4)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [part["name"] for part in result["parts"]] == PARTS
    assert {part["status"] for part in result["parts"]} == {"passed"}
    assert [row["name"] for row in result["rows"]] == [
        *STEPS, *ATTENTION, *HEADS, *KERNELS, *MATMULS, *STEPS, *WATCHED,
    ]  # fmt: skip
    assert result["device"] == "Simulated H200" and result["copy_gbs"] > 0
    assert {"driver", "cuda", "date", "commit"} < result.keys()
    # The page says that its times are not measurements.
    (page,) = tmp_path.glob("*.md")
    assert page.read_text().startswith("# Simulated H200, ")
    assert "simulated: the times mean nothing" in page.read_text()
    for row in result["rows"]:
        assert row["ms"] > 0 and row["title"] in page.read_text()
    profiles = [row["profile"] for row in result["rows"] if "profile" in row]
    assert len(profiles) == len(STEPS) + 2  # Of heads, too.
    for profile in profiles:
        assert profile["steps"] == 3 and profile["ms"] > 0
        assert {"launch", "matmul"} <= {x["kind"] for x in profile["lines"]}
        assert all(0 <= line["ms"] <= profile["ms"] for line in profile["lines"])
    count = page.read_text().count("in 3 steps, one record after the other")
    assert count == len(profiles)
    assert set(result["conversions_checked"]) >= {"bf16", "f8E4M3FN-saturate"}
    assert set(result["expansion_checked"]) == set(EXPANDED)
    assert all(model["repeats"] for model in result["models_checked"].values())
    (watched,) = [row for row in result["rows"] if row["part"] == "statistics"]
    assert watched["statistics"] > 100 and "## Statistics" in page.read_text()
    assert set(result["records_checked"]) == {
        f"{by}: {name}" for by in ("own", "auto") for name in RECORDS
    }


@pytest.mark.slow
def test_a_killed_run_keeps_its_results(artifacts, tmp_path):
    """Keeps the finished parts, and the finished rows of the part that was running."""
    child = subprocess.Popen(
        [GPU / "run.sh", "--artifacts", artifacts, "--out", tmp_path, "--time", "4",
         "conversions", "kernels"],
        env=os.environ | {"PYTHON": sys.executable, "LD_LIBRARY_PATH": str(SIMULATED)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    for line in child.stdout:
        if line.startswith("  clip:"):
            break
    time.sleep(2)
    child.kill()
    child.wait()
    (path,) = tmp_path.glob("*.json")
    result = json.loads(path.read_text())
    assert [part["status"] for part in result["parts"]] == ["passed", "stopped"]
    assert [row["name"] for row in result["rows"]][:2] == KERNELS[:2]
    assert "| conversions | passed |" in path.with_suffix(".md").read_text()


def test_unknown_parts_are_not_prepared(tmp_path):
    done = run_python("prepare.py", "--out", tmp_path / "out", "what")
    assert done.returncode == 2 and "no part is called what" in done.stderr


@pytest.mark.slow
def test_a_wrong_result_of_a_record_is_reported(artifacts, tmp_path):
    """The simulated driver flips a bit of the first kernel's result. That kernel belongs to
    attention, which runs twice, because its bits must not change."""
    runtime = artifacts / "runtime/lib/libbinade_runtime.so"
    done = subprocess.run(
        [sys.executable, GPU / "records.py", artifacts, tmp_path / "records.json"],
        env=os.environ | {"LD_LIBRARY_PATH": str(SIMULATED), "BINADE_RUNTIME": str(runtime),
                          "BINADE_SIMULATED_KERNELS": str(artifacts / "ir"),
                          "BINADE_SIMULATED_CUDA": "flip_launch=1"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1
    facts = json.loads((tmp_path / "records.json").read_text())["facts"]
    (message,) = facts["records_wrong"]
    first = f"own: {RECORDS[0]}"
    assert message.startswith(f"{first}: ")
    assert message.endswith(": other bits when it runs again")
    wrong = {name: about["wrong"] for name, about in facts["records_checked"].items()}
    assert wrong.pop(first) == 1 and not any(wrong.values())


@pytest.mark.slow
def test_other_parts_run_after_one_fails(artifacts, tmp_path):
    bundle = artifacts / "kernels" / "e4m3.bnd"
    whole = bundle.read_bytes()
    bundle.write_bytes(whole[: len(whole) // 2])
    try:
        done, result = measure(artifacts, tmp_path, "kernels", "models", "--time", 4)
    finally:
        bundle.write_bytes(whole)
    assert done.returncode == 1
    parts = {part["name"]: part for part in result["parts"]}
    assert parts["models"]["status"] == "passed"
    assert parts["kernels"]["status"] == "failed"
    assert "e4m3.bnd" in parts["kernels"]["message"]
    assert [row["name"] for row in result["rows"]] == KERNELS[:2]


@pytest.mark.slow
def test_a_part_stops_at_its_time_limit(artifacts, tmp_path):
    """A kernel hangs, so that the part never ends by itself."""
    done, result = measure(artifacts, tmp_path, "models", "--time", "0.1",
                           BINADE_SIMULATED_CUDA="hang_launch=1")  # fmt: skip
    assert done.returncode == 1
    (part,) = result["parts"]
    assert part["status"] == "stopped"
    assert re.fullmatch(r"not done after \d+ s", part["message"])


@pytest.mark.slow
def test_no_part_begins_after_the_time_of_all(artifacts, tmp_path):
    done, result = measure(artifacts, tmp_path, "models", "--time", "0.0001")
    assert done.returncode == 1
    (part,) = result["parts"]
    assert part["status"] == "stopped" and part["message"] == "no time was left"


@pytest.mark.slow
def test_parts_of_several_runs_are_in_one_file(artifacts, tmp_path):
    for part, row in (("matmuls", MATMULS[0]), ("head", "loss")):
        done, result = measure(artifacts, tmp_path, part, "--only", row)
        assert done.returncode == 0, done.stderr
    assert [part["name"] for part in result["parts"]] == ["head", "matmuls"]
    assert [row["name"] for row in result["rows"]] == ["loss", MATMULS[0]]


@pytest.mark.slow
def test_quick_runs_measure_some_rows(artifacts, tmp_path):
    done, result = measure(artifacts, tmp_path, "--quick", "--time", 4, "steps")
    assert done.returncode == 0, done.stderr
    assert "steps: at most 280 s" in done.stdout  # 4 times 70 s.
    assert [row["name"] for row in result["rows"]] == STEPS


@pytest.mark.parametrize("arguments, message", [
    (["steps"], "has no part steps, only head: prepare it with"),
    (["--only", "hed"], "no row is called hed in head; there are head-gpt2"),
])  # fmt: skip
def test_what_was_not_prepared_is_reported(arguments, message, tmp_path):
    make_runtime(tmp_path, parts=["head"], files=["head/head-gpt2.bnd"])
    done, result = measure(tmp_path, tmp_path / "out", *arguments)
    assert (done.returncode, result) == (1, None)
    assert message in done.stderr


def test_a_missing_runtime_is_reported(tmp_path):
    make_runtime(tmp_path, files=["runtime/bin/binade-run", "runtime/lib/other.so"])
    done, result = measure(tmp_path, tmp_path / "out")
    assert (done.returncode, result) == (1, None)
    assert (
        "1 files of the artifacts are missing, first runtime/lib/other.so"
        in done.stderr
    )


@pytest.mark.slow
def test_a_wrong_bit_of_a_range_expanded_group_is_reported(artifacts, tmp_path):
    path = artifacts / "expansion" / "e4m3x.safetensors"
    whole = path.read_bytes()
    data = safetensors.load(path)
    data = {name: np.array(x) for name, x in data.items()}
    scale = data["scale"].copy()
    scale[3] = np.nextafter(scale[3], np.float32(1))
    safetensors.save(path, data | {"scale": scale})
    try:
        done, result = measure(artifacts, tmp_path, "expansion", "--time", 4)
    finally:
        path.write_bytes(whole)
    assert done.returncode == 1
    (message,) = result["expansion_wrong"]
    assert message.startswith("e4m3x: scale 3 is ")


@pytest.mark.slow
def test_a_wrong_conversion_is_reported(artifacts, tmp_path):
    """The expected value of the byte 0x38 is changed from 1 to 2."""
    path = artifacts / "conversions" / "f8E4M3FN-decode.safetensors"
    whole = path.read_bytes()
    data = safetensors.load(path)
    data["y"] = np.where(data["x"] == 0x38, np.float32(2), data["y"])
    safetensors.save(path, data)
    try:
        done, result = measure(artifacts, tmp_path, "conversions", "--time", 4)
    finally:
        path.write_bytes(whole)
    assert done.returncode == 1
    assert result["conversions_wrong"] == ["f8E4M3FN-decode: 56 became 1.0, not 2.0"]


def test_without_a_device_the_run_fails(tmp_path):
    make_runtime(tmp_path)
    done, result = measure(tmp_path, tmp_path / "out", library_path="")
    assert (done.returncode, result) == (6, None)
    assert "need a CUDA device, and there is none:" in done.stderr
    assert "libcuda.so.1" in done.stderr
    assert "predicted-h100.md" in done.stderr


@pytest.mark.parametrize("arguments, code, message", [
    ([], 1, "has no manifest.json: run benchmarks/gpu/prepare.sh"),
    (["what"], 2, "no part is called what; there are conversions, expansion, "
     "records, models, steps, attention, head, kernels, matmuls, launches, statistics, loop, rates, "
     "autotune"),
    (["--quick", "rates"], 2, "--quick does not run part rates"),
])  # fmt: skip
def test_wrong_arguments_are_reported(arguments, code, message, tmp_path):
    done, result = measure(tmp_path, tmp_path / "out", *arguments)
    assert (done.returncode, result) == (code, None)
    assert message in done.stderr


def test_artifacts_do_not_replace_other_files(tmp_path):
    (tmp_path / "mine").write_text("")
    done = run_python("prepare.py", "--out", tmp_path)
    assert done.returncode == 2 and "has other files" in done.stdout


def predict(folder, *names):
    done = run_python(
        "predict.py", "--tiny", "--only", ",".join(names), "--out", folder
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((folder / "predicted-h100.json").read_text())
    return {row["name"]: row for row in result["rows"]}


@pytest.mark.skipif(not find_ptxas(), reason="no ptxas")
def test_predictions_count_bytes_and_instructions(tmp_path):
    """Checks exact bytes, and a lower and an upper bound for instructions."""
    rows = predict(tmp_path, "adamw", "row", "gpt2-bf16")
    elements = 256 * 512
    # Reads bf16, writes quantized values and scales.
    assert rows["row"]["bytes"] == 3 * elements + 4 * 256
    counted = rows["row"]["per_element"]
    # By each of a row's 32 threads a scale, its reciprocal and a reduction of the warp at
    # half the rate; and half of a conversion of two elements.
    assert counted["special"] == pytest.approx((2 + 1 / 2) * 32 / 512 + 1 / 4, abs=0.02)
    assert 8 < counted["instructions"] < 25
    # Reads and writes the parameter and two states, reads the gradient.
    assert rows["adamw"]["per_element"]["bytes"] == 28
    # A square root and a division. Bias correction multiplies by a reciprocal.
    assert 2 <= rows["adamw"]["per_element"]["special"] < 2.5
    assert rows["adamw"]["ms"] >= 1e3 * rows["adamw"]["bytes"] / 3.35e12
    # A kernel of so small a step takes 1 to 3 us.
    step = rows["gpt2-bf16"]
    assert step["ms"] == pytest.approx(2e-3 * step["records"], rel=0.5)
