"""Quantized formats in numpy, written from the papers without Binade's code."""

import dataclasses
import json

import ml_dtypes
import numpy as np
from support.companding import Companded
from support.paths import ROOT

F32 = np.float32
GOLDEN = ROOT / "test/data/golden"
FLOATS = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
          "f16": np.float16}  # fmt: skip


def load_book(name):
    record = json.loads((GOLDEN / f"{name}.json").read_text())
    return np.array([int(x, 16) for x in record["bits"]], np.uint32).view(F32)


def four_bit(signed):
    record = json.loads((GOLDEN / "bnb8.json").read_text())["cases"]
    bits = record["map4_signed" if signed else "map4_unsigned"]["x"]
    return np.array([int(x, 16) for x in bits], np.uint32).view(F32)


def write_book(name, values):
    return f'#binade.code_book<"{name}", [{", ".join(f"{v:.9e}" for v in values)}]>'


@dataclasses.dataclass
class Format:
    """`element` is the name of a float format, or the values of a code book."""

    element: str | np.ndarray
    group: int
    expand: bool = False
    power: bool = False  # Whether the factor of the elements is a power of two.

    @property
    def word(self):
        """The integer type of one code."""
        return np.uint16 if not self.is_book and self.element == "f16" else np.uint8

    @property
    def is_book(self):
        return not isinstance(self.element, str)

    @property
    def packed(self):
        return self.is_book and len(self.element) == 16

    @property
    def largest(self):
        if self.is_book:
            return F32(np.abs(self.element).max())
        return F32(ml_dtypes.finfo(FLOATS[self.element]).max)

    def attribute(self):
        element = write_book("book", self.element) if self.is_book else self.element
        expand = ", expand" if self.expand else ""
        rule = ", rule = inverse_power" if self.power else ""
        return (
            f"#binade.quantized<{element}, per_group<{self.group}>, scale = f32"
            f"{rule}{expand}>"
        )

    def parts(self, count):
        """(size, MLIR's element type) of each part."""
        groups = -(-count // self.group)
        code = "i8" if self.is_book else self.element
        codes = -(-count // 2) if self.packed else count
        return [(codes, code)] + [(groups, "f32")] * (3 if self.expand else 1)

    def rows(self, x):
        """Groups as rows, the last one padded with zeros."""
        padded = np.zeros(-(-len(x) // self.group) * self.group, F32)
        padded[: len(x)] = x
        return padded.reshape(-1, self.group)

    def choose(self, x):
        """Scale, power and centre of each group."""
        magnitude = np.abs(self.rows(x))
        amax = magnitude.max(1)
        zero = amax == 0
        power, centre, top = np.ones_like(amax), np.ones_like(amax), amax
        if self.expand:
            with np.errstate(all="ignore"):
                least = np.where(magnitude == 0, F32(np.inf), magnitude).min(1)
                ratio = amax / least
                kept = np.floor(F32(np.log2(self.bound)) / np.log2(ratio) * F32(16))
                power = np.maximum(kept, F32(1)) / F32(16)
                constant = (ratio <= F32(1 + 2**-12)) | zero
                power = np.where(constant, F32(1), power)
                centre = np.where(zero, F32(1), np.sqrt(amax) * np.sqrt(least))
                top = (amax / centre) ** power
        if self.power:
            with np.errstate(divide="ignore"):
                factor = np.minimum(self.largest / amax, np.finfo(F32).max)
            factor = (factor.view(np.uint32) & np.uint32(0xFF800000)).view(F32)
            scale = np.where(zero, F32(1), F32(1) / factor)
            return scale, power, centre
        scale = np.maximum(top / self.largest, F32(2.0**-126))
        scale = np.where(zero, self.scale_of_zeros, scale)
        return scale.astype(F32), power.astype(F32), centre.astype(F32)

    @property
    def scale_of_zeros(self):
        """The scale of groups of zeros, by which the code nearest to 0 decodes to almost 0."""
        if self.power:
            return F32(1)
        if self.is_book and 0 not in self.element:
            return F32(2.0**-126)
        return F32(1) / self.largest

    @property
    def bound(self):
        if self.is_book:
            least = np.abs(self.element[self.element != 0]).min()
        elif self.element == "f8E4M3FN":
            return F32(448 * 448 / 2)
        else:
            least = 2.0 ** (-24 if self.element == "f16" else -16)
        return F32(float(self.largest) / float(least) / 2)

    def scaled(self, x, factors):
        """The scaled values before rounding. `factors` are scales, and power and centre."""
        scale, *expansion = (part[:, None] for part in factors)
        y = self.rows(x)
        if self.expand:
            power, centre = expansion
            y = np.sign(y) * (np.abs(y) / centre) ** power
        return (y / scale).ravel()[: len(x)].astype(F32)

    def round(self, y):
        """The nearest codes of `y`."""
        if not self.is_book:
            clipped = np.clip(y, -self.largest, self.largest)
            return clipped.astype(FLOATS[self.element]).view(self.word)
        values = self.element
        upper = np.clip(np.searchsorted(values, y), 1, len(values) - 1)
        middle = (values[upper - 1] + values[upper]) * F32(0.5)
        tie = np.where(upper % 2 == 0, upper, upper - 1)
        nearest = np.where(y > middle, upper, np.where(y < middle, upper - 1, tie))
        if values[0] < 0:
            nearest = np.where((values[nearest] == 0) & (y < 0), nearest - 1, nearest)
        return nearest.astype(np.uint8)

    def encode(self, x, factors):
        """The codes of `x`, and which of them depend on the last bits of a value."""
        y = self.scaled(x, factors)
        codes = self.round(y)
        off = 1e-6 if self.power else 2e-5
        near = [self.round((y * F32(1 + shift)).astype(F32)) for shift in (-off, off)]
        return codes, (near[0] != codes) | (near[1] != codes)

    def unpack(self, codes, count):
        codes = codes.view(self.word)
        if self.packed:
            codes = np.stack([codes >> 4, codes & 15], 1).ravel()
        return codes[:count]

    def decode(self, parts, count):
        """The values that `parts` encode."""
        codes = self.unpack(parts[0], count)
        if self.is_book:
            numbers = self.element[codes]
        else:
            numbers = codes.view(FLOATS[self.element]).astype(F32)
        scale = np.repeat(parts[1], self.group)[:count]
        y = numbers * scale
        if not self.expand:
            return y
        power, centre = (np.repeat(part, self.group)[:count] for part in parts[2:])
        return (np.sign(y) * np.abs(y) ** (F32(1) / power) * centre).astype(F32)

    def start(self, count):
        """The parts of a tensor of zeros."""
        parts = [np.zeros(size, self.word) for size, _ in self.parts(count)[:1]]
        zero = self.round(np.zeros(1, F32))[0]
        parts[0][:] = zero * 17 if self.packed else zero
        scales = [np.ones(size, F32) for size, _ in self.parts(count)[1:]]
        scales[0][:] = self.scale_of_zeros
        return parts + scales


def formats(signed):
    """Formats by name; a code book is signed or unsigned as the state requires."""
    dynamic = load_book("bnb_dynamic_signed" if signed else "bnb_dynamic_unsigned")
    return {
        "e4m3": Format("f8E4M3FN", 128),
        "e4m3x": Format("f8E4M3FN", 128, expand=True),
        "e5m2": Format("f8E5M2", 128),
        "e5m2x": Format("f8E5M2", 128, expand=True),
        "dyn8": Format(dynamic, 256),
        "dyn8x": Format(dynamic, 256, expand=True),
        "dyn8-2048": Format(dynamic, 2048),
        "dyn4": Format(four_bit(signed), 128),
        "f16-scaled": Format("f16", 128, power=True),
        "softsign8": Companded("softsign" if signed else "sqrt_softsign"),
        "softsign8-sqrt": Companded("softsign" if signed else "sqrt"),
        "f32": None,
    }


def check_state(form, part, state, name):
    """Checks that `part` encodes `state`, whose last bits are uncertain. They matter where
    terms cancel, and most for the smallest magnitude of a group."""
    scale, power, centre = form.choose(state)
    if form.expand:
        assert (np.abs(part[2] - power) > 0).mean() <= 0.1, name
        np.testing.assert_allclose(part[2], power, rtol=0.1, err_msg=name)
        np.testing.assert_allclose(part[3], centre, rtol=1e-2, err_msg=name)
        same = part[2] == power
        np.testing.assert_allclose(part[1][same], scale[same], rtol=1e-2, err_msg=name)
    else:
        np.testing.assert_allclose(part[1], scale, rtol=1e-6, err_msg=name)
    codes, doubtful = form.encode(state, part[1:])
    got = form.unpack(part[0], len(state))
    assert doubtful.mean() < 0.05, name
    wrong = got[~doubtful] != codes[~doubtful]
    assert wrong.mean() < 0.002, name
    assert np.abs(got.astype(int) - codes).max() <= 1, name
