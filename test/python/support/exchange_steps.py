"""A process of a group that trains modules of FSDP2 with narrow exchanges.

    python exchange_steps.py RANK WORLD STORE JSON

JSON has `runs`, a list of dictionaries of the options of `train`, and `out`, a file for a
list of results.
"""

import collections
import json
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    set_model_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.utils.checkpoint import checkpoint

import binade.torch
from support.process_groups import join_group

# Rows that two, three or four processes divide unevenly. Four leave one without rows.
WIDTH, HIDDEN, CLASSES = 32, 129, 5
COLLECTIVES = (
    "all_gather_single", "reduce_scatter_single", "all_to_all_single", "all_reduce"
)  # fmt: skip


class Block(torch.nn.Module):
    def __init__(self, hidden, checkpointing):
        super().__init__()
        self.up = torch.nn.Linear(WIDTH, hidden)
        self.down = torch.nn.Linear(hidden, WIDTH)
        self.checkpointing = checkpointing

    def inner(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))

    def forward(self, x):
        if self.checkpointing:
            return checkpoint(self.inner, x, use_reentrant=False)
        return self.inner(x)


class Model(torch.nn.Sequential):
    def compute(self, x):
        return torch.nn.Sequential.forward(self, x)


def make_model(hidden=HIDDEN, checkpointing=False):
    torch.manual_seed(0)
    blocks = [Block(hidden, checkpointing) for _ in range(2)]
    return Model(*blocks, torch.nn.Linear(WIDTH, CLASSES))


def make_batch(step, rank):
    generator = torch.Generator().manual_seed(100 * step + rank)
    x = torch.randn(16, WIDTH, generator=generator)
    return x, torch.randint(0, CLASSES, (16,), generator=generator)


def get_loss(output, target):
    return torch.nn.functional.cross_entropy(output.float(), target)


def join(tensor):
    """Returns a whole tensor. Gloo has no collectives for floats of 8 bits."""
    tensor = tensor.detach()
    if not isinstance(tensor, DTensor):
        return tensor.clone()
    if tensor.dtype.itemsize > 1:
        return tensor.full_tensor()
    return tensor.view(torch.uint8).full_tensor().view(tensor.dtype)


class Counter:
    """Counts the calls of collectives, and the bytes that they write in this process."""

    def __init__(self):
        self.calls = collections.Counter()
        self.bytes = collections.Counter()

    def __enter__(self):
        self.replaced = {name: getattr(dist, name) for name in COLLECTIVES}
        for name, function in self.replaced.items():
            setattr(dist, name, self.wrap(name, function))
        return self

    def __exit__(self, *error):
        for name, function in self.replaced.items():
            setattr(dist, name, function)

    def wrap(self, name, function):
        def counted(*arguments, **named):
            written = arguments[0] if arguments else None
            for key in ("output", "output_tensor"):
                written = named.get(key, written)
            self.calls[name] += 1
            self.bytes[name] += written.numel() * written.itemsize
            return function(*arguments, **named)

        return counted


def divide_blocks(model, mesh):
    """Applies tensor parallelism to blocks, whose hidden size has to be even."""
    for block in model[:2]:
        styles = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        parallelize_module(block, mesh, styles)


def shard(model, given, mesh):
    if given.get("tensor"):
        divide_blocks(model, mesh["shard"])
        mesh = mesh["replicate"]
    names = ("param_dtype", "reduce_dtype")
    types = {name: getattr(torch, given[name]) for name in names if name in given}
    options = {
        "mesh": mesh, "mp_policy": MixedPrecisionPolicy(**types),
        "reshard_after_forward": given.get("reshard"),
    }  # fmt: skip
    if given.get("columns"):
        options["shard_placement_fn"] = place_columns
    layers = [model[0], model[1], model]
    if given.get("grouped"):
        layers = [[model[0], model[1]], model]
    for layer in layers:
        fully_shard(layer, **options)
        if "divide" in given:
            layer.set_gradient_divide_factor(given["divide"])
        if given.get("sums"):
            layer.set_force_sum_reduction_for_comms(True)

    if given.get("prefetch"):
        model.set_modules_to_forward_prefetch([model[0], model[1]])
    if given.get("method"):
        register_fsdp_forward_method(model, "compute")


def place_columns(parameter):
    isEven = parameter.dim() == 2 and parameter.shape[1] % 2 == 0
    return Shard(1) if isEven else None


def watch_weights(model, weights):
    """Keeps the weights with which linear layers compute, by name."""

    def keep(name):
        def hook(module, arguments):
            if name not in weights:
                weights[name] = join(module.weight)

        return hook

    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(keep(f"{name}.weight"))


def set_values(model, changes):
    """Sets elements of parameters: pairs of an index and a value (as text) by name."""
    for name, (index, value) in (changes or {}).items():
        with torch.no_grad():
            model.get_parameter(name).view(-1)[index] = float(value)


def count_codes(model):
    """Returns the bytes of codes of weights that FSDP2 keeps in memory."""
    return sum(
        output.untyped_storage().nbytes()
        for module in (model, model[0], model[1])
        for group in module._get_fsdp_state()._fsdp_param_groups
        for parameter in group.fsdp_params
        for output in parameter.all_gather_outputs
        if output.dtype == torch.uint8
    )


def make_optimizer(model, given):
    name = given.get("optimizer", "torch.SGD")
    library = torch.optim if name.startswith("torch.") else binade.torch
    make = getattr(library, name.removeprefix("torch."))
    parameters = [p for p in model.parameters() if p.requires_grad]
    return make(parameters, **given.get("settings", {"lr": 0.1}))


