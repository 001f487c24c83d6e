"""GPU kernels transpose tiles in shared memory, without bank conflicts."""

import re

import numpy as np
import pytest
from support.gpu_code import compile_ptx, parse
from support.ptx import WARP, Block
from support.reference import ELEMENTS, evaluate, tensor_type

BANKS, BANK_BYTES, SECTOR = 32, 4, 32


class WatchedBlock(Block):
    """Counts bank conflicts, and the sectors that accesses to the operands touch."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.conflicts = self.moved = self.touched = 0

    def watch(self, name, address, text):
        size = int(name[-1][1:]) // 8 * len(re.findall(r"[%\w]+", text))
        _, where = self.address(address, size)
        for warp in np.unique(self.who // WARP):
            own = where[self.who // WARP == warp]
            if "global" in name:
                self.moved += size * len(own)
                self.touched += SECTOR * len(np.unique(own // SECTOR))
                continue
            # 128 bytes are accessed at a time.
            together = BANKS * BANK_BYTES // max(size, BANK_BYTES)
            for first in range(0, len(own), together):
                part = own[first : first + together, None]
                words = np.unique(part // BANK_BYTES + np.arange(size // BANK_BYTES))
                _, counts = np.unique(words % BANKS, return_counts=True)
                self.conflicts += counts.max() - 1

    def do_ld(self, name, operands):
        if name[1] in ("global", "shared"):
            self.watch(name, operands[1], operands[0])
        super().do_ld(name, operands)

    def do_st(self, name, operands):
        self.watch(name, operands[0], operands[1])
        super().do_st(name, operands)


def draw(shape, element):
    values = np.random.default_rng(shape[-1]).integers(-99, 99, shape)
    return values.astype(ELEMENTS[element])


@pytest.mark.parametrize("element", ["f8E4M3FN", "bf16", "f16", "f32", "i32"])
def test_tiles_have_no_bank_conflicts(element, tmp_path):
    x = draw((256, 128), element)
    kinds = [tensor_type(shape, element) for shape in (x.shape, x.T.shape)]
    path = tmp_path / "kernel.mlir"
    path.write_text(f"""func.func private @transpose(%x: {kinds[0]}) -> {kinds[1]}
        attributes {{binade.kernel = #binade.schedule<permute>}} {{
        %y = binade.transpose %x {{permutation = array<i64: 1, 0>}}
            : ({kinds[0]}) -> {kinds[1]}
        return %y : {kinds[1]}
      }}""")
    process = compile_ptx(path)
    assert process.returncode == 0, process.stderr
    (entry,) = parse(process.stdout)
    y = np.zeros_like(x.T, order="C")
    memories = [a.reshape(-1).view(np.uint8) for a in (x, y)]
    for number in range(entry.grid):
        block = WatchedBlock(entry, memories, number, entry.block, entry.grid)
        block.run()
        assert block.conflicts == 0
        assert block.touched == block.moved > 0  # Sectors are accessed as a whole.
    np.testing.assert_array_equal(y.view(np.uint8), x.T.copy().view(np.uint8))


# Whole tiles, parts of tiles, batches, and groups of axes; the last ones have no tiles.
CASES = [
    ((256, 128), (1, 0)), ((132, 36), (1, 0)), ((3, 100, 160), (0, 2, 1)),
    ((2, 3, 40, 36), (0, 2, 3, 1)), ((2, 3, 40, 36), (2, 3, 0, 1)),
    ((34, 40), (1, 0)), ((5, 64, 3, 32), (0, 2, 1, 3)),
]  # fmt: skip


@pytest.mark.parametrize("element", ["f8E4M3FN", "bf16", "f32", "f64"])
@pytest.mark.parametrize(("shape", "order"), CASES)
def test_transposes_are_numpys(shape, order, element):
    x = draw(shape, element)
    want = x.transpose(order)
    kinds = [tensor_type(a.shape, element) for a in (x, want)]
    numbers = ", ".join(map(str, order))
    module = f"""func.func @f(%x: {kinds[0]}) -> {kinds[1]} {{
        %y = binade.transpose %x {{permutation = array<i64: {numbers}>}}
            : ({kinds[0]}) -> {kinds[1]}
        return %y : {kinds[1]}
      }}"""
    found = evaluate(module, {"arg0": x}, "--backend", "simulator")["result0"]
    np.testing.assert_array_equal(found.view(np.uint8), want.copy().view(np.uint8))
