"""Which values of a PyTorch loop belong to a step that `binade.torch.monitor` records."""

import json

import pytest
import torch
from support.loop_values import check, loss_of, take_step, watching
from support.torch_loops import make_batch, make_module
from torch.utils.checkpoint import checkpoint


def make():
    module = make_module()
    return module, torch.optim.SGD(module.parameters(), lr=0.1)


def test_steps_are_due_as_in_train():
    module, optimizer = make()
    requests = ["gradient:norm", "weight/0.bias:norm@every=2", "output/1:norm@every=5"]
    watch = watching(module, optimizer, requests, every=3)
    seen = {}
    for step in range(1, 7):
        take_step(module, optimizer, *make_batch(step))
        assert watch.steps == step
        seen[step] = {name.split("/")[0] for name in watch.statistics}
    # A step in which nothing is due leaves the statistics of the one before.
    assert seen == {1: set(), 2: {"weight"}, 3: {"gradient"}, 4: {"weight"},
                    5: {"output"}, 6: {"gradient", "weight"}}  # fmt: skip


def test_accumulated_gradients_are_those_of_the_update(tmp_path):
    module, optimizer = make()
    watch = watching(module, optimizer, "gradient,output,loss:norm", out=tmp_path)
    losses = []
    for step in range(3):
        x, y = make_batch(step)
        output = module(x)
        loss = loss_of(output, y)
        losses.append(watch.loss(loss).item())
        (loss / 3).backward()
    optimizer.step()
    found = watch.statistics
    for name, parameter in module.named_parameters():
        check(found, "gradient", name, parameter.grad, ("norm",))
    check(found, "output", "model", make()[0](make_batch(2)[0]), ("norm",))
    # The metric is the mean; statistics are those of the last batch.
    assert found["loss/loss/norm"] == pytest.approx(losses[-1])
    watch.close()
    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line)["loss"] == pytest.approx(sum(losses) / 3, rel=1e-6)
    assert losses[-1] != pytest.approx(sum(losses) / 3, rel=1e-3)


def test_gradients_are_those_before_clipping():
    module, optimizer = make()
    watch = watching(module, optimizer, "gradient:norm")
    x, y = make_batch(0)
    loss_of(module(x), y).backward()
    before = {name: one.grad.clone() for name, one in module.named_parameters()}
    torch.nn.utils.clip_grad_norm_(module.parameters(), 1e-3)
    optimizer.step()
    for name, gradient in before.items():
        check(watch.statistics, "gradient", name, gradient, ("norm",))


def test_evaluation_is_not_recorded():
    module, optimizer = make()
    watch = watching(module, optimizer, "output,input,loss:absmax")
    x, y = make_batch(0)
    take_step(module, optimizer, x, y, watch)
    after = watch.statistics
    loss = loss_of(module(x), y)
    output = module(x)
    watch.loss(loss).backward()
    with torch.no_grad():
        watch.loss(loss_of(module(100 * x), y))
    with torch.inference_mode():
        module(100 * x)
    module.eval()
    module(100 * x)
    module.train()
    optimizer.step()
    check(watch.statistics, "output", "model", output, ("absmax",))
    check(watch.statistics, "input", "0", x, ("absmax",))
    assert watch.statistics["loss/loss/absmax"] == pytest.approx(loss.item())
    assert watch.statistics.keys() == after.keys()


def test_training_in_evaluation_mode():
    """A model that is never in training mode is trained in evaluation mode."""
    module, optimizer = make()
    module.eval()
    watch = watching(module, optimizer, "output,output_gradient,loss:absmax")
    x, y = make_batch(0)
    output = module(x)
    output.retain_grad()
    loss = loss_of(output, y)
    watch.loss(loss).backward()
    with torch.no_grad():
        watch.loss(loss_of(module(100 * x), y))
    optimizer.step()
    check(watch.statistics, "output", "model", output, ("absmax",))
    check(watch.statistics, "output_gradient", "model", output.grad, ("absmax",))
    assert watch.statistics["loss/loss/absmax"] == pytest.approx(loss.item())


