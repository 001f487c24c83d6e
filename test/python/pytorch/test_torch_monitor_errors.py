"""What `binade.torch.monitor` rejects, and what it says."""

import logging

import binade.torch
import pytest
import torch
from binade.errors import UsageError
from support.loop_values import take_step, watching
from support.torch_loops import make_batch, make_module


def make():
    module = make_module()
    return module, torch.optim.SGD(module.parameters(), lr=0.1)


@pytest.mark.parametrize("statistics, message", [
    ("weight", "expected kinds of values"),
    ("weigth:norm", "no kind of values is called 'weigth'; did you mean 'weight'"),
    ("weight:norn", "no statistic is called 'norn'; did you mean 'norm'"),
    ("weight:norm@every=0", "expected @every=N"),
    ("weight:norm;loss:mean", "must not contain ';'"),
    (3, "statistics is a text or a list of texts, got 3"),
    ("saved:norm", "no values of kind 'saved': PyTorch does not name"),
    ("history:excess", "no values of kind 'history'"),
    ("scale:max", "the argument 'scaler' is missing"),
    ("weight:sqnr", "no value of a loop has 'sqnr': .*capture"),
    ("output:lost", "only values of kind 'weight' and 'narrow_weight' have 'lost'"),
    ("gradient,output:update_ratio", "only values of kind 'weight'"),
])  # fmt: skip
def test_requests(statistics, message):
    with pytest.raises(UsageError, match=message):
        watching(*make(), statistics)


@pytest.mark.parametrize("statistics", ["state:norm", "weight:lost", "*:update_ratio"])
def test_requests_that_need_an_optimizer(statistics):
    with pytest.raises(UsageError, match="the argument 'optimizer' is missing"):
        watching(make_module(), None, statistics)


@pytest.mark.parametrize("options, message", [
    ({"every": 0}, "every is a whole number from 1 on, got 0"),
    ({"step": -1}, "step is a whole number from 0 on, got -1"),
    ({"on_alarm": "switch:bf16-amp"}, "expected 'warn' or 'stop'"),
    ({"scaler": 1024.0}, "scaler is a torch.amp.GradScaler or None, got float"),
    ({"alarms": 3}, "alarms is a text or a list of texts"),
])  # fmt: skip
def test_arguments(options, message):
    with pytest.raises(UsageError, match=message):
        binade.torch.monitor(*make(), **options)


def test_models_and_optimizers():
    module, optimizer = make()
    with pytest.raises(
        UsageError, match="the model is a torch.nn.Module, got function"
    ):
        binade.torch.monitor(make, optimizer)
    with pytest.raises(UsageError, match="torch.optim.Optimizer, got Module"):
        binade.torch.monitor(module, torch.nn.Module())
    with pytest.raises(UsageError, match="updates none of the model's parameters"):
        binade.torch.monitor(module, make()[1])
    with pytest.raises(
        UsageError, match="wrapped by DataParallel; monitor model.module"
    ):
        binade.torch.monitor(torch.nn.DataParallel(module), optimizer)
    with pytest.raises(UsageError, match="optimizer.step\\(\\) ends a step"):
        watching(module, optimizer, "weight:norm").step()


def test_a_scaler_that_is_not_enabled():
    off = torch.amp.GradScaler("cpu", enabled=False)
    with pytest.raises(
        UsageError, match="'scaler' is a GradScaler that is not enabled"
    ):
        watching(*make(), "scale:max", scaler=off)


def test_a_lazy_module():
    module = torch.nn.LazyLinear(3)
    with pytest.raises(UsageError, match="'weight' has no shape .*call the model once"):
        watching(module, None, "weight:norm")
    module(torch.zeros(2, 4))
    watching(module, None, "weight:norm").close()


def find_warnings(caplog):
    return [one.getMessage() for one in caplog.records if "alarm" in one.getMessage()]


