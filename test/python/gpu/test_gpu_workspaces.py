"""The workspace that a plan reserves for the gradients of attention by cuDNN."""

import json
import sys

import pytest
from support.cuda_runs import run
from support.gpu_benchmarks import GPU

sys.path.insert(0, str(GPU))

from contraction_modules import Attention  # noqa: E402

MIB = 1 << 20
FIXED = 1024  # Bytes of any call.
MOST = 1152 * MIB


def count_bytes(batch, heads, groups, rows, columns):
    """What cuDNN 9.19 was measured to need for all heads: for each block of 128 keys, or of 256
    if a head has more than 64 columns, the gradients of all queries in f32, and a number for
    each query; with groups, the gradients of keys and values of each head in 16 bits, too."""
    width = 64 if columns <= 64 else 128
    blocks = -(-rows // (2 * width))
    head = 4 * (blocks * rows * width + rows)
    if groups != heads:
        head += 2 * 2 * rows * columns
    return batch * heads * head


def find_workspace(folder, chip, shape):
    """Returns the bytes that the plan reserves, 0 without workspace."""
    source, path = folder / "attention.mlir", folder / "plan.json"
    Attention("attention", "", shape=shape, isBackward=True).write(source)
    run(
        "binade",
        "compile",
        source,
        f"--target=cuda:{chip}",
        "--from=materialize",
        "--to=plan",
        "-o",
        path,
    )
    plan = json.loads(path.read_text())
    (record,) = [r for r in plan["records"] if r["kind"] == "attention"]
    scratch = record.get("library_scratch")
    if not scratch:
        return 0
    buffer = plan["buffers"][scratch["buffer"]]
    assert buffer["offset"] + buffer["bytes"] <= plan["arena_bytes"]
    return buffer["bytes"]


@pytest.mark.parametrize("shape, parts, mib", [
    ((32, 12, 12, 1024, 64), 2, 385),  # GPT-2
    ((8, 32, 8, 2048, 64), 2, 1089),  # Llama
    ((8, 16, 16, 2048, 128), 2, 513),
    # All heads at once would need more than is allowed.
    ((16, 32, 8, 2048, 64), 4, 1089),
])  # fmt: skip
def test_gradients_are_divided_into_parts(shape, parts, mib, tmp_path):
    """In more parts they would take more than an eighth longer."""
    found = find_workspace(tmp_path, "sm_90", shape)
    assert found == -(-count_bytes(*shape) // parts) + FIXED <= MOST
    assert round(found / MIB) == mib


def test_heads_that_share_keys_are_not_divided(tmp_path):
    """Two parts would take less than an eighth longer, but there is one group in one sample."""
    shape = (1, 32, 1, 4096, 64)
    assert find_workspace(tmp_path, "sm_90", shape) == count_bytes(*shape) + FIXED


@pytest.mark.parametrize("shape", [
    (2, 4, 4, 80, 16),  # Kernels of few columns have little to multiply.
    (1, 1, 1, 1024, 32),
])  # fmt: skip
def test_nothing_is_reserved_if_the_kernels_are_as_fast(shape, tmp_path):
    assert find_workspace(tmp_path, "sm_90", shape) == 0


def test_nothing_is_reserved_if_one_head_needs_more_than_is_allowed(tmp_path):
    shape = (1, 1, 1, 65536, 64)
    assert count_bytes(*shape) > MOST
    assert find_workspace(tmp_path, "sm_90", shape) == 0


@pytest.mark.parametrize("chip", ["sm_80", "sm_89", "sm_100"])
def test_nothing_is_reserved_for_chips_without_deterministic_gradients(chip, tmp_path):
    assert find_workspace(tmp_path, chip, (32, 12, 12, 1024, 64)) == 0
