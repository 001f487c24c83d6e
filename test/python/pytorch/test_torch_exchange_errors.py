"""What cannot be exchanged in a narrow format is rejected with the name of the module or
parameter, before anything is exchanged. Four processes are simulated.
"""

import copy
import pickle

import binade.torch
import pytest
import torch
import torch.distributed as dist
from binade.errors import UsageError
from binade.torch.gradient_reduction import OrderedReduceScatter
from torch.distributed._composable.replicate_with_fsdp import replicate
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_common import (
    FSDPMeshInfo,
    ShardPlacementResult,
)
from torch.distributed.tensor import Shard
from torch.testing._internal.distributed.fake_pg import FakeStore


@pytest.fixture(autouse=True)
def mesh():
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    yield init_device_mesh("cpu", (4,), mesh_dim_names=("shard",))
    dist.destroy_process_group()


def make_model():
    return torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.LayerNorm(12))


def shard(model, **options):
    for layer in model:
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def test_formats_are_rejected_that_have_no_meaning_here(mesh):
    model = shard(make_model(), mesh=mesh)
    error = "weights are gathered as e4m3-tensor, e4m3-power, e5m2-tensor; got 'e4m3'"
    with pytest.raises(UsageError, match=error):
        binade.torch.set_all_gather_format(model, "e4m3")
    error = "gradients are reduced as f32, bf16, f16, e4m3, e5m2; got 'dyn8'"
    with pytest.raises(UsageError, match=error):
        binade.torch.set_reduce_scatter_format(model, "dyn8")


@pytest.mark.parametrize("call", [
    binade.torch.set_all_gather_format,
    lambda model: binade.torch.set_reduce_scatter_format(model, "e5m2"),
])  # fmt: skip
def test_modules_without_shards_are_rejected(call, mesh):
    with pytest.raises(
        UsageError, match="no parameter of Sequential is sharded by FSDP2"
    ):
        call(make_model())
    with pytest.raises(UsageError, match="expected a module, got list"):
        call([make_model()])


def test_globs_have_to_select_parameters(mesh):
    model = shard(make_model(), mesh=mesh)
    error = "'head.*' selects no parameter; names are such as '0.weight'"
    with pytest.raises(UsageError, match=error.replace("*", r"\*")):
        binade.torch.set_all_gather_format(model, include="head.*")
    with pytest.raises(UsageError, match="no parameter is selected"):
        binade.torch.set_all_gather_format(model, exclude=["0.*", "1.*"])
    with pytest.raises(UsageError, match="no parameter is selected"):
        binade.torch.set_all_gather_format(model[1])


def test_globs_select_any_parameter(mesh):
    model = shard(make_model(), mesh=mesh)
    assert binade.torch.set_all_gather_format(model) == ["0.weight"]
    found = binade.torch.set_all_gather_format(model, include=["*"], exclude="*.bias")
    assert found == ["0.weight", "1.weight"]


def test_a_second_call_changes_the_format(mesh):
    model = shard(make_model(), mesh=mesh)
    binade.torch.set_all_gather_format(model)
    hooks = len(model._forward_pre_hooks)
    binade.torch.set_all_gather_format(model, "e5m2-tensor")
    assert len(model._forward_pre_hooks) == hooks
    gather = model[0].weight._local_tensor.fsdp_pre_all_gather.__self__
    assert gather.form.dtype == torch.float8_e5m2


def test_the_format_is_set_before_the_first_pass(mesh):
    model = shard(make_model(), mesh=mesh)
    model(torch.ones(2, 8))
    with pytest.raises(UsageError, match="parameter 0.weight was gathered before"):
        binade.torch.set_all_gather_format(model)


def test_fewer_processes_after_the_forward_pass_are_rejected(mesh):
    model = shard(make_model(), mesh=mesh, reshard_after_forward=2)
    with pytest.raises(UsageError, match="0.weight is gathered by fewer processes"):
        binade.torch.set_all_gather_format(model)


def test_replicas_are_rejected(mesh):
    model = make_model()
    replicate(model, mesh=mesh)
    with pytest.raises(UsageError, match="module '' .*Sequential.* is replicated"):
        binade.torch.set_reduce_scatter_format(model, "e5m2")
    with pytest.raises(UsageError, match="parameter 0.weight is replicated"):
        binade.torch.set_all_gather_format(model)


def test_other_functions_of_a_parameter_are_not_replaced(mesh):
    model = shard(make_model(), mesh=mesh)
    local = model[0].weight._local_tensor
    local.fsdp_pre_all_gather = local.fsdp_post_all_gather = lambda *given: None
    with pytest.raises(UsageError, match="parameter 0.weight has another all-gather"):
        binade.torch.set_all_gather_format(model)


def test_integers_are_rejected(mesh):
    model = make_model()
    model[0].weight = torch.nn.Parameter(
        torch.ones(12, 8, dtype=torch.int32), requires_grad=False
    )
    shard(model, mesh=mesh)
    with pytest.raises(UsageError, match="parameter 0.weight has the type torch.int32"):
        binade.torch.set_all_gather_format(model)


def test_modules_with_several_groups_are_rejected_by_name(mesh):
    """FSDP2 would raise a ValueError without a name, after it has changed other modules."""
    model = torch.nn.Sequential(make_model(), make_model())
    wide, narrow = (
        FSDPMeshInfo(mesh=init_device_mesh("cpu", (4,)), shard_mesh_dim=0)
        for _ in range(2)
    )
    narrow = FSDPMeshInfo(
        mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))["b"],
        shard_mesh_dim=0,
    )

    def place(parameter):
        info = wide if parameter.dim() == 2 else narrow
        return ShardPlacementResult(Shard(0), info)

    fully_shard(model[1], mesh=mesh)
    fully_shard(model[0], mesh=mesh, shard_placement_fn=place)
    fully_shard(model, mesh=mesh)
    error = r"module '0' \(FSDPSequential\) has 2 parameter groups"
    with pytest.raises(UsageError, match=error):
        binade.torch.set_reduce_scatter_format(model, "e5m2")
    for module in (model[0], model[1]):
        for group in module._get_fsdp_state()._fsdp_param_groups:
            assert not isinstance(group._reduce_scatter_comm, OrderedReduceScatter)


def test_other_reductions_than_sums_are_rejected():
    comm = OrderedReduceScatter("f32")
    values = torch.ones(8)
    with pytest.raises(UsageError, match="reduced by .*MAX.*; expected SUM, AVG"):
        comm(values[:2], values, dist.group.WORLD, dist.ReduceOp.MAX)
    with pytest.raises(UsageError, match="gradients of torch.float64"):
        comm(values[:2].double(), values.double(), dist.group.WORLD, dist.ReduceOp.SUM)
    with pytest.raises(UsageError, match="async_op=True"):
        comm(values[:2], values, dist.group.WORLD, dist.ReduceOp.SUM, async_op=True)


@pytest.mark.parametrize("copied", [
    copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value)),
])  # fmt: skip
def test_copies_of_a_local_part_are_ordinary(copied, mesh):
    model = shard(make_model(), mesh=mesh)
    binade.torch.set_all_gather_format(model)
    local = model[0].weight._local_tensor
    found = copied(local)
    assert torch.equal(found, local)
    if hasattr(found, "fsdp_pre_all_gather"):
        with pytest.raises(UsageError, match="set the format of the copy"):
            found.fsdp_pre_all_gather(None, None, None, None, None)
    optimizer = binade.torch.AdamW(model.parameters(), states="dyn8")
    assert copied(optimizer.state_dict())["param_groups"]
