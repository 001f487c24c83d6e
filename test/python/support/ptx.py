"""Simulates the PTX instructions that kernels use, with all threads of a block in numpy.

Each thread has its own program counter; the threads that are furthest back advance
together. A shuffle waits for its warp, a barrier for the block. Accesses are checked for
bounds and alignment.
"""

from __future__ import annotations

import re
from fractions import Fraction

import ml_dtypes
import numpy as np
from support.gpu_code import Entry

WARP = 32
COLLECTIVE = ("shfl", "redux", "ldmatrix", "mma")
UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
FLOAT = {16: np.float16, 32: np.float32, 64: np.float64}
CANONICAL = {"e4m3": 0x7F, "e5m2": 0x7F, "bf16": 0x7FFF, "f16": 0x7FFF}
NARROW = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
}
COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


def numpy_type(name):
    kind, width = name[0], int(name[1:])
    return {"b": UNSIGNED, "u": UNSIGNED, "s": SIGNED, "f": FLOAT}[kind][width]


def is_number(x, dtype):
    """Bits of registers as values of a type, and back."""
    return np.ascontiguousarray(x.astype(UNSIGNED[8 * np.dtype(dtype).itemsize])).view(
        dtype
    )


def to_bits(x):
    return (
        np.ascontiguousarray(x).view(UNSIGNED[8 * x.dtype.itemsize]).astype(np.uint64)
    )


def fma(x, y, z):
    if x.dtype == np.float64:
        exact = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
        result = x * y + z
        for i in np.flatnonzero(exact):
            total = Fraction(x[i]) * Fraction(y[i]) + Fraction(z[i])
            if total:  # Else `result` is 0 with the right sign.
                result[i] = float(total)
        return result
    # The product is exact in f64; the sum, rounded to odd, is rounded once after all.
    product, z = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    total = product + z
    other = total - product
    error = (product - (total - other)) + (z - other)
    bits = total.view(np.int64)
    toward = np.where((error > 0) == (total > 0), 1, -1)
    inexact = (error != 0) & np.isfinite(total) & (bits & 1 == 0)
    return np.where(inexact, bits + toward, bits).view(np.float64).astype(np.float32)


def narrow(x, name, saturate):
    if saturate:
        largest = np.float32(ml_dtypes.finfo(NARROW[name]).max)
        x = np.clip(x, -largest, largest)
    y = x.astype(NARROW[name])
    bits = y.view(UNSIGNED[8 * y.dtype.itemsize]).astype(np.uint64)
    return np.where(np.isnan(x), np.uint64(CANONICAL[name]), bits)


def as_bits(x):
    """The bits of each element as a row, the lowest bit first."""
    return np.unpackbits(
        x.view(np.uint8).reshape(len(x), -1), axis=1, bitorder="little"
    )


