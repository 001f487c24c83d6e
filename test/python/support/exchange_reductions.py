"""A process of a group that reduces tensors as FSDP2 calls a custom reduce-scatter.

    python exchange_reductions.py RANK WORLD STORE JSON

JSON has `runs`, a list of dictionaries with `format`, `size` (of a part), and optionally
`dtype`, `op`, `factor` and `change` (rank, index and value of one element), and `out`, a file
for a list of results.
"""

import json
import sys

import torch
import torch.distributed as dist

from binade.torch.gradient_reduction import OrderedReduceScatter
from support.process_groups import join_group


def make_terms(given, rank, world):
    """Returns the parts of a process for all others: magnitudes over ten decades."""
    size = given["size"]
    generator = torch.Generator().manual_seed(rank)
    values = torch.randn(world * size, generator=generator)
    values *= 10.0 ** -(torch.arange(world * size) % 10)
    if "change" in given and given["change"][0] == rank:
        _, index, value = given["change"]
        values[index] = float(value)
    return values.to(getattr(torch, given.get("dtype", "float32")))


def get_op(given):
    name = given.get("op", "SUM")
    if name == "PREMUL_SUM":
        return dist.ReduceOp.PREMUL_SUM(given["factor"])
    return getattr(dist.ReduceOp, name)


def reduce(given, rank, world):
    comm = OrderedReduceScatter(given["format"])
    terms = make_terms(given, rank, world)
    device = torch.device("cpu")
    sent = comm.allocate((terms.numel(),), dtype=terms.dtype, device=device)
    result = comm.allocate((given["size"],), dtype=terms.dtype, device=device)
    sent.copy_(terms)
    comm(result, sent, dist.group.WORLD, get_op(given))
    assert torch.equal(sent.nan_to_num(), terms.nan_to_num())
    return result


def main():
    rank, world, store, text = sys.argv[1:]
    rank, world, given = int(rank), int(world), json.loads(text)
    with join_group(rank, world, store):
        found = [reduce(one, rank, world) for one in given["runs"]]
        torch.save(found, f"{given['out']}.{rank}")


if __name__ == "__main__":
    main()
