"""Compares `binade convert` with other converters on exported models: every graph must be valid
and run, and no other converter's result may be closer to f32.

BINADE_MODELS names a folder of exported training graphs, BINADE_MADE a folder for graphs that
scripts generate on the first run, which takes half an hour.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from support.paths import MODELS, ROOT

MADE = pathlib.Path(os.environ.get("BINADE_MADE", ROOT / "build" / "made-models"))
pytestmark = pytest.mark.skipif(
    not MODELS.is_dir(), reason="BINADE_MODELS names no folder of models"
)
# Tolerated ratio of errors: converters do not sum in the same order.
ROOM = 1.02


def compare(folder, *arguments, **environment):
    """Runs the benchmark; returns the results of each graph, by converter."""
    numbers = folder / "numbers.json"
    command = [sys.executable, ROOT / "benchmarks/convert.py", *arguments]
    subprocess.run(
        [*command, "--json", numbers], check=True, env=os.environ | environment
    )
    return json.loads(numbers.read_text())


def find_nearer(results):
    """Returns the graphs for which another converter is closer to f32. Excludes graphs with
    dropout, whose masks differ from run to run."""
    return [
        name
        for name, result in results["binade"].items()
        if "dropout" not in name
        and any(
            graphs[name].get("error", float("inf")) * ROOM < result["error"]
            for graphs in results.values()
        )
    ]


def check(folder, *arguments):
    results = compare(folder, *arguments)
    for name, result in results["binade"].items():
        assert result.get("valid") and "error" in result, (name, result)
        assert result["error"] < 2.0**-8 or "dropout" in name, name
    # onnxruntime removes casts between f16 nodes, so that it rounds less often than the graphs
    # specify. Binade rounds wherever they do.
    nearer = find_nearer(results)
    if nearer:
        models = {name.split("/")[0] for name in nearer}
        paths = [p if (p := MADE / name).is_dir() else MODELS / name for name in models]
        again = compare(folder, *paths, BINADE_RUNS="1")
        again = {
            tool: {name: graphs[name] for name in nearer}
            for tool, graphs in again.items()
        }
        assert not find_nearer(again)
    return results


def test_no_converter_is_closer_on_a_small_model(tmp_path):
    assert len(check(tmp_path, "mlp-digits")["binade"]) == 4


@pytest.mark.nightly
def test_no_converter_is_closer_on_any_model(tmp_path):
    pytest.importorskip("transformers")  # Most scripts need it.
    MADE.mkdir(parents=True, exist_ok=True)
    assert len(check(tmp_path, "--made", MADE)["binade"]) == 56