class Block:
    def __init__(self, entry: Entry, memories, number, threads, grid):
        self.code = [line.rstrip(";") for line in entry.instructions()]
        self.labels, at = {}, 0
        for line in entry.lines:
            if line.endswith(":"):
                self.labels[line[:-1]] = at
            else:
                at += 1
        # Memory i begins at address i * 2^40. Tables of constants follow the parameters,
        # and arrays in shared memory follow the tables.
        self.memories = [*memories]
        self.named, self.sharedBytes = {}, entry.shared
        for name, table in entry.tables.items():
            self.named[name] = len(self.memories)
            self.memories.append(np.frombuffer(table, np.uint8))
        self.special = {
            "%tid.x": np.arange(threads), "%ctaid.x": np.full(threads, number),
            "%ntid.x": np.full(threads, threads), "%nctaid.x": np.full(threads, grid),
        }  # fmt: skip
        self.registers = {}
        # Of each thread: its asynchronous copies, each a memory, the bytes' places in it
        # and the bytes, and the number of them that groups contain.
        self.copies = [[] for _ in range(threads)]
        self.grouped = np.zeros(threads, int)
        self.at = np.zeros(threads, int)
        self.done = np.zeros(threads, bool)
        self.order = self.find_order()

    def find_order(self):
        """Numbers the instructions in topological order, without the back edges of loops:
        threads that arrive first wait for the others of their warp."""
        following = []
        for at, line in enumerate(self.code):
            target = re.search(r"\bbra(?:\.uni)?\s+(\S+)", line)
            ends = not line.startswith("@") and (target or line.startswith("ret"))
            following.append([] if ends or at + 1 == len(self.code) else [at + 1])
            if target:
                following[at].append(self.labels[target[1]])
        order = np.full(len(self.code), -1)
        count, known, path = len(self.code), {0}, [(0, iter(following[0]))]
        while path:
            at, rest = path[-1]
            after = next((x for x in rest if x not in known), None)
            if after is None:
                path.pop()
                count -= 1
                order[at] = count
            else:
                known.add(after)
                path.append((after, iter(following[after])))
        return order

    def run(self):
        while not self.done.all():
            self.who, at = self.choose()
            self.at[self.who] += 1
            self.step(self.code[at])

    def choose(self):
        """Threads that can advance, and their position."""
        for at in sorted(np.unique(self.at[~self.done]), key=self.order.__getitem__):
            there = (self.at == at) & ~self.done
            op = self.code[at].split(".")[0]
            together = {"bar": len(there)}.get(op, WARP if op in COLLECTIVE else 1)
            groups = (there | self.done).reshape(-1, together).all(axis=1)
            there &= np.repeat(groups, together)
            if there.any():
                return np.flatnonzero(there), at
        raise AssertionError("threads wait for each other at shuffles and barriers")

    # Operands.

    def get(self, operand, dtype=np.uint64):
        if operand in self.special:
            bits = self.special[operand][self.who].astype(np.uint64)
        elif operand.startswith("%"):
            bits = self.registers[operand][self.who]
        elif operand.startswith(("0f", "0d")):
            bits = np.full(len(self.who), int("0x" + operand[2:], 0), np.uint64)
        elif re.match(r"-?(0x)?[0-9A-Fa-f]+U?$", operand):
            number = int(operand.rstrip("U"), 0)
            bits = np.full(len(self.who), number & (2**64 - 1), np.uint64)
        else:  # The address of a table, or of an array in shared memory.
            if operand not in self.named:
                self.named[operand] = len(self.memories)
                self.memories.append(np.zeros(self.sharedBytes, np.uint8))
            bits = np.full(len(self.who), self.named[operand] << 40, np.uint64)
        return is_number(bits, dtype)

    def set(self, register, value):
        if register == "_":
            return
        all_threads = self.registers.setdefault(
            register, np.zeros(len(self.at), np.uint64)
        )
        all_threads[self.who] = to_bits(value) if value.dtype != bool else value

    def address(self, text, size):
        base, offset = re.match(r"\[([^+\]]+)(?:\+(-?\d+))?\]", text).groups()
        where = self.get(base).astype(np.int64) + int(offset or 0)
        assert (where % size == 0).all(), f"{text}: not aligned to {size} bytes"
        memory = where >> 40
        assert (memory == memory[0]).all()
        return self.memories[memory[0]], where & ((1 << 40) - 1)

    # Instructions.

    def step(self, line):
        guard = re.match(r"@(!?)(%p\d+)\s+", line)
        if guard:
            everyone = self.who
            holds = self.get(guard[2]).astype(bool) ^ bool(guard[1])
            self.who = everyone[holds]
            line = line[guard.end() :]
        name, _, rest = line.partition(" ")
        name, _, more = name.partition("\t")
        rest = (more + rest).strip()
        operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest)
        if len(self.who):
            self.execute(name.split("."), operands)

    def execute(self, name, operands):
        op, last = name[0], name[-1]
        method = getattr(self, f"do_{op}", None)
        if method:
            return method(name, operands)
        dtype = numpy_type(last)
        values = [self.get(operand, dtype) for operand in operands[1:]]
        with np.errstate(all="ignore"):
            self.set(
                operands[0], np.asarray(self.compute(op, name, values)).astype(dtype)
            )
        return None

    @staticmethod
    def compute(op, name, v):
        isFloat = v[0].dtype.kind == "f"
        if op in ("mul", "mad", "div", "sqrt", "rcp", "add", "sub", "fma"):
            assert not isFloat or "rn" in name, f"{name} rounds otherwise"
        if op in ("max", "min") and isFloat:
            propagates = {"max": np.maximum, "min": np.minimum}[op]
            ignores = {"max": np.fmax, "min": np.fmin}[op]
            return (propagates if "NaN" in name else ignores)(*v)
        if op == "copysign":
            return np.copysign(v[1], v[0])
        if op == "bfe":
            return (v[0] >> v[1]) & ((v[0].dtype.type(1) << v[2]) - v[0].dtype.type(1))
        table = {
            "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum,
            "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
            "xor": np.bitwise_xor, "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt,
            "fma": fma, "rcp": lambda x: x.dtype.type(1) / x,
            "mad": lambda x, y, z: x * y + z, "not": np.invert,
            "div": np.divide if isFloat else np.floor_divide, "rem": np.remainder,
        }  # fmt: skip
        return table[op](*v)

    def do_ld(self, name, operands):
        if name[1] == "param":
            index = int(re.search(r"_param_(\d+)", operands[1])[1])
            self.set(operands[0], np.full(len(self.who), index << 40, np.uint64))
            return
        dtype = numpy_type(name[-1])
        registers = re.findall(r"[%\w]+", operands[0])
        size = np.dtype(dtype).itemsize
        memory, where = self.address(operands[1], size * len(registers))
        assert (where + size * len(registers) <= len(memory)).all() and (
            where >= 0
        ).all()
        for index, register in enumerate(registers):
            at = where[:, None] + index * size + np.arange(size)
            self.set(register, np.ascontiguousarray(memory[at]).view(dtype)[:, 0])

    def do_cp(self, name, operands):
        """An asynchronous copy. Its bytes are NaN until the thread waits for its group."""
        assert name[1] == "async"
        if name[2] == "commit_group":
            self.grouped[self.who] = [len(self.copies[i]) for i in self.who]
            return
        if name[2] == "wait_group":
            assert operands == ["0"], f"waits for {operands} groups"
            for i in self.who:
                for memory, places, data in self.copies[i][: self.grouped[i]]:
                    memory[places] = data
                self.copies[i] = self.copies[i][self.grouped[i] :]
            self.grouped[self.who] = 0
            return
        assert name[2] in ("ca", "cg") and name[3:] == ["shared", "global"], name
        size = int(operands[2])
        counts = self.get(operands[3] if len(operands) > 3 else str(size), np.uint32)
        assert size in (4, 8, 16) and (counts <= size).all()
        memory, to = self.address(operands[0], size)
        source, where = self.address(operands[1], size)
        assert (to + size <= len(memory)).all() and (to >= 0).all()
        assert (where + counts <= len(source)).all() and (where >= 0).all()
        for i, first, begin, count in zip(self.who, to, where, counts):
            data = np.zeros(size, np.uint8)
            data[:count] = source[begin : begin + count]
            places = np.arange(first, first + size)
            memory[places] = 0xFF
            self.copies[i].append((memory, places, data))

    def do_ex2(self, name, operands):
        """Subnormal results are 0; others are wrong by up to two units in the last place."""
        assert name[1:] == ["approx", "ftz", "f32"]
        x = self.get(operands[1], np.float32)
        with np.errstate(all="ignore"):
            y = np.exp2(x.astype(np.float64)).astype(np.float32)
        smallest = np.finfo(np.float32).tiny
        exact = ~np.isfinite(y) | (abs(x) < smallest)
        units = (x.view(np.uint32) * np.uint32(0x9E3779B1) >> np.uint32(16)) % 5
        off = (y.view(np.int32) + units.astype(np.int32) - 2).view(np.float32)
        self.set(
            operands[0], np.where(y < smallest, np.float32(0), np.where(exact, y, off))
        )

    def do_atom(self, name, operands):
        """Threads add in sequence; each returns the value before its addition."""
        assert "add" in name, f"{name}: not an addition"
        dtype = numpy_type(name[-1])
        memory, where = self.address(operands[1], dtype(0).itemsize)
        before = np.empty(len(self.who), dtype)
        with np.errstate(over="ignore"):
            for i, (at, value) in enumerate(zip(where, self.get(operands[2], dtype))):
                cell = memory[at : at + value.itemsize].view(dtype)
                before[i] = cell[0]
                cell[0] += value
        self.set(operands[0], before)

    def do_st(self, name, operands):
        dtype = numpy_type(name[-1])
        registers = re.findall(r"[%\w]+", operands[1])
        size = np.dtype(dtype).itemsize
        memory, where = self.address(operands[0], size * len(registers))
        assert (where + size * len(registers) <= len(memory)).all() and (
            where >= 0
        ).all()
        for index, register in enumerate(registers):
            at = where[:, None] + index * size + np.arange(size)
            memory[at] = self.get(register, dtype)[:, None].view(np.uint8)

    def do_mov(self, name, operands):
        to, source = operands
        if to.startswith("{"):
            parts = re.findall(r"[%\w]+", to)
            width = np.dtype(numpy_type(name[-1])).itemsize * 8 // len(parts)
            bits = self.get(source)
            for index, part in enumerate(parts):
                self.set(
                    part, (bits >> np.uint64(index * width)).astype(UNSIGNED[width])
                )
        elif source.startswith("{"):
            parts = re.findall(r"[%\w]+", source)
            width = np.dtype(numpy_type(name[-1])).itemsize * 8 // len(parts)
            bits = sum(
                self.get(part, UNSIGNED[width]).astype(np.uint64)
                << np.uint64(index * width)
                for index, part in enumerate(parts)
            )
            self.set(to, bits)
        elif name[-1] == "pred":
            self.set(to, self.flag(source))
        else:
            self.set(to, self.get(source, numpy_type(name[-1])))

    def do_cvta(self, name, operands):
        self.set(operands[0], self.get(operands[1]))

    def do_cvt(self, name, operands):
        to, source = name[-2], name[-1]
        if (
            to.endswith("x2") and source == "f32"
        ):  # The first operand becomes the upper half.
            assert "rn" in name
            kind, saturate = to[:-2], "satfinite" in name
            width = np.uint64(8 * np.dtype(NARROW[kind]).itemsize)
            high, low = (self.get(x, np.float32) for x in operands[1:])
            bits = narrow(high, kind, saturate) << width | narrow(low, kind, saturate)
            self.set(operands[0], bits)
            return
        if source.endswith("x2"):
            codes = self.get(operands[1], np.uint16)
            dtype = NARROW[source[:-2]]
            low, high = (
                x.astype(np.uint8)
                .view(dtype)
                .astype(np.float16)
                .view(np.uint16)
                .astype(np.uint32)
                for x in (codes & 0xFF, codes >> 8)
            )
            self.set(operands[0], high << 16 | low)
            return
        x, dtype = self.get(operands[1], numpy_type(source)), numpy_type(to)
        rounding = {"rni": np.rint, "rmi": np.floor, "rpi": np.ceil, "rzi": np.trunc}
        for mode in name[1:-2]:
            if mode in rounding:
                x = rounding[mode](x)
        with np.errstate(all="ignore"):
            self.set(operands[0], x.astype(dtype))

    def do_mul(self, name, operands):
        dtype = numpy_type(name[-1])
        x, y = (self.get(operand, dtype) for operand in operands[1:])
        if "wide" in name:
            wide = numpy_type(f"{name[-1][0]}{2 * int(name[-1][1:])}")
            x, y = x.astype(wide), y.astype(wide)
        elif "hi" in name:
            products = x.astype(object) * y.astype(object)
            upper = [product >> 8 * x.itemsize for product in products]
            self.set(operands[0], np.array(upper, dtype))
            return
        else:
            # Without a rounding mode the result is rounded to nearest, too, but the
            # assembler may fuse an addition. LLVM omits the mode only for squares of f32,
            # which f64 represents.
            isExact = operands[1] == operands[2] and np.array_equal(
                x, x.astype(np.float32), equal_nan=True
            )
            assert "lo" in name or "rn" in name or (name[-1] == "f64" and isExact)
        with np.errstate(all="ignore"):
            self.set(operands[0], x * y)

    def do_mad(self, name, operands):
        dtype = numpy_type(name[-1])
        x, y = (self.get(operand, dtype) for operand in operands[1:3])
        if "wide" in name:
            dtype = numpy_type(f"{name[-1][0]}{2 * int(name[-1][1:])}")
        z = self.get(operands[3], dtype)
        with np.errstate(all="ignore"):
            self.set(operands[0], x.astype(dtype) * y.astype(dtype) + z)

    def shift(self, name, operands, shift):
        dtype = numpy_type(name[-1])
        width = 8 * np.dtype(dtype).itemsize
        x, count = self.get(operands[1], dtype), self.get(operands[2], np.uint32)
        beyond = (
            np.where(x < 0, -1, 0) if dtype in SIGNED.values() else np.zeros_like(x)
        )
        moved = shift(x, np.minimum(count, width - 1).astype(dtype))
        self.set(operands[0], np.where(count < width, moved, beyond).astype(dtype))

    def do_shl(self, name, operands):
        self.shift(name, operands, np.left_shift)

    def do_shr(self, name, operands):
        self.shift(name, operands, np.right_shift)

    def do_setp(self, name, operands):
        dtype = numpy_type(name[-1])
        x, y = (self.get(operand, dtype) for operand in operands[1:3])
        mode = name[1]
        if mode in ("nan", "num"):
            holds = np.isnan(x) | np.isnan(y)
            holds = holds if mode == "nan" else ~holds
        elif mode in COMPARE:
            holds = COMPARE[mode](x, y)
            if dtype in FLOAT.values() and mode == "ne":
                holds &= ~(np.isnan(x) | np.isnan(y))
        else:  # Of floats, or unordered.
            assert mode[-1] == "u", mode
            holds = COMPARE[mode[:-1]](x, y) | np.isnan(x) | np.isnan(y)
        self.set(operands[0], holds)

    def do_selp(self, name, operands):
        dtype = numpy_type(name[-1])
        x, y = (self.get(operand, dtype) for operand in operands[1:3])
        self.set(operands[0], np.where(self.get(operands[3]).astype(bool), x, y))

    def logic(self, name, operands):
        x, *y = (self.get(operand, numpy_type(name[-1])) for operand in operands[1:])
        function = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
        self.set(operands[0], function[name[0]](x, *y))

    def do_and(self, name, operands):
        if name[-1] != "pred":
            return self.logic(name, operands)
        return self.set(operands[0], np.logical_and(*map(self.flag, operands[1:])))

    def do_or(self, name, operands):
        if name[-1] != "pred":
            return self.logic(name, operands)
        return self.set(operands[0], np.logical_or(*map(self.flag, operands[1:])))

    def do_xor(self, name, operands):
        if name[-1] != "pred":
            return self.logic(name, operands)
        return self.set(operands[0], np.logical_xor(*map(self.flag, operands[1:])))

    def do_not(self, name, operands):
        x = (
            self.flag(operands[1])
            if name[-1] == "pred"
            else self.get(operands[1], numpy_type(name[-1]))
        )
        self.set(operands[0], ~x)

    def do_popc(self, name, operands):
        bits = self.get(operands[1], numpy_type(name[-1]))
        self.set(operands[0], as_bits(bits).sum(axis=1).astype(np.uint32))

    def do_brev(self, name, operands):
        bits = self.get(operands[1], numpy_type(name[-1]))
        back = np.packbits(as_bits(bits)[:, ::-1], axis=1, bitorder="little")
        self.set(operands[0], back.view(bits.dtype)[:, 0])

    def do_clz(self, name, operands):
        bits = self.get(operands[1], numpy_type(name[-1]))
        from_top = np.argmax(as_bits(bits)[:, ::-1], axis=1)
        zeros = np.where(bits == 0, 8 * bits.itemsize, from_top)
        self.set(operands[0], zeros.astype(np.uint32))

    def flag(self, operand):
        return self.get(operand).astype(bool)

    def do_prmt(self, name, operands):
        # LLVM writes an undefined register where no byte of it is selected.
        undefined = np.full(len(self.at), 0xDEADBEEF, np.uint64)
        for operand in operands[1:3]:
            if operand.startswith("%"):
                self.registers.setdefault(operand, undefined)
        x, y = (self.get(operand, np.uint32) for operand in operands[1:3])
        both = (x.astype(np.uint64) | y.astype(np.uint64) << np.uint64(32)).view(
            np.uint8
        )
        both = both.reshape(-1, 8)
        selector = self.get(operands[3], np.uint32)
        result = np.zeros((len(x), 4), np.uint8)
        for index in range(4):
            nibble = (selector >> np.uint32(4 * index)) & 15
            byte = both[np.arange(len(x)), nibble & 7]
            result[:, index] = np.where(
                nibble & 8, (byte.view(np.int8) >> 7).view(np.uint8), byte
            )
        self.set(operands[0], result.view(np.uint32)[:, 0])

    def do_bra(self, name, operands):
        self.at[self.who] = self.labels[operands[0]]

    def do_ret(self, name, operands):
        self.done[self.who] = True

    def do_bar(self, name, operands):
        pass

    def do_shfl(self, name, operands):
        assert name[1] == "sync" and int(operands[4], 0) in (-1, 2**32 - 1)
        to = operands[0].split("|")
        which = self.get(operands[2], np.uint32).astype(int)
        source = {"bfly": self.who ^ which,
                  "idx": self.who // WARP * WARP + which % WARP}[name[2]]  # fmt: skip
        self.set(to[0], self.registers[operands[1]][source])

    def do_redux(self, name, operands):
        assert name[1] == "sync" and (~self.get(operands[2], np.uint32) == 0).all()
        words = self.get(operands[1], numpy_type(name[-1])).reshape(-1, WARP)
        combine = {"min": np.minimum, "max": np.maximum, "add": np.add,
                   "or": np.bitwise_or}[name[2]]  # fmt: skip
        self.set(operands[0], np.repeat(combine.reduce(words, axis=1), WARP))

    def do_ldmatrix(self, name, operands):
        assert name[1:4] == ["sync", "aligned", "m8n8"] and name[-1] == "b16"
        registers = re.findall(r"[%\w]+", operands[0])
        memory, where = self.address(operands[1], 16)
        lane = np.arange(WARP)
        for number, register in enumerate(registers):
            values = np.zeros(len(self.who), np.uint32)
            for first in range(0, len(self.who), WARP):
                rows = where[first + 8 * number : first + 8 * number + 8]
                assert (rows + 16 <= len(memory)).all()
                tile = memory[rows[:, None] + np.arange(16)].view(np.uint16)
                if "trans" in name:
                    tile = tile.T
                pairs = tile.reshape(WARP, 2).astype(np.uint32)
                values[first + lane] = pairs[:, 0] | pairs[:, 1] << np.uint32(16)
            self.set(register, values)

    def do_mma(self, name, operands):
        """Multiplies exactly, accumulates in f64 in sequence, and rounds once."""
        assert name[1:6] == ["sync", "aligned", "m16n8k16", "row", "col"]
        assert name[6] == name[9] == "f32" and name[7] == name[8]
        to, *sources = (re.findall(r"[%\w]+", operand) for operand in operands)

        def fragments(registers, dtype):  # By warp, lane, register and half.
            bits = np.stack([self.get(x, np.uint32) for x in registers], axis=-1)
            numbers = np.ascontiguousarray(bits).view(dtype).astype(np.float64)
            return numbers.reshape(-1, WARP, *numbers.shape[1:])

        x = fragments(sources[0], NARROW[name[7]]).reshape(-1, 8, 4, 2, 2, 2)
        y = fragments(sources[1], NARROW[name[7]]).reshape(-1, 8, 4, 2, 2)
        z = fragments(sources[2], np.float32).reshape(-1, 8, 4, 2, 2)
        # Lane 4 g + t; of x by the half of the columns, that of the rows, neighbours.
        x = x.transpose(0, 4, 1, 3, 2, 5).reshape(-1, 16, 16)
        y = y.transpose(0, 3, 2, 4, 1).reshape(-1, 16, 8)
        z = z.transpose(0, 3, 1, 2, 4).reshape(-1, 16, 8)
        with np.errstate(all="ignore"):
            for term in range(16):
                z = z + x[:, :, term, None] * y[:, None, term]
            sums = z.astype(np.float32).reshape(-1, 2, 8, 4, 2)
        sums = sums.transpose(0, 2, 3, 1, 4).reshape(-1, 4)
        for index, register in enumerate(to):
            self.set(register, np.ascontiguousarray(sums[:, index]))


def run(entry: Entry, memories: list[np.ndarray], blocks=None) -> None:
    """Runs all or the given blocks of a kernel on byte arrays as its parameters."""
    for number in range(entry.grid) if blocks is None else blocks:
        Block(entry, memories, number, entry.block, entry.grid).run()
