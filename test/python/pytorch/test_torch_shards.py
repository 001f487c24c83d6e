"""Optimizers of ``binade.torch`` update sharded parameters (DTensors) as one process updates
the whole ones, bit for bit, whatever the mesh.

Processes communicate by gloo. One process with ordinary tensors gives the expected values.
"""

import binade.torch
import pytest
import torch
from binade.errors import RejectedError, UsageError
from binade.torch.devices import Device
from binade.rows import divide
from binade.torch.shards import RowRange, get_local, view_rows
from binade.torch.update import Scaling, Update
from support import process_groups, sharded_steps

NO_SCALING = Scaling(torch.ones(()), torch.zeros(()))
MESHES = [(2, 1), (1, 2), (2, 2)]
SETTINGS = {"lr": 0.01, "weight_decay": 0.1}


def run_processes(given, tmp_path):
    """Returns what each process found."""
    world = given["mesh"][0] * given["mesh"][1]
    folder = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
    return process_groups.run_processes(sharded_steps.__file__, world, given, folder)


def assert_equal(found, expected):
    assert set(found) == set(expected)
    for name, value in expected.items():
        if isinstance(value, list):
            assert found[name] == value
            continue
        a, b = found[name], value
        assert (a.dtype, a.shape) == (b.dtype, b.shape), name
        assert torch.equal(a.contiguous().view(torch.uint8).flatten() if a.dim() else a,
                           b.contiguous().view(torch.uint8).flatten() if b.dim() else b), name  # fmt: skip


FORMATS = {
    "f32": {},
    "dyn8": {"states": "dyn8"},
    "e4m3x": {"states": "e4m3x"},
    "stochastic": {"states": "dyn8:stochastic"},
    "half": {"states": "bf16:stochastic", "master": "stochastic"},
}


@pytest.mark.parametrize("mesh, formats", [
    pytest.param(mesh, formats, marks=[] if mesh == (1, 2) or formats == "dyn8"
                 else pytest.mark.nightly)
    for mesh in MESHES for formats in FORMATS
])  # fmt: skip
def test_states_do_not_depend_on_the_mesh(mesh, formats, tmp_path):
    given = {
        "mesh": mesh, "optimizer": "AdamW", "steps": 3,
        "settings": SETTINGS | FORMATS[formats],
        "dtype": "bfloat16" if formats == "half" else "float32",
    }  # fmt: skip
    expected = sharded_steps.run(given, 0, None)
    if formats in ("dyn8", "stochastic"):
        assert expected["wide exp_avg"].dtype == torch.int8
        assert expected["wide exp_avg.scale"].shape == (6, 4)
        assert expected["tall exp_avg.scale"].shape == (1601, 1)
        assert expected["few exp_avg"].dtype == torch.float32
    for found in run_processes(given, tmp_path):
        assert_equal(found, expected)


@pytest.mark.parametrize("optimizer, mesh", [
    ("AdamW", (1, 2)), ("Muon", (1, 2)),
    pytest.param("AdamW", (2, 2), marks=pytest.mark.nightly),
])  # fmt: skip
def test_states_of_runs_do_not_depend_on_the_mesh(optimizer, mesh, tmp_path):
    """What ``save_state`` writes is what one process writes, and each loads the other's."""
    from binade import safetensors

    given = {
        "optimizer": optimizer,
        "settings": SETTINGS | {"states": "dyn8:stochastic"},
    }
    first = {**given, "steps": 2, "mesh": mesh}
    whole, parts = tmp_path / "whole.safetensors", tmp_path / "parts.safetensors"
    sharded_steps.run({**first, "end": str(whole)}, 0, None)
    run_processes({**first, "end": str(parts)}, tmp_path)
    expected, found = safetensors.load(whole), safetensors.load(parts)
    # What fits into no group of 16 is f32 in shards only.
    same = [name for name in expected if "few" not in name]
    assert any(name.endswith("tall.scale") for name in same)
    for name in same:
        assert found[name].dtype == expected[name].dtype, name
        assert found[name].tobytes() == expected[name].tobytes(), name
    more = {**given, "begin": 2, "steps": 1, "mesh": mesh}
    expected = sharded_steps.run({**more, "start": str(parts)}, 0, None)
    for one in run_processes({**more, "start": str(whole)}, tmp_path):
        assert_equal(one, expected)