def test_a_loss_that_is_given_in_evaluation_mode():
    module, optimizer = make()
    watch = watching(module, optimizer, "loss:absmax")
    take_step(module, optimizer, *make_batch(0), watch)
    module.eval()
    loss = take_step(module, optimizer, *make_batch(1), watch)
    assert watch.statistics["loss/loss/absmax"] == pytest.approx(loss.item())
    watch.loss(torch.tensor(3.0))  # Without a gradient it is one of an evaluation.
    loss = take_step(module, optimizer, *make_batch(2), watch)
    assert watch.statistics["loss/loss/absmax"] == pytest.approx(loss.item())


def test_a_prediction_is_not_the_loss():
    module = torch.nn.Sequential(torch.nn.Linear(8, 1), torch.nn.Flatten(0))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    watch = watching(module, optimizer, "loss,output:absmax")
    module(torch.randn(1, 8)).square().sum().backward()
    optimizer.step()
    assert "loss/loss/absmax" not in watch.statistics
    assert "output/model/absmax" in watch.statistics


@pytest.mark.parametrize("isBackwards", [False, True])
def test_two_forward_passes_before_one_backward_pass(isBackwards):
    """Outputs and their gradients are those of the last batch."""
    module, optimizer = make()
    watch = watching(module, optimizer, "output,output_gradient:absmax")
    outputs = []
    for step in range(2):
        outputs.append(module((1 + step) * make_batch(step)[0]))
        outputs[-1].retain_grad()
    pairs = zip(outputs, (3, 1), strict=True)
    terms = [factor * output.square().mean() for output, factor in pairs]
    sum(terms[::-1] if isBackwards else terms).backward()
    optimizer.step()
    check(watch.statistics, "output", "model", outputs[1], ("absmax",))
    check(watch.statistics, "output_gradient", "model", outputs[1].grad, ("absmax",))
    assert outputs[0].grad.abs().max() > outputs[1].grad.abs().max()


def test_transforms_of_functions():
    module, optimizer = make()
    watch = watching(module, optimizer, "output,input,output_gradient,loss:absmax")
    x, y = make_batch(0)
    parameters = {name: one.detach() for name, one in module.named_parameters()}

    def compute(parameters, x, y):
        output = torch.func.functional_call(module, parameters, (x[None],))
        return watch.loss(loss_of(output, y[None]))

    gradients = torch.func.vmap(torch.func.grad(compute), (None, 0, 0))(
        parameters, x, y
    )
    assert gradients["0.weight"].shape == (32, 16, 8)
    loss = take_step(module, optimizer, x, y, watch)
    check(watch.statistics, "input", "0", x, ("absmax",))
    assert watch.statistics["loss/loss/absmax"] == pytest.approx(loss.item())


