"""GPU kernels that divide roots by one scalar, as updates do, round as IEEE 754 does.
Checked in the assembled PTX, and for all divisors on the quotients next to a tie."""

import numpy as np
import pytest
from support.gpu_code import compile_ptx, parse
from support.ptx import fma, run

F32 = np.float32
COUNT = 4096
KERNEL = """
binade.optimizer @root {states = [], hypers = [#binade.setting<"by" = 1.0>]}
func.func private @root.scalars(%step: i64, %by: f64) -> f64 { return %by : f64 }
func.func private @root.update(%p: f32, %g: f32, %by: f32) -> f32 {
  %root = math.sqrt %g : f32
  %y = arith.divf %root, %by : f32
  return %y : f32
}
func.func private @divide(%p: !MANY, %g: !MANY, %by: tensor<f32>) -> !MANY
    attributes {binade.kernel = #binade.schedule<multi_tensor>} {
  %y = binade.optimizer_update @root %p, %g scalars(%by)
    : (!MANY, !MANY, tensor<f32>) -> !MANY
  return %y : !MANY
}
"""


@pytest.fixture(scope="module")
def entry(tmp_path_factory):
    path = tmp_path_factory.mktemp("roots") / "root.mlir"
    path.write_text(KERNEL.replace("!MANY", f"tensor<{COUNT}xf32>"))
    process = compile_ptx(path)
    assert process.returncode == 0, process.stderr
    (entry,) = parse(process.stdout)
    # One for the reciprocal of the divisor, four for a vector on the slow path, one for
    # the remaining elements.
    assert sum("div.rn.f32" in line for line in entry.lines) == 1 + 4 + 1
    return entry


def divide(entry, g, by):
    """Computes sqrt(g) / by with one block of the kernel, on one tensor."""
    places = np.array([0, 4 * COUNT, 8 * COUNT, 8 * COUNT + 16], np.int64)
    arena = np.zeros(12 * COUNT + 16, np.uint8)
    arena[places[1] :][: 4 * COUNT] = g.view(np.uint8)
    arena[places[2] :][:4] = np.array([by], F32).view(np.uint8)
    table = np.array([*places, 0, COUNT], np.int64).view(np.uint8)
    run(entry, [arena, table], range(1))
    return arena[places[3] :].view(F32)


EDGES = [2.0**-60, 2.0**24, np.nextafter(F32(2.0**24), F32(0)), 2.0**-61]
OUTSIDE = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -0.25]


@pytest.mark.parametrize("by", [1.0, 0.03162278, 0.99949986, 3e-9, *EDGES, *OUTSIDE])
def test_quotients_have_the_bits_of_a_division(by, entry):
    random = np.random.default_rng(5)
    g = np.ldexp(1 + random.random(COUNT), random.integers(-149, 128, COUNT))
    g = g.astype(F32)
    special = [0.0, -0.0, np.inf, np.nan, -1.0, 1e-45, 1e-38, np.finfo(F32).max]
    g[: 37 * len(special) : 37] = special
    with np.errstate(all="ignore"):
        expected = np.sqrt(g) / F32(by)
    found = divide(entry, g, by)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(
        found[number].view(np.uint32), expected[number].view(np.uint32)
    )


def list_near_ties(shift, off, divisors):
    """Yields all x of 24 bits for which x 2^shift / divisor differs by off / divisor from
    an odd integer of 25 bits, which is a tie."""
    lowest = divisors & -divisors
    divisors, lowest = (a[off % lowest == 0] for a in (divisors, lowest))
    odd = divisors // lowest
    inverse = odd
    for _ in range(5):  # Each iteration doubles the number of correct bits.
        inverse = inverse * (2 - odd * inverse) & (1 << 26) - 1
    period = (1 << shift) // lowest
    tie = (-(off // lowest) * inverse) % period
    tie += ((1 << 24) - tie + period - 1) // period * period
    while (inside := tie < 1 << 25).any():
        divisors, period, tie = (a[inside] for a in (divisors, period, tie))
        x = divisors * tie + off
        fits = (x % (1 << shift) == 0) & (tie & 1 == 1) & (x >> shift + 23 == 1)
        yield (x[fits] >> shift).astype(F32), divisors[fits].astype(F32)
        tie = tie + period


@pytest.mark.nightly
def test_no_quotient_next_to_a_tie_is_rounded_the_other_way():
    """The last step adds a correction whose error is below 2^-23 of 1.5 units in the last
    place. A quotient that differs from a tie by n / divisor units of 2^-25 is farther
    from it than this error if n is above 6. All others are tested, for all divisors."""
    tried = 0
    for shift in (24, 25):
        for off in (n for n in range(-8, 9) if n):
            for x, divisor in list_near_ties(shift, off, np.arange(1 << 23, 1 << 24)):
                opposite = F32(-1) / divisor
                quotient = -x * opposite
                excess = fma(divisor, quotient, -x)
                found = fma(excess, opposite, quotient)
                np.testing.assert_array_equal(found, x / divisor)
                tried += len(x)
    assert tried > 40_000_000
