"""The experiments of docs/Underflow.md: the tables of the page, the counts, and two runs.

The model clip-tiny is not in the repository; BINADE_MODELS names the folder with it.
"""

import re

import numpy as np
import pytest
from support.paths import ROOT
from support.underflow_runs import (
    clamp,
    epsilon,
    lost,
    needs_models,
    regimes,
    underflow,
    underflow_report,
)


def test_page_has_the_tables_of_the_runs():
    page = (ROOT / "docs/Underflow.md").read_text()
    tables = underflow_report.make_tables(underflow_report.read())
    assert set(tables) == set(underflow.ALL)
    for regime, text in tables.items():
        assert text in page, f"{regime}: underflow.py --all prints another table"


@pytest.mark.parametrize("experiment", [clamp, epsilon])
def test_page_has_the_tables_of_other_experiments(experiment):
    page = (ROOT / "docs/Underflow.md").read_text()
    assert experiment.make_table(experiment.read()) in page, experiment.__name__


def test_count_of_lost_elements():
    """Counts elements that are 0 in f16 only: 3 of 9 nonzero ones of `a`, none of `b`."""
    wide = {"a": np.arange(10.0), "b": np.full(20, -(2.0**-30))}
    own = {"a": np.where(np.arange(10) < 4, 0.0, np.inf), "b": np.ones(20)}
    found = lost.count(wide, own)
    assert found["lost"] == 3 / 29
    assert [found[f"flagged {s:g}"] for s in lost.SHARES] == [0.5, 0.5, 0.0]
    assert found["worst"] == 3 / 9
    assert found["log2 largest"] == np.log2(9)
    assert found["log2 lowest 1 %"] == -30
    assert (lost.select("x.qkv.bias", np.arange(6)) == [0, 1, 4, 5]).all()


def test_a_missing_model_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(regimes, "MODELS", tmp_path)
    with pytest.raises(SystemExit, match=re.escape(f"{tmp_path}/clip-tiny: expected")):
        underflow.train(tmp_path, "natural", "fp32", 0)


@needs_models
def test_hard_batches_lower_the_scale(tmp_path, monkeypatch):
    """The scale is halved in each of ten steps, as in PyTorch. bf16 skips no step: it has
    no loss scale, and would stop at a gradient that is not finite."""
    short = regimes.Regime(60, 1e-4, 20, hard=1024, first=21)
    monkeypatch.setitem(regimes.REGIMES, "short", short)
    run = underflow.train(tmp_path, "short", "torch-cuda-fp16", 0)
    assert run["skipped"] == list(range(21, 31))
    assert run["log2 scale"] == [[1, 16.0], *([22 + i, 15.0 - i] for i in range(10))]
    assert [record[1] for record in run["records"]] == [0, 1, 0, 0, 0]
    run = underflow.train(tmp_path, "short", "bf16-amp", 0)
    assert run["skipped"] == [] and run["log2 scale"] == []


@needs_models
@pytest.mark.nightly
def test_collapse_of_training_in_f16(tmp_path):
    """Trains from the start. Results match PyTorch's within the variation of seeds."""
    expected = underflow_report.PYTORCH["memo-raw.fp16-amp"]
    run = underflow.train(tmp_path, "memo-raw", "fp16-amp", 0)
    assert run["skipped"] == list(range(301, 311))
    found = underflow_report.summarize(run)
    assert found[:2] == expected[:2]
    np.testing.assert_allclose(found[2:6], expected[2:6], rtol=0.5, atol=0.01)
    run = underflow.train(tmp_path, "memo-raw", "bf16-amp", 0)
    assert run["skipped"] == [] and run["after"]["lost"] == 0
    assert run["peak loss"] > 10 and run["last 100"]["loss"] < 1e-3
