"""A process of a group whose steps are not those of the others; started by
test_torch_agreement.py.

    python agreement_steps.py RANK WORLD STORE JSON

JSON has `rule`, `out`, and `steps`. A step has, for each process or for all (`*`), what the
gradients of its parameters are: `shard`, `sum` (`Partial`), `infinite` or nothing; those of
parameters that it does not list are `shard`. All parameters but the first two are frozen when
the optimizer is made. A step may set `skip_zeros` in a process, for which the update is compiled
again.
"""

import json
import sys

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Shard, distribute_tensor

import binade.torch
from binade.errors import UsageError
from support.process_groups import join_group

SHAPES = {"a": (5, 64), "b": (4, 16), "c": (3, 32), "d": (2, 16), "e": (3, 16)}
FIRST = ("a", "b")


def make(seed):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()
    }


def split(value, mesh):
    # Without communication: not all processes call this.
    return distribute_tensor(value, mesh, [Shard(0)], src_data_rank=None)


def make_gradient(kind, value, rank, mesh):
    if kind is None:
        return None
    if kind == "infinite":
        value = torch.full_like(value, torch.inf)
    if mesh is None:
        return value
    if kind == "shard":
        return split(value, mesh)
    own = value if rank == 0 else torch.zeros_like(value)
    return DTensor.from_local(own, mesh, [Partial()])


def run(given, rank, mesh):
    """Returns the parameters after the steps, and the error of each step."""
    values = make(0)
    if mesh:
        values = {name: split(value, mesh) for name, value in values.items()}
    parameters = {name: torch.nn.Parameter(value) for name, value in values.items()}
    for name, parameter in parameters.items():
        parameter.requires_grad_(name in FIRST)
    optimizer = binade.torch.Optimizer(parameters.values(), given["rule"], 0.01)
    errors, skipped = [], []
    for number, step in enumerate(given["steps"]):
        kinds = step.get(str(rank), step.get("*"))
        for name, value in make(1 + number).items():
            kind = kinds.get(name, "shard")
            parameters[name].requires_grad_(True)
            parameters[name].grad = make_gradient(kind, value, rank, mesh)
        if step.get("skip_zeros") == rank:
            optimizer.param_groups[0]["skip_zeros"] = True
        try:
            optimizer.step()
            errors.append("")
        except UsageError as error:
            errors.append(str(error))
            optimizer.param_groups[0].pop("skip_zeros", None)
        skipped.append(optimizer.skipped)
    found = {name: p.detach() for name, p in parameters.items()}
    if mesh:
        found = {name: value.full_tensor() for name, value in found.items()}
    return {"errors": errors, "skipped": skipped, "parameters": found}


def main():
    rank, world, store, text = sys.argv[1:]
    rank, world, given = int(rank), int(world), json.loads(text)
    with join_group(rank, world, store):
        mesh = init_device_mesh("cpu", (world,))
        torch.save(run(given, rank, mesh), f"{given['out']}.{rank}")


if __name__ == "__main__":
    main()