@pytest.mark.parametrize("optimizer, settings, mesh", [
    ("LAMB", {"states": "dyn8", "weight_decay": 0.1}, (1, 2)),
    ("AdamW", {"max_update_norm": 0.05, "states": "dyn8:stochastic"}, (1, 2)),
    ("Muon", {"states": "dyn8:stochastic"}, (1, 2)),
    ("Adafactor", {}, (1, 3)),
    ("AdamMini", {"states": "dyn8"}, (1, 2)), ("ScheduleFreeAdamW", {}, (1, 2)),
    pytest.param("Tiger", {}, (1, 3), marks=pytest.mark.nightly),
    pytest.param("Muon", {}, (2, 2), marks=pytest.mark.nightly),
    pytest.param("LAMB", {"always": 1.0}, (2, 2), marks=pytest.mark.nightly),
    pytest.param("LARS", {}, (1, 2), marks=pytest.mark.nightly),
    pytest.param("TigerSGD", {}, (1, 2), marks=pytest.mark.nightly),
])  # fmt: skip
def test_norms_of_parameters_do_not_depend_on_the_mesh(
    optimizer, settings, mesh, tmp_path
):
    given = {
        "mesh": mesh, "optimizer": optimizer, "steps": 3, "overflow": [1, 0],
        "settings": {"lr": 0.01, **settings},
    }  # fmt: skip
    expected = sharded_steps.run(given, 0, None)
    assert expected["skipped"] == [False, True, False]
    for found in run_processes(given, tmp_path):
        assert_equal(found, expected)


@pytest.mark.parametrize("more", [
    {"mesh": (2, 2), "axes": 2}, {"mesh": (1, 2), "sums": ["one", "few", "tall"]},
], ids=["two axes", "sums"])  # fmt: skip
def test_other_placements(more, tmp_path):
    """Two axes of a mesh shard; a gradient has other placements than its parameter."""
    given = {
        "optimizer": "Lion", "steps": 2,
        "settings": {"lr": 0.01, "states": "dyn8:stochastic"},
    }  # fmt: skip
    expected = sharded_steps.run(given, 0, None)
    for found in run_processes({**given, **more}, tmp_path):
        assert_equal(found, expected)


def test_a_process_may_lack_a_gradient(tmp_path):
    given = {"mesh": (1, 2), "optimizer": "AdamW", "steps": 3, "settings": SETTINGS}
    expected = sharded_steps.run(given, 0, None)
    ends = []
    for found in run_processes({**given, "missing": [1, "*"]}, tmp_path):
        ends.append([int(found["wide step"]), found["skipped"]])
    assert ends == [[3, [False] * 3]] * 2
    for found in run_processes({**given, "missing": [1, "wide"]}, tmp_path):
        assert torch.equal(found["wide"][3:], expected["wide"][3:])
        assert not torch.equal(found["wide"][:3], expected["wide"][:3])
        assert torch.equal(found["tall"], expected["tall"])


@pytest.mark.parametrize("rank", [0, 1])
def test_no_process_updates_if_one_overflows(rank, tmp_path):
    given = {
        "mesh": (1, 2), "optimizer": "AdamW", "steps": 3,
        "settings": SETTINGS | {"states": "dyn8"},
    }  # fmt: skip
    found = run_processes(given | {"overflow": [1, rank]}, tmp_path)
    expected = sharded_steps.run(given | {"overflow": [1, 0]}, 0, None)
    assert expected["skipped"] == [False, True, False]
    for one in found:
        assert_equal(one, expected)


def test_checkpoints_of_four_processes_are_loaded_by_others(tmp_path):
    given = {
        "optimizer": "AdamW", "steps": 2,
        "settings": SETTINGS | {"states": "dyn8:stochastic", "master": "none"},
    }  # fmt: skip
    expected = sharded_steps.run({**given, "steps": 4}, 0, None)
    saved = str(tmp_path / "saved")
    run_processes({**given, "mesh": (1, 4), "save": saved}, tmp_path)
    later = {**given, "begin": 2, "load": saved}
    for mesh in ((1, 1), (1, 2), (1, 3)):
        for found in run_processes({**later, "mesh": mesh}, tmp_path):
            assert_equal(found, {**expected, "skipped": [False, False]})
    assert_equal(
        sharded_steps.run(later, 0, None), {**expected, "skipped": [False] * 2}
    )


