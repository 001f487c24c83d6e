"""``options={"clip": N}``: gradients are clipped by the norm of all of them, whose bits do not
depend on the mesh."""

import binade.torch
import pytest
import torch
from binade.errors import UsageError
from binade.torch.devices import Device
from binade.torch.norms import NormClipping
from binade.torch.update import Scaling, Update
from support import process_groups, sharded_steps

CPU = Device(torch.device("cpu"))
ONE = torch.ones(())


@pytest.mark.parametrize("optimizer, mesh, more", [
    ("AdamW", (1, 2), {}),
    ("LAMB", (1, 3), {"missing": [2, "wide"]}),
    ("Muon", (1, 3), {"sums": ["tall", "few"]}),
    ("SGD", (2, 2), {}),
])  # fmt: skip
def test_clipping_does_not_depend_on_the_mesh(optimizer, mesh, more, tmp_path):
    given = {
        "optimizer": optimizer, "steps": 3, "overflow": [1, 0],
        "settings": {"lr": 0.01, "options": {"clip": 3.0}},
    }  # fmt: skip
    expected = sharded_steps.run(given, 0, None)
    assert expected["skipped"] == [False, True, False]
    without = given | {"settings": {"lr": 0.01}}
    assert not torch.equal(
        sharded_steps.run(without, 0, None)["wide"], expected["wide"]
    )
    given |= {"mesh": mesh, **more}
    world = mesh[0] * mesh[1]
    parts = process_groups.run_processes(sharded_steps.__file__, world, given, tmp_path)
    for found in parts:
        assert found["skipped"] == expected["skipped"]
        for name, value in found.items():
            assert name == "skipped" or torch.equal(value, parts[0][name]), name
            if isinstance(value, torch.Tensor) and "missing" not in more:
                assert torch.equal(value, expected[name]), name


def make_parameters():
    torch.manual_seed(0)
    shapes = [(6, 33), (5,), (), (0, 3), (2, 3, 4)]
    return [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e25])
def test_clipping_is_that_of_pytorch(size):
    ours, theirs = make_parameters(), make_parameters()
    mine = binade.torch.SGD(ours, lr=0.5, momentum=0.9, options={"clip": 0.1})
    other = torch.optim.SGD(theirs, lr=0.5, momentum=0.9)
    for step in range(3):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn(a.shape) * size
            b.grad = a.grad.clone() if size < 2 else a.grad * 1e-20
            if step == 1 and a.dim() == 1:
                a.grad = b.grad = None
        mine.step()
        norm = torch.nn.utils.clip_grad_norm_([b for b in theirs], 0.1)
        if size > 2:
            assert norm > 0.1  # A factor changes no direction.
        other.step()
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    assert not mine.skipped


def test_a_scaler_divides_before_clipping():
    ours, theirs = make_parameters(), make_parameters()
    for parameters, scale in ((ours, 1.0), (theirs, 1024.0)):
        optimizer = binade.torch.AdamW(parameters, lr=0.1, options={"clip": 0.01})
        optimizer.grad_scale = torch.tensor(scale)
        optimizer.found_inf = torch.tensor(0.0)
        torch.manual_seed(1)
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape) * scale
        optimizer.step()
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b)


def test_percentiles_are_applied_first():
    parameter = torch.nn.Parameter(torch.zeros(8))
    settings = {"lr": 1.0, "percentile_clipping": 50}
    optimizer = binade.torch.SGD([parameter], options={"clip": 1.0}, **settings)
    before = parameter.detach().clone()
    for size in (0.25, 100.0, 0.125):
        parameter.grad = torch.full((8,), size)
        optimizer.step()
        change = (before - parameter.detach()).norm().item()
        before = parameter.detach().clone()
        # A norm of 100 * sqrt(8) becomes the first one, which is below the limit.
        assert change == pytest.approx(min(size, 0.25) * 8**0.5, rel=1e-5)


@pytest.mark.parametrize(
    "shape", [(7, 1024), (9,), (4, 100000), (3, 5, 99991), (5, 65538)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_of_rows_do_not_depend_on_other_rows(shape, dtype):
    torch.manual_seed(0)
    gradient = torch.randn(shape).to(dtype)
    expected = gradient.double().square().flatten(1).sum(1) if len(shape) > 1 else None
    sums = {}
    for rows in (shape[0], 1, 2, 3):
        for threads in (1, 2):
            clipping = NormClipping(1.0, {"0.0": gradient[:rows]}, {}, CPU, threads)
            clipping.update({"0.0": gradient[:rows]}, {}, ONE)
            found = clipping._own["0.0"]
            sums.setdefault(0, found)
            assert torch.equal(found, sums[0][:rows]), (rows, threads)
    if expected is not None:
        torch.testing.assert_close(sums[0], expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("length", [1024, 16384, 100000, 99991 * 5])
def test_norms_of_rules_do_not_depend_on_other_rows(length):
    torch.manual_seed(0)
    value, gradient = torch.randn(2, 4, length)
    sums = {}
    for rows in (4, 3, 2, 1):
        update = Update(
            {"0.0": value[:rows]}, CPU, masters={"0.0": "none"}, optimizer="lamb",
            attributes={"0.0": "binade.shard = array<i64: 0, 8>"}, settings={"lr": 0.01},
        )  # fmt: skip
        given = {"0.0": gradient[:rows]}
        update.sum_rows({"0.0": value[:rows]}, given, Scaling(ONE, torch.zeros(())))
        for number, found in update.row_sums["0.0"].items():
            expected = sums.setdefault(number, found.own)
            assert torch.equal(found.own, expected[:rows]), (number, rows)
    assert len(sums) == 2


@pytest.mark.parametrize("clip", [-1.0, "1", True, float("nan")])
def test_a_wrong_limit_is_rejected(clip):
    with pytest.raises(UsageError, match="clip is the largest norm, or 0 for none"):
        binade.torch.SGD(make_parameters(), options={"clip": clip})
