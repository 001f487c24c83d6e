"""A process of a group that updates sharded parameters; started by test_torch_shards.py.

    python sharded_steps.py RANK WORLD STORE JSON

JSON has `mesh`, `optimizer`, `settings`, `steps`, and optionally `begin`, `dtype`, `overflow`
(step and rank whose gradient is infinite), `missing` (step and name of a parameter without a
gradient in process 0, or `*`), `axes` (how many axes of the mesh shard), `sums` (names of parameters
whose gradients are `Partial`), `load` and `save` (folders of checkpoints), `start` and `end`
(files of `load_state` and `save_state`) and `out`, a file for parameters and states as whole tensors. With `scaled`, a module of FSDP2 is
trained; it says whether a gradient scaler is enabled.
"""

import json
import sys

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
)

import binade.torch
from support.process_groups import join_group

SHAPES = {"wide": (6, 1024), "tall": (1601, 64), "few": (7,), "none": (0, 4), "one": ()}


def make_values(dtype):
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(shape, generator=generator).to(dtype)
        for name, shape in SHAPES.items()
    }


def make_gradients(step, dtype):
    generator = torch.Generator().manual_seed(1000 + step)
    return {
        name: (torch.randn(shape, generator=generator) * 0.1).to(dtype)
        for name, shape in SHAPES.items()
    }


class Module(torch.nn.Module):
    def __init__(self, values):
        super().__init__()
        for name, value in values.items():
            setattr(self, name, torch.nn.Parameter(value))


def split(tensor, mesh, axes=1):
    """Shards along the last axes of a mesh; scalars are replicated. FSDP2 has one such
    axis."""
    if mesh is None:
        return tensor
    placements = [Replicate()] * mesh.ndim
    if tensor.dim():
        placements[-axes:] = [Shard(0)] * axes
    return distribute_tensor(tensor, mesh, placements)


def split_sum(tensor, mesh, rank):
    """Returns a sum over processes: the tensor in the first one, zeros in the others."""
    own = tensor if rank == 0 else torch.zeros_like(tensor)
    return DTensor.from_local(own, mesh, [Replicate(), Partial()])


def join(tensor):
    if not isinstance(tensor, DTensor):
        return tensor.clone()
    if tensor.element_size() > 1:
        return tensor.full_tensor()
    # Gloo has no collectives for floats of 8 bits.
    return tensor.view(torch.uint8).full_tensor().view(tensor.dtype)


def run(given, rank, mesh):
    """Returns parameters and states after the steps."""
    dtype = getattr(torch, given.get("dtype", "float32"))
    values = make_values(dtype)
    axes = given.get("axes", 1)
    module = Module({name: split(value, mesh, axes) for name, value in values.items()})
    make = getattr(binade.torch, given["optimizer"])
    optimizer = make(module.parameters(), **given["settings"])
    if "load" in given:
        state = {
            "m": module.state_dict(),
            "o": get_optimizer_state_dict(module, optimizer),
        }
        dcp.load(state, checkpoint_id=given["load"], no_dist=mesh is None)
        module.load_state_dict(state["m"])
        set_optimizer_state_dict(module, optimizer, state["o"])
    if "start" in given:
        binade.torch.load_state(given["start"], module, optimizer)
    skipped = []
    begin = given.get("begin", 0)
    for step in range(begin, begin + given["steps"]):
        for name, gradient in make_gradients(step, dtype).items():
            parameter = getattr(module, name)
            parameter.grad = split(gradient, mesh, axes)
            if mesh and name in given.get("sums", ()):
                parameter.grad = split_sum(gradient, mesh, rank)
            if given.get("missing") in ([step, name], [step, "*"]) and rank == 0:
                parameter.grad = None
            if [step, rank] == given.get("overflow") and name == "tall":
                local = parameter.grad.to_local() if mesh else parameter.grad
                local[-1, -1] = float("inf")
        optimizer.step()
        skipped.append(optimizer.skipped)
    if "save" in given:
        state = {
            "m": module.state_dict(),
            "o": get_optimizer_state_dict(module, optimizer),
        }
        dcp.save(state, checkpoint_id=given["save"], no_dist=mesh is None)
    if "end" in given:
        binade.torch.save_state(given["end"], module, optimizer)
    found = {"skipped": skipped}
    for name in SHAPES:
        parameter = getattr(module, name)
        found[name] = join(parameter.detach())
        for key, state in optimizer.state[parameter].items():
            found[f"{name} {key}"] = join(state)
    return found


def train_module(given, rank, mesh):
    """Trains a module of FSDP2 with different batches in each process; returns its
    parameters and the losses."""
    from torch.distributed.fsdp import fully_shard

    dtype = getattr(torch, given.get("dtype", "float32"))
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(32, 65), torch.nn.GELU(), torch.nn.Linear(65, 3)
    ).to(dtype)
    for layer in (module[0], module[2], module):
        fully_shard(layer, mesh=mesh)
    library = torch.optim if given["optimizer"].startswith("torch") else binade.torch
    make = getattr(library, given["optimizer"].removeprefix("torch."))
    optimizer = make(module.parameters(), **given["settings"])
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=given["scaled"])
    losses = []
    for step in range(given["steps"]):
        generator = torch.Generator().manual_seed(100 * step + rank)
        x = torch.randn(16, 32, generator=generator).to(dtype)
        y = torch.randint(0, 3, (16,), generator=generator)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x).float(), y)
        scaler.scale(loss).backward()
        if [step, rank] == given.get("overflow"):
            module[0].weight.grad.to_local()[0, 0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    found = {name: join(p.detach()) for name, p in module.named_parameters()}
    return found | {"losses": losses, "scale": scaler.get_scale()}


def main():
    rank, world, store, text = sys.argv[1:]
    rank, world, given = int(rank), int(world), json.loads(text)
    with join_group(rank, world, store):
        names = ("replicate", "shard")
        mesh = init_device_mesh("cpu", tuple(given["mesh"]), mesh_dim_names=names)
        work = train_module if "scaled" in given else run
        torch.save(work(given, rank, mesh), f"{given['out']}.{rank}")


if __name__ == "__main__":
    main()