@pytest.mark.parametrize("scaled, overflow", [
    (False, None), (True, None), (True, [1, 1]),
], ids=["plain", "scaled", "overflow"])  # fmt: skip
def test_fsdp2_trains_as_with_the_optimizer_of_pytorch(scaled, overflow, tmp_path):
    given = {"mesh": (1, 2), "steps": 5, "settings": SETTINGS, "scaled": scaled}
    if overflow:
        given["overflow"] = overflow
    ours = run_processes({**given, "optimizer": "AdamW"}, tmp_path)
    theirs = run_processes({**given, "optimizer": "torch.AdamW"}, tmp_path)
    for found, expected in zip(ours, theirs, strict=True):
        assert found["scale"] == expected["scale"]
        assert found["losses"] == pytest.approx(expected["losses"], rel=1e-6)
        for name, value in expected.items():
            if isinstance(value, torch.Tensor):
                # The order of operations differs in the last bits of an update.
                torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("placement, error", [
    ("column", r"parameter 0.0 is distributed as S\(1\).*; expected Shard\(0\)"),
    ("muon", "parameter '0.0' is sharded, and .* the whole: 'muon' computes products"),
])  # fmt: skip
def test_what_needs_whole_parameters_is_rejected(placement, error, tmp_path):
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard as Split
    from torch.distributed.tensor import distribute_tensor

    dist.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        mesh = init_device_mesh("cpu", (1,))
        axis = 1 if placement == "column" else 0
        value = distribute_tensor(torch.ones(4, 64), mesh, [Split(axis)])
        given = {}
        rule = placement if placement == "muon" else "adamw"
        if placement == "muon":  # Gathered, but not to the host.
            given = {"offload": True}
        with pytest.raises((UsageError, RejectedError), match=error):
            binade.torch.Optimizer([torch.nn.Parameter(value)], rule, **given)
    finally:
        dist.destroy_process_group()


def test_rows_are_divided_as_torch_chunk_does():
    for rows in (1, 2, 7, 256, 257, 1601):
        whole = torch.arange(rows)
        for parts in (1, 2, 3, 5, 64, 256, 257):
            chunks = [*whole.chunk(parts)]
            chunks += [whole[:0]] * (parts - len(chunks))
            for index, chunk in enumerate(chunks):
                begin, count = divide(rows, parts, index)
                assert torch.equal(whole[begin : begin + count], chunk)


def update_rows(value, gradients, shard, states):
    """Returns the parameter and states of the rows of one virtual process."""
    rows = value[shard.first : shard.first + shard.rows].clone()
    first = min(shard.first, shard.whole - 1)
    local = get_local(rows, shard)
    update = Update(
        {"0.0": local}, Device(local.device), masters={"0.0": "stochastic"},
        attributes={"0.0": f"binade.shard = array<i64: {first}, {shard.whole}>"},
        optimizer="adamw", states=states, settings={"lr": 0.01},
    )  # fmt: skip
    for gradient in gradients:
        own = get_local(gradient[shard.first : shard.first + shard.rows], shard)
        update.run({"0.0": local}, {"0.0": own}, NO_SCALING)
    found = {"parameter": local} | {
        key: view_rows(state, value, shard)
        for key, state in update.states["0.0"].items()
    }
    return {key: state[: shard.rows] for key, state in found.items()}


@pytest.mark.parametrize("parts", [
    2, 3, 7, 11, pytest.param(64, marks=pytest.mark.nightly),
    pytest.param(257, marks=pytest.mark.nightly),
])  # fmt: skip
@pytest.mark.parametrize("shape", [(9, 33, 16), (200, 48)])
def test_virtual_processes_compute_the_bits_of_one(shape, parts):
    torch.manual_seed(0)
    value = torch.randn(shape).bfloat16()
    gradients = [torch.randn(shape).bfloat16() for _ in range(2)]
    states = "dyn8:stochastic"
    whole = RowRange(0, shape[0], shape[0])
    expected = update_rows(value, gradients, whole, states)
    assert expected["exp_avg"].dtype == torch.int8
    found = [
        update_rows(
            value, gradients, RowRange(*divide(shape[0], parts, i), shape[0]), states
        )
        for i in range(parts)
    ]
    for name, whole_state in expected.items():
        assert torch.equal(torch.cat([one[name] for one in found]), whole_state), name