def prepare(given, mesh):
    """Returns a sharded model with the formats of `given`."""
    model = make_model(given.get("hidden", HIDDEN), given.get("checkpointing", False))
    model.to(getattr(torch, given.get("dtype", "float32")))
    set_values(model, given.get("values"))
    values = model.state_dict() if given.get("meta") else None
    if values:
        model.to("meta")
    for name in given.get("frozen", ()):
        model.get_parameter(name).requires_grad_(False)
    shard(model, given, mesh)
    if "gather" in given:
        found = binade.torch.set_all_gather_format(
            model, given["gather"], **given.get("select", {})
        )
        assert len(found) == given.get("selected", 5)
    if "reduce" in given:
        binade.torch.set_reduce_scatter_format(model, given["reduce"])
    if values:
        model.to_empty(device="cpu")
        options = StateDictOptions(full_state_dict=True)
        set_model_state_dict(model, values, options=options)
    if given.get("assign"):
        state = {name: value.clone() for name, value in model.state_dict().items()}
        model.load_state_dict(state, assign=True)
    return model


@torch.no_grad()
def multiply(model, factor):
    """Changes the sharded weights; a power of two is exact."""
    model.reshard()
    for parameter in model.parameters():
        parameter.mul_(factor)


def check_a_part(model, x):
    """Runs a part of the model with its weights, and with twice its weights, which have
    twice the scale."""
    used = []
    hook = model[0].up.register_forward_pre_hook(
        lambda m, _: used.append(join(m.weight))
    )
    for factor in (2, 0.5):
        multiply(model, factor)
        with torch.no_grad():
            model[0](x)
    hook.remove()
    assert torch.equal(used[0], 2 * used[1])


def disturb(model, given, x, step):
    """Runs the model in other ways than a training step does."""
    if given.get("evaluate"):
        # Other weights than those of the step. The first pass is one in inference mode.
        if step:
            multiply(model, 4)
        with torch.inference_mode():
            model(x)
        if step:
            multiply(model, 0.25)
    if given.get("fail"):
        try:
            model(x[:, 1:])
        except RuntimeError:
            model.reset_iter_state()
        else:
            raise AssertionError("expected an error")
        if step:  # After the weights that a test compares.
            check_a_part(model, x)
    if given.get("unshard"):
        for module in (model, model[0], model[1]):
            module.unshard(async_op=given["unshard"] == "async")


def save(model, folder):
    """Saves a checkpoint. What is saved are ordinary tensors."""
    state = {"model": model.state_dict()}
    for value in state["model"].values():
        assert type(value._local_tensor) is torch.Tensor
        assert not value._local_tensor.__dict__
    dcp.save(state, checkpoint_id=folder)


def train(given, rank, mesh):
    """Trains a model; returns losses, the weights of the first forward pass, the gradients
    of the first step, parameters, states, and what collectives transferred in each step.

    `given` has formats (`gather`, `reduce`), types, `steps`, `optimizer` and `settings`, and
    options of FSDP2. With `equal`, all processes have the same batches; `cycle` is the
    number of different batches.
    """
    model = prepare(given, mesh)
    found = {"losses": [], "skipped": [], "weights": {}, "gradients": {}, "counts": []}
    watch_weights(model, found["weights"])
    if given.get("compile"):
        compiled = [model] if given["compile"] == "whole" else [model[0], model[1]]
        for module in compiled:
            module.compile(backend="aot_eager")
    compute = model.compute if given.get("method") else model
    optimizer = make_optimizer(model, given)
    batches = given.get("batches", 1)
    for step in range(given.get("steps", 1)):
        counter = Counter()
        for batch in range(batches):
            number = (step * batches + batch) % given.get("cycle", 1 << 30)
            x, y = make_batch(number, 0 if given.get("equal") else rank)
            x = x.to(getattr(torch, given.get("dtype", "float32")))
            disturb(model, given, x, step)
            model.set_requires_gradient_sync(batch == batches - 1)
            with counter:
                loss = get_loss(compute(x), y)
                found["codes"] = count_codes(model)
                isInfinite = [step, rank] == given.get("overflow")
                (loss * torch.inf if isInfinite else loss).backward()
            found["losses"].append(loss.item())
        found["counts"].append((dict(counter.calls), dict(counter.bytes)))
        if not step:
            for name, parameter in model.named_parameters():
                if parameter.grad is not None:
                    found["gradients"][name] = join(parameter.grad)
        optimizer.step()
        found["skipped"].append(getattr(optimizer, "skipped", False))
        optimizer.zero_grad()
    model.reshard()
    if "save" in given:
        save(model, given["save"])
    found["parameters"] = {n: join(p) for n, p in model.named_parameters()}
    found["states"] = {
        f"{name} {key}": join(state)
        for name, parameter in model.named_parameters()
        for key, state in optimizer.state[parameter].items()
        if isinstance(state, torch.Tensor)
    }
    return found


def main():
    rank, world, store, text = sys.argv[1:]
    rank, world, given = int(rank), int(world), json.loads(text)
    with join_group(rank, world, store):
        mesh = init_device_mesh("cpu", (world,))
        found = []
        for one in given["runs"]:
            axes = mesh
            if "mesh" in one:
                names = ("replicate", "shard")
                axes = init_device_mesh("cpu", tuple(one["mesh"]), mesh_dim_names=names)
            found.append(train(one, rank, axes))
        torch.save(found, f"{given['out']}.{rank}")


if __name__ == "__main__":
    main()