def test_default_alarms_skip_what_they_cannot_watch(caplog):
    """A user who requests nothing gets a warning, and no error."""
    with caplog.at_level(logging.WARNING, logger="binade"):
        meta = torch.nn.Linear(2, 2, device="meta", dtype=torch.bfloat16)
        optimizer = torch.optim.SGD(meta.parameters(), lr=0.1)
        watch = binade.torch.monitor(meta, optimizer)
        for _ in range(20):
            meta(
                torch.zeros(2, 2, device="meta", dtype=torch.bfloat16)
            ).sum().backward()
            optimizer.step()
    assert watch.steps == 20 and not watch.alarms
    (text,) = find_warnings(caplog)
    assert "parameter 'weight' is torch.bfloat16 on meta" in text
    assert 'alarms="off" switches the rules off' in text
    caplog.clear()
    watching(meta, optimizer).close()
    assert not caplog.records


@pytest.mark.parametrize("statistics", [(), "weight:norm"])
def test_alarms_skip_sparse_gradients(caplog, statistics):
    embedding = torch.nn.Embedding(8, 4, sparse=True).bfloat16()
    optimizer = torch.optim.SGD(embedding.parameters(), lr=0.1)
    with caplog.at_level(logging.WARNING, logger="binade"):
        watch = binade.torch.monitor(
            embedding, optimizer, statistics=statistics,
            alarms=["lost-updates"] if statistics else (),
        )  # fmt: skip
        for _ in range(20):
            optimizer.zero_grad()
            embedding(torch.tensor([1, 2])).sum().backward()
            optimizer.step()
    assert watch.steps == 20
    (text,) = find_warnings(caplog)
    assert "weight 'weight' is sparse" in text
    assert set(watch.statistics) == ({"weight/weight/norm"} if statistics else set())


def test_types_and_devices():
    wide = make_module(torch.float64)
    with pytest.raises(
        UsageError, match="parameter '0.weight' is torch.float64 on cpu"
    ):
        watching(wide, None, "gradient:norm")
    meta = torch.nn.Linear(2, 2, device="meta")
    with pytest.raises(UsageError, match="parameter 'bias' is torch.float32 on meta"):
        watching(meta, None, "weight/bias:norm")
    watching(meta, None, "output:norm").close()
    watch = watching(wide, None, "output/1:norm")
    with pytest.raises(UsageError, match="output '1' is torch.float64 on cpu"):
        wide(make_batch(0, torch.float64)[0])
    watch.close()


def test_a_sparse_gradient():
    embedding = torch.nn.Embedding(8, 4, sparse=True)
    watch = watching(embedding, None, "gradient:norm")
    with pytest.raises(UsageError, match="gradient 'weight' is sparse"):
        embedding(torch.tensor([1, 2])).sum().backward()
    watch.close()
    watch = watching(embedding, None, "weight:norm")
    embedding(torch.tensor([1, 2])).sum().backward()
    watch.step()
    assert set(watch.statistics) == {"weight/weight/norm"}


def test_a_sharded_parameter():
    tensor = pytest.importorskip("torch.distributed.tensor")
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = tensor.init_device_mesh("cpu", (1,))
        module = make_module()
        module[0].weight = torch.nn.Parameter(
            tensor.distribute_tensor(module[0].weight, mesh, [tensor.Shard(0)])
        )
        with pytest.raises(UsageError, match="parameter '0.weight' is a DTensor"):
            watching(module, None, "weight:norm")
        module.bfloat16()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        binade.torch.monitor(module, optimizer).close()  # A warning by default.
        watching(module, None, "weight/2.*:norm").close()
    finally:
        dist.destroy_process_group()


def test_a_request_that_matches_nothing_is_a_warning(caplog):
    module, optimizer = make()
    requests = ["output/absent*:norm", "weight/0.*:norm"]
    watch = watching(module, optimizer, requests, every=2)
    with caplog.at_level(logging.WARNING, logger="binade"):
        for step in range(4):
            take_step(module, optimizer, *make_batch(step), watch)
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 1 and "'output/absent*:norm' matched no value" in texts[0]
