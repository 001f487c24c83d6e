"""Losses of distributed steps are those of PyTorch's DDP on the same model and batches."""

import binade
import pytest
from support import distributed_models, distributed_steps
from support.process_groups import run_processes

STEPS, WORLD = 15, 2
SIZES = {"layers": 1, "context": 16}
# How far losses may be from those of DDP. Gradients of 8 bits are rounded.
FORMATS = {"f32": 1e-4, "exact": 1e-4, "bf16": 2e-3, "e4m3": 2e-2}


@pytest.fixture(scope="module")
def losses(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ddp")
    model, _ = distributed_models.export_char_gpt(folder, **SIZES)
    runs = {"ddp": {"ddp": SIZES, "steps": STEPS}}
    for form in FORMATS:
        path = folder / f"{form}.bnd"
        binade.compile(
            model, accumulate=distributed_models.BATCHES, optimizer="adamw", threads=1,
            settings={"lr": 1e-3}, exchange=form,
        ).write(path)  # fmt: skip
        runs[form] = {"model": str(path), "distribute": {}, "steps": STEPS}
    script, out = distributed_steps.__file__, folder / "found"
    found = run_processes(script, WORLD, {"runs": [*runs.values()]}, out)
    assert all(
        [m["loss"] for m in a["metrics"]] == [m["loss"] for m in b["metrics"]]
        for a, b in zip(*found)
    )
    return {
        name: [metrics["loss"] for metrics in found[0][i]["metrics"]]
        for i, name in enumerate(runs)
    }


@pytest.mark.parametrize("form", FORMATS)
def test_losses_are_those_of_ddp(form, losses):
    expected = losses["ddp"]
    assert expected[-1] < expected[0] - 1
    assert losses[form] == pytest.approx(expected, abs=FORMATS[form])
