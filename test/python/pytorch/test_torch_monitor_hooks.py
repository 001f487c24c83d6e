"""Hooks of `binade.torch.monitor`: compiled and copied modules, exceptions, closing."""

import copy
import gc
import io
import pickle
import weakref

import pytest
import torch
from support.loop_values import check, loss_of, take_step, watching
from support.torch_loops import make_batch, make_module


def make():
    module = make_module()
    return module, torch.optim.SGD(module.parameters(), lr=0.1)


def count_hooks(module, optimizer):
    """The hooks of modules, parameters and an optimizer."""
    lists = [optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks]
    for part in module.modules():
        lists += [part._forward_hooks, part._forward_pre_hooks]
    lists += [p._post_accumulate_grad_hooks or () for p in module.parameters()]
    return sum(map(len, lists))


def test_hooks_of_values_exist_in_due_steps_only():
    module, optimizer = make()
    watch = watching(module, optimizer, "gradient,output,output_gradient:norm", every=3)
    always = count_hooks(module, optimizer)
    assert always == 4
    counts = []
    for step in range(6):
        counts.append(count_hooks(module, optimizer))
        take_step(module, optimizer, *make_batch(step))
    assert counts[0] == counts[1] == counts[3] == counts[4] == always
    assert counts[2] == counts[5] > always
    watch.close()
    assert count_hooks(module, optimizer) == 0
    watch.close()
    take_step(module, optimizer, *make_batch(0))
    assert watch.steps == 6


def test_an_exception_leaves_no_hooks():
    module, optimizer = make()
    with pytest.raises(RuntimeError, match="in the loop"):
        with watching(module, optimizer, "*:norm"):
            module(make_batch(0)[0])
            raise RuntimeError("in the loop")
    assert count_hooks(module, optimizer) == 0


def test_a_loop_that_continues_after_an_exception():
    module, optimizer = make()
    watch = watching(module, optimizer, "output,gradient,output_gradient:norm")
    with pytest.raises(ValueError):
        loss_of(module(100 * make_batch(1)[0]), torch.zeros(1))
    with pytest.raises(RuntimeError):
        module(torch.zeros(3, 3))
    x, y = make_batch(0)
    take_step(module, optimizer, x, y)
    assert watch.steps == 1
    plain = make()[0]
    loss_of(plain(x), y).backward()
    check(watch.statistics, "output", "model", plain(x), ("norm",))
    for name, parameter in plain.named_parameters():
        check(watch.statistics, "gradient", name, parameter.grad, ("norm",))


def test_the_graph_is_freed():
    module, optimizer = make()
    watch = watching(module, optimizer, "output,output_gradient:norm")
    output = module(make_batch(0)[0])
    loss_of(output, make_batch(0)[1]).backward()
    optimizer.step()
    freed = weakref.ref(output)
    del output
    assert freed() is None and watch.steps == 1


def test_a_monitor_without_a_name_lives_as_long_as_the_model(tmp_path):
    module, optimizer = make()
    watching(module, optimizer, "gradient:norm", out=tmp_path)
    gc.collect()
    take_step(module, optimizer, *make_batch(0))
    assert len((tmp_path / "stats.jsonl").read_text().splitlines()) == 4


def test_copies_are_not_monitored():
    module, optimizer = make()
    watch = watching(module, optimizer, "output:norm")
    stream = io.BytesIO()
    torch.save(module, stream)
    stream.seek(0)
    copies = [
        copy.deepcopy(module), pickle.loads(pickle.dumps(module)),
        torch.load(stream, weights_only=False),
    ]  # fmt: skip
    copy.deepcopy(optimizer)
    expected = module(make_batch(0)[0])
    for other in copies:  # Before the step ends that would have their outputs.
        other(make_batch(1)[0])
    optimizer.step()
    check(watch.statistics, "output", "model", expected, ("norm",))


def test_compiled_modules():
    """The inside of a compiled module is not visible; its output is if a wrapper runs it."""
    pytest.importorskip("torch._inductor")
    requests = "output,output_gradient,gradient:norm"
    x, y = make_batch(0)
    parameters = {f"gradient/{name}" for name, _ in make()[0].named_parameters()}
    seen = {}
    for form in ("wrapped", "in place", "part", "after"):
        torch._dynamo.reset()
        module, optimizer = make()
        compute = module
        if form == "wrapped":
            module = compute = torch.compile(module, backend="aot_eager")
        elif form == "in place":
            module.compile(backend="aot_eager", fullgraph=True)
        elif form == "part":
            module[0] = torch.compile(module[0], backend="aot_eager")
        watch = watching(module, optimizer, requests, every=2)
        if form == "after":
            compute = torch.compile(module, backend="aot_eager", fullgraph=True)
        graphs = torch._dynamo.utils.counters["stats"]
        for step in range(6):
            loss_of(compute(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
            if step == 1:
                before = graphs["unique_graphs"]
        assert graphs["unique_graphs"] == before, form
        seen[form] = {name.rsplit("/", 1)[0] for name in watch.statistics}
        assert parameters <= seen[form]
        watch.close()
    outer = {"output/model", "output_gradient/model"}
    assert seen["in place"] == seen["after"] == parameters
    assert seen["wrapped"] - parameters == outer
    assert seen["part"] - parameters == outer | {
        f"{kind}/{i}" for kind in ("output", "output_gradient") for i in range(3)
    }
