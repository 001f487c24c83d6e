"""Runs a kernel's PTX, and counts how often it loads each element."""

import re

import numpy as np
from support.gpu_code import compile_ptx, parse
from support.ptx import Block
from support.reference import tensor_type

F32 = np.float32


class CountingBlock(Block):
    """Counts how often its threads load each byte of the operands."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.loads = {}

    def do_ld(self, name, operands):
        super().do_ld(name, operands)
        if name[1] == "global":
            size = int(name[-1][1:]) // 8 * len(re.findall(r"[%\w]+", operands[0]))
            memory, where = self.address(operands[1], size)
            counts = self.loads.setdefault(id(memory), np.zeros(len(memory), int))
            np.add.at(counts, where[:, None] + np.arange(size), 1)


def write_kernel(body, operands, results, schedule="row_reduction"):
    types = [tensor_type(x.shape, element) for x, element in operands]
    out = [tensor_type(shape, element) for shape, element, _ in results]
    arguments = ", ".join(f"%x{i}: {kind}" for i, kind in enumerate(types))
    values = ", ".join(f"%y{i}" for i in range(len(out)))
    return f"""
      func.func private @rows({arguments}) -> ({", ".join(out)})
          attributes {{binade.kernel = #binade.schedule<{schedule}>}} {{
        {body}
        return {values} : {", ".join(out)}
      }}"""


def run_rows(path, body, operands, results, **options):
    """Runs a kernel of rows; operands are pairs of an array and MLIR's element type.
    Returns the results, and how often the first row of the first operand was loaded, as
    an array with an entry for each byte."""
    path.write_text(write_kernel(body, operands, results, **options))
    process = compile_ptx(path)
    assert process.returncode == 0, process.stderr
    entries = parse(process.stdout)
    memories = [np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x, _ in operands]
    arrays = [np.zeros(shape, dtype) for shape, _, dtype in results]
    memories += [y.reshape(-1).view(np.uint8) for y in arrays]
    memories.append(np.zeros(entries[0].workspace, np.uint8))
    loads = np.zeros(len(memories[0]), int)
    for entry in entries:
        for number in range(entry.grid):
            block = CountingBlock(entry, memories, number, entry.block, entry.grid)
            block.run()
            loads += block.loads.get(id(memories[0]), 0)
    return arrays, loads.reshape(len(operands[0][0]), -1)[0]


def draw(shape, seed=3):
    return (np.random.default_rng(seed).standard_normal(shape) * 3).astype(F32)
