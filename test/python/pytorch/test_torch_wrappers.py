"""Names of parts and parameters of a module do not depend on its wrappers."""

import binade.torch
import pytest
import torch
import torch.distributed as dist
from binade import safetensors
from binade.torch.monitoring.arguments import list_parameters
from binade.torch.monitoring.modules import list_modules
from binade.torch.wrappers import get_wrapped, make_cleaner, unwrap
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    checkpoint_wrapper,
    offload_wrapper,
)


class Part(torch.nn.Module):
    """Its own part has the name of an attribute of wrappers."""

    def __init__(self):
        super().__init__()
        self.module = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.module(x)


class Model(torch.nn.Module):
    def __init__(self, wrap):
        super().__init__()
        self.first = wrap(Part())
        self.norm = torch.nn.BatchNorm1d(4)
        self.layers = torch.nn.Sequential(wrap(torch.nn.Linear(4, 4)), torch.nn.GELU())

    def forward(self, x):
        return self.layers(self.norm(self.first(x)))


def keep(module):
    return module


def compile(module):
    return torch.compile(module, backend="eager")


def shard(module):
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(
        module, device_id=torch.device("cpu"), use_orig_params=True
    )


WRAPPERS = {
    "compile": compile,
    "checkpoint": checkpoint_wrapper,
    "offload": offload_wrapper,
    "DataParallel": torch.nn.DataParallel,
    "DistributedDataParallel": torch.nn.parallel.DistributedDataParallel,
    "FSDP": shard,
    "several": lambda m: compile(checkpoint_wrapper(torch.nn.DataParallel(m))),
    "twice": lambda m: torch.nn.DataParallel(torch.nn.DataParallel(m)),
}


@pytest.fixture(scope="module", autouse=True)
def group(tmp_path_factory):
    store = tmp_path_factory.mktemp("group") / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_names_are_those_of_the_user(wrapper):
    wrap = WRAPPERS[wrapper]
    plain = Model(keep)
    names = [name for name, _ in plain.named_parameters()]
    for model in (Model(wrap), wrap(Model(keep)), wrap(Model(wrap))):
        clean = make_cleaner(model)
        assert [clean(name) for name, _ in model.named_parameters()] == names
        assert [clean(name) for name in model.state_dict()] == [*plain.state_dict()]
        assert [name for name, _ in list_parameters(model)] == names
        assert isinstance(unwrap(model), Model)
    assert get_wrapped(plain) is None


@pytest.mark.parametrize("wrapper", ["checkpoint", "offload", "DataParallel"])
def test_a_wrapped_module_is_one_layer(wrapper):
    wrap = WRAPPERS[wrapper]
    expected = [name for name, _ in list_modules(Model(keep))]
    assert [name for name, _ in list_modules(Model(wrap))] == expected
    assert [name for name, _ in list_modules(wrap(Model(wrap)))] == expected


def test_compiled_parts_are_one_layer():
    names = [name for name, _ in list_modules(Model(compile))]
    assert names == ["model", "first", "norm", "layers", "layers.0", "layers.1"]


def record(wrap):
    torch.manual_seed(0)
    model = Model(wrap)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kinds = "weight,input,output,gradient,output_gradient:norm"
    with binade.torch.monitor(model, optimizer, statistics=kinds) as watch:
        model(torch.ones(3, 4)).square().sum().backward()
        optimizer.step()
        return dict(watch.statistics)


@pytest.mark.parametrize("wrapper", ["checkpoint", "DataParallel"])
def test_the_monitor_records_the_same_layers(wrapper):
    expected = record(keep)
    found = record(WRAPPERS[wrapper])
    assert found == expected
    assert any("first.module" in str(key) for key in found)


@pytest.mark.parametrize(
    "wrapper", ["compile", "checkpoint", "DataParallel", "several"]
)
def test_states_have_the_names_of_the_user(wrapper, tmp_path):
    wrap = WRAPPERS[wrapper]
    for name, own in (("plain", keep), ("wrapped", wrap)):
        torch.manual_seed(0)
        model = own(Model(own))
        optimizer = binade.torch.AdamW(model.parameters(), lr=0.1)
        path = tmp_path / f"{name}.safetensors"
        binade.torch.save_state(path, model, optimizer)
    found = safetensors.load(tmp_path / "wrapped.safetensors")
    assert set(found) == set(safetensors.load(tmp_path / "plain.safetensors"))
