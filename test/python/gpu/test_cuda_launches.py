"""Plans for GPUs have few launches of few elements: independent ones are one launch."""

import json
import math

import pytest
from support.reference import ROOT, binade

MINI = ROOT / "examples/char-gpt/mini.onnx"
# Elements of the largest operand of a launch that takes less time than it takes to start.
FEW = 1 << 15


def compile_plan(policy, folder):
    path = folder / "mini.json"
    done = binade("compile", MINI, "--policy", policy, "--optimizer=adamw", "--target",
                  "cuda:sm_90", "--to=plan", "-o", path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text())


def list_launches(plan):
    return [record for record in plan["records"] if record["kind"] == "launch"]


def count_elements(plan, segment):
    """Of the largest operand."""
    shapes = (plan["buffers"][view["buffer"]]["shape"] for view in segment["operands"])
    return max(map(math.prod, shapes))


@pytest.mark.parametrize("policy", ["coat", "fp8-current", "fp8-delayed"])
def test_scales_take_few_launches(policy, tmp_path):
    """A tensor that is quantized needs its amax, its scale in two formats, and its codes:
    four launches for each, if each of them were one."""
    plan = compile_plan(policy, tmp_path)
    matmuls = [r for r in plan["records"] if "lhs_scale" in r]
    quantized = {
        r[side]["buffer"] for r in matmuls for side in ("lhs_scale", "rhs_scale")
    }
    assert len(quantized) > 10
    small = [
        record
        for record in list_launches(plan)
        if all(count_elements(plan, s) <= FEW for s in record["segments"])
    ]
    assert len(small) < len(quantized)


def test_kernels_of_several_segments_are_launched_once(tmp_path):
    plan = compile_plan("coat", tmp_path)
    batched = [r for r in list_launches(plan) if len(r["segments"]) > 1]
    names = {r["kernel"] for r in batched}
    assert any(name.startswith("reduce_max_choose_scale") for name in names)
    assert any(name.startswith("encode_transpose") for name in names)
    for record in batched:
        written = [s["operands"][-1] for s in record["segments"]]
        assert len({json.dumps(view) for view in written}) == len(written)
