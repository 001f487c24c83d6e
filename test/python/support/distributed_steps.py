"""A process of a group that executes compiled steps with others.

    python distributed_steps.py RANK WORLD STORE JSON

JSON has `runs`, a list of dictionaries of the options of `train`, and `out`, a file for a
list of results.
"""

import contextlib
import hashlib
import json
import pathlib
import sys

import binade
import binade.torch
import numpy as np
import torch
import torch.distributed as dist
from binade.errors import BinadeError
from binade.torch.distributed.identity import hash_state
from torch.distributed.device_mesh import init_device_mesh

from support import distributed_models
from support.process_groups import join_group


def compile_step(given, rank=0):
    """Returns a step that is not distributed; `of_rank` has other options of a rank."""
    given = given | given.get("of_rank", {}).get(str(rank), {})
    if given["model"].endswith(".bnd"):
        return binade.load(given["model"], threads=1, **given.get("options", {}))
    options = {
        "accumulate": distributed_models.BATCHES, "optimizer": "adamw", "threads": 1,
        "settings": {"lr": 1e-3}, **given.get("options", {}),
    }  # fmt: skip
    return binade.compile(given["model"], **options)


def poison(batch, given, number):
    """Sets an element of batch `number` to what `poison` says."""
    for at, value in given.get("poison", ()):
        if at == number:
            batch["x"][0, 0] = float(value)
    return batch


def train(given, rank):
    """Trains `steps` steps; returns a hash of the state after each, and metrics.

    `given` has `model`, `options` of ``binade.compile``, `distribute` (options; without it
    the step is not distributed), `poison` (pairs of the number of a batch and a value),
    `restore` (a file with weights and states), `save` and `load` (directories of
    checkpoints), `whole` (a file to which all weights and states are written) and `first`,
    the first step. With `measured`, a number of steps, it returns the memory that these take.
    """
    for name, value in given.get("of_rank", {}).get(str(rank), {}).get("patch", ()):
        module, _, attribute = name.rpartition(".")
        setattr(sys.modules[module], attribute, value)
    resident = read_resident()
    try:
        step = compile_step(given, rank)
        if "distribute" in given:
            group = find_group(given.get("mesh"))
            step = binade.torch.distribute(step, group, **given["distribute"])
        if "load" in given:
            binade.torch.load_checkpoint(step, given["load"])
        if "restore" in given:
            step.restore(given["restore"])
    except BinadeError as error:
        return describe(error)
    if "out" in given:
        return train_in(given, step)
    found = {"metrics": [], "hashes": [], "unchanged": []}

    def get(number):
        made = distributed_models.make_batch(step.batch, number)
        return poison(made, given, number)

    if "measured" in given:
        for _ in range(given["measured"]):
            step(step.take(get))
        return {"resident": read_resident() - resident}
    count = distributed_models.BATCHES
    for _ in range(given.get("steps", 1)):
        if "distribute" in given:
            batches = step.take(get)
        else:
            batches = [get(step.calls * count + index) for index in range(count)]
        before = copy_weights(step)
        metrics = step(batches if len(batches) > 1 else batches[0])
        found["metrics"].append(vars(metrics) | {"scale_after": read_scale(step)})
        found["hashes"].append(hash_state(step))
        found["unchanged"].append(copy_weights(step) == before)
    if "save" in given:
        binade.torch.save_checkpoint(step, given["save"])
    if "whole" in given:
        step.save(given["whole"])
        found["whole"] = hash_file(given["whole"])
        found["state_bytes"] = list(getattr(step, "state_bytes", ()))
        found["ledger"] = step.plan()["ledger"]
        found["repr"] = repr(step)
    found["parameters"] = {
        name: torch.from_numpy(np.array(value, np.float32))
        for name, value in step.parameters.items()
    }
    return found


def find_group(sizes):
    """Returns all processes, a mesh with these sizes, or its last axis."""
    if sizes is None:
        return None
    mesh = init_device_mesh("cpu", tuple(sizes[:2]), mesh_dim_names=("outer", "inner"))
    return mesh if sizes[2:] else mesh["inner"]


def describe(error):
    return {"error": str(error), "exit_code": error.exit_code}


def train_ddp(given, rank, world):
    """Trains the module of ``make_char_gpt`` by DDP; returns the loss of each step."""
    module, get_loss, example = distributed_models.make_char_gpt(**given["ddp"])
    inputs = {name: value.numpy() for name, value in example.items()}
    ddp = torch.nn.parallel.DistributedDataParallel(module)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    count = distributed_models.BATCHES // world
    losses = []
    for step in range(given["steps"]):
        optimizer.zero_grad()
        total = torch.zeros(())
        for index in range(count):
            number = step * count * world + rank * count + index
            batch = distributed_models.make_batch(inputs, number)
            ids, labels = (torch.from_numpy(batch[n]) for n in ("input_ids", "labels"))
            isLast = index == count - 1
            with contextlib.nullcontext() if isLast else ddp.no_sync():
                loss = get_loss(ddp(ids), labels) / count
                loss.backward()
            total += loss.detach() / world
        dist.all_reduce(total)
        optimizer.step()
        losses.append(total.item())
    return {"metrics": [{"loss": loss} for loss in losses]}


def train_in(given, step):
    """Trains in a directory."""
    first = {}

    def get(number):
        if step.calls == 1:
            first.update(step.statistics)
        return distributed_models.make_batch(step.batch, number)

    try:
        metrics = binade.torch.train(
            step, get, given["out"], steps=given.get("steps", 1)
        )
    except BinadeError as error:
        return describe(error)
    return {
        "metrics": [vars(one) for one in metrics],
        "first_statistics": first,
        "statistics": dict(step.statistics),
        "alarms": [str(alarm) for alarm in step.alarms],
    }


def read_resident():
    """Bytes of the process in physical memory that no file has."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("RssAnon:")]
    return 1024 * int(line.split()[1])


def hash_file(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def copy_weights(step):
    """Returns the bytes of parameters and states."""
    return [
        step._program.tensor(role, name).tobytes()
        for role in ("parameter", "state", "step")
        for name in step.ports(role)
    ]


def read_scale(step):
    return step._program.scalar("scaler", "scale")


def main():
    rank, world, store, text = sys.argv[1:]
    rank, world, given = int(rank), int(world), json.loads(text)
    with join_group(rank, world, store):
        found = [
            train_ddp(one, rank, world) if "ddp" in one else train(one, rank)
            for one in given["runs"]
        ]
        torch.save(found, f"{given['out']}.{rank}")


if __name__ == "__main__":
    main()
