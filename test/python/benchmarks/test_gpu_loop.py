"""The part `loop` of benchmarks/gpu binds PyTorch's tensors to updates, here on the CPU."""

import sys

import numpy as np
import pytest
from support.cuda_runs import run
from support.paths import ROOT

torch = pytest.importorskip("torch")
sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

import loop  # noqa: E402
import report  # noqa: E402
from cases import CASES, TINY  # noqa: E402
from kernels import Inputs  # noqa: E402


@pytest.mark.parametrize("name", [one.case for one in loop.LOOPS])
def test_updates_of_tensors_of_pytorch(name, tmp_path):
    """They have the bits of a program with memory of its own, and those of PyTorch."""
    (case,) = [one for one in CASES if one.name == name]
    case.write(tmp_path / "case.mlir", TINY)
    bundle = tmp_path / "case.bnd"
    run("binade", "compile", tmp_path / "case.mlir", *case.options, "-o", bundle)
    values = Inputs(TINY).values()
    update = loop.Update(bundle, "cpu", values)
    assert loop.count_differences(update, bundle, values) == 0
    other = loop.Update(bundle, "cpu", values)
    first = next(iter(values))
    other.tensors["buffer", f"gradient/{first}"].neg_()
    assert loop.count_differences(other, bundle, values) > 0
    if name == "adamw":
        parameters = {
            key: torch.nn.Parameter(torch.from_numpy(value.copy()))
            for key, (value, _) in values.items()
        }
        for key, (_, gradient) in values.items():
            parameters[key].grad = torch.from_numpy(np.ascontiguousarray(gradient))
        settings = {
            key: float(update.tensors["hyper", key]) for key in ("lr", "weight_decay")
        }
        torch.optim.AdamW(parameters.values(), **settings).step()
        for key, parameter in parameters.items():
            torch.testing.assert_close(
                update.tensors["parameter", key],
                parameter.detach(),
                rtol=1e-5,
                atol=1e-7,
            )


def test_the_page_shows_the_rows():
    row = {"part": "loop", "title": "AdamW, f32", "ms": 1.25, "differences": 0,
           "peers": {"torch": {"ratio": 0.9, "quartiles": [0.9, 0.9], "goal": 0.95,
                               "ms": 1.4}}}  # fmt: skip
    assert "| AdamW, f32 | 1.250 |" in report.loops({"rows": [row]})
