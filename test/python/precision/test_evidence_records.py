"""`binade train --record ranges=FILE` records the ranges of values of a run."""

import collections
import json
import math

import numpy as np
import pytest
from support.evidence_runs import WEIGHT, record, steps_of, train
from support.reference import (
    ONE_WEIGHT,
    binade,
    safetensors,
    write_model,
)

pytest.importorskip("onnx")

F32 = np.float32


def expected_range(values):
    values = np.asarray(values, F32)
    found = np.abs(values[values != 0].astype(np.float64))
    exponents = collections.Counter(math.floor(math.log2(v)) for v in found)
    return {
        "count": values.size, "zeros": int(np.sum(values == 0)), "nonfinite": 0,
        "amax": np.max(found), "smallest": np.min(found),
        "exponents": {str(e): n for e, n in sorted(exponents.items())},
    }  # fmt: skip


@pytest.fixture
def x():
    x = np.random.default_rng(1).standard_normal((10, 4)).astype(F32)
    x[3] = 0
    return (x * np.logspace(-10, 0, 10)[:, None]).astype(F32)


def compare(found, expected, tolerance=1e-5):
    found = {value.pop("value"): value for value in found["values"]}
    for name, values in expected.items():
        range, wanted = found[name], expected_range(values)
        for key in ("amax", "smallest"):
            assert range.pop(key) == pytest.approx(wanted.pop(key), rel=tolerance)
        assert range == wanted, name


def test_recorded_ranges_match_numpy(x, tmp_path):
    ranges = record(tmp_path, x)
    assert (ranges["policy"], ranges["steps"]) == ("fp32", 5)
    compare(ranges, steps_of(x))


def test_a_bundle_compiled_with_record_records_ranges(x, tmp_path):
    model = write_model(tmp_path, ONE_WEIGHT, ["weight"], WEIGHT)
    for flags in [("--record", "ranges"), ()]:
        done = binade("compile", model, "--optimizer", "sgd", *flags, "-o",
                      tmp_path / "step.bnd")  # fmt: skip
        assert done.returncode == 0, done.stderr
        done = train(tmp_path, x, model=tmp_path / "step.bnd")
        if flags:
            assert done.returncode == 0, done.stderr
            compare(json.loads((tmp_path / "ranges.json").read_text()), steps_of(x))
    assert done.returncode == 2
    assert "compile it with --record ranges" in done.stderr


def test_gradients_are_recorded_without_the_loss_scale(x, tmp_path):
    policy = tmp_path / "scaled.yaml"
    policy.write_text("{name: p, narrow: f32, wide: f32, loss_scale: {init: 4096}}")
    plain = record(tmp_path, x)
    scaled = record(tmp_path, x, "--policy", policy, record="scaled.json")
    assert plain["values"] == scaled["values"]


def test_recording_changes_no_bit_of_the_run(x, tmp_path):
    record(tmp_path, x, lr=0.5)
    recorded = safetensors.load(tmp_path / "run" / "final.safetensors")
    done = binade("train", tmp_path / "model.onnx", "--data",
                  tmp_path / "data.safetensors", "--order", "sequential", "--steps", 5,
                  "--lr", 0.5, "--optimizer", "sgd", "--out", tmp_path / "plain")  # fmt: skip
    assert done.returncode == 0, done.stderr
    plain = safetensors.load(tmp_path / "plain" / "final.safetensors")
    assert plain.keys() == recorded.keys()
    for name, value in plain.items():
        np.testing.assert_array_equal(value, recorded[name])


def test_recorded_ranges_are_kept_when_a_non_finite_loss_ends_the_run(x, tmp_path):
    x[6] = np.inf
    done = train(tmp_path, x, "--optimizer", "sgd")
    assert done.returncode == 4, done.stderr
    assert json.loads((tmp_path / "ranges.json").read_text())["steps"] == 3


def test_record_needs_a_kind(x, tmp_path):
    safetensors.save(tmp_path / "data.safetensors", {"x": x})
    done = binade("train", write_model(tmp_path, ONE_WEIGHT, ["weight"], WEIGHT), "--data",
                  tmp_path / "data.safetensors", "--steps", 1, "--out", tmp_path / "run",
                  "--record", "file.json")  # fmt: skip
    assert done.returncode == 2
    assert "--record expects ranges=FILE, got 'file.json'" in done.stderr