def test_an_input_that_is_a_keyword_argument():
    class Caller(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(8, 3)

        def forward(self, x):
            return self.body(input=x)

    module = Caller()
    watch = watching(module, None, "input:absmax")
    x = make_batch(0)[0]
    module(x)
    watch.step()
    check(watch.statistics, "input", "body", x, ("absmax",))


class Parts(torch.nn.Module):
    """Calls a module twice, and returns tensors in containers."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.shared = torch.nn.Linear(4, 4)
        self.lstm = torch.nn.LSTM(4, 3)

    def forward(self, x):
        once = self.shared(x)
        y, (h, c) = self.lstm(self.shared(once))
        return {"y": y, "index": torch.arange(3), "once": once}


def test_names_of_calls_and_of_parts_of_outputs():
    module = Parts()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    watch = watching(module, optimizer, "output,output_gradient,input:absmax")
    x = torch.randn(5, 2, 4)
    for _ in range(2):  # Two batches of one step.
        once = module.shared.forward(x)
        once.retain_grad()
        twice = module.shared.forward(once)
        twice.retain_grad()
        module.lstm.forward(twice)[0].sum().backward()
        module.zero_grad()
        module(x)["y"].sum().backward()
    optimizer.step()
    found = watch.statistics
    layers = {name.rsplit("/", 1)[0] for name in found}
    assert layers == {
        "input/shared", "input/shared #2", "input/lstm", "output/shared",
        "output/shared #2", "output/lstm.0", "output/lstm.1.0", "output/lstm.1.1",
        "output/model.y", "output/model.once", "output_gradient/shared",
        "output_gradient/shared #2", "output_gradient/lstm.0", "output_gradient/model.y",
        "output_gradient/model.once",
    }  # fmt: skip
    check(found, "output", "shared", once, ("absmax",))
    check(found, "output", "shared #2", twice, ("absmax",))
    check(found, "output_gradient", "shared", once.grad, ("absmax",))
    check(found, "output_gradient", "shared #2", twice.grad, ("absmax",))


@pytest.mark.parametrize("isReentrant", [False, True])
def test_checkpointing_calls_modules_once(isReentrant):
    module, optimizer = make()
    requests = "output,output_gradient:norm"

    def train(compute):
        watch = watching(module, optimizer, requests)
        x, y = make_batch(0)
        loss_of(compute(x.requires_grad_()), y).backward()
        optimizer.zero_grad()
        optimizer.step()
        watch.close()
        return watch.statistics

    plain = train(lambda x: module[2](module[1](module[0](x))))
    again = train(
        lambda x: module[2](checkpoint(module[:2], x, use_reentrant=isReentrant))
    )
    assert again == plain and len(plain) == 6


def test_a_closure_is_part_of_its_step():
    module, optimizer = make()
    watch = watching(module, optimizer, "output,gradient,weight:norm")
    x, y = make_batch(0)

    def closure():
        optimizer.zero_grad()
        loss = watch.loss(loss_of(module(x), y))
        loss.backward()
        return loss

    optimizer.step(closure)
    assert watch.steps == 1
    assert "gradient/0.weight/norm" in watch.statistics
    assert "output/model/norm" in watch.statistics
    check(watch.statistics, "weight", "0.weight", make()[0][0].weight, ("norm",))


def test_a_loop_without_an_optimizer():
    module = make_module()
    watch = watching(module, None, "*:norm")
    for step in range(2):
        before = module[0].weight.detach().clone()
        loss_of(module(make_batch(step)[0]), make_batch(step)[1]).backward()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter -= 0.1 * parameter.grad
        watch.step()
        check(watch.statistics, "weight", "0.weight", before, ("norm",))
        assert watch.steps == step + 1
    kinds = {name.split("/")[0] for name in watch.statistics}
    # Without a scaler, scaled gradients are the same, and `*` leaves them out.
    assert kinds == {"weight", "gradient", "output", "input", "output_gradient"}


def test_parameters_without_a_gradient():
    module, optimizer = make()
    module[0].requires_grad_(False)
    watch = watching(module, optimizer, "gradient,weight:norm")
    take_step(module, optimizer, *make_batch(0))
    layers = {name.split("/")[1] for name in watch.statistics}
    assert layers == {"2.weight", "2.bias"}
    module[0].requires_grad_(True)
    take_step(module, optimizer, *make_batch(0))
    assert "gradient/0.weight/norm" in watch.statistics


def test_a_part_that_is_called_model():
    class Wrapper(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = make_module()

        def forward(self, x):
            return 2 * self.model(x)

    module = Wrapper()
    watch = watching(module, None, "output:absmax")
    x = make_batch(0)[0]
    output = module(x)
    watch.step()
    check(watch.statistics, "output", "Wrapper", output, ("absmax",))
    check(watch.statistics, "output", "model", output / 2, ("absmax",))


def test_a_shared_module_has_its_first_path():
    shared = torch.nn.Linear(8, 8)
    module = torch.nn.ModuleDict({"a": shared, "b": torch.nn.Sequential(shared)})
    watch = watching(module, None, "output:norm")
    module["b"](module["a"](torch.randn(2, 8)))
    watch.step()
    layers = {name.split("/")[1] for name in watch.statistics}
    assert layers == {"a", "a #2", "b"}
