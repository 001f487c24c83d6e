#!/usr/bin/env python3
"""Derives the polynomial coefficients of lib/Codegen's expansions.

Each row of TABLE approximates one function on one interval by a polynomial
whose coefficients are exact in the working format. The Remez exchange finds
the best real coefficients; they are then rounded one by one, lowest degree
first; after each rounding the remaining coefficients are fitted again, so that they
compensate the rounding error. Prints C hexadecimal floats, lowest degree
first, and the largest weighted error as a power of two. Needs mpmath, numpy.

Usage: utils/minimax.py [NAME...]
"""

import sys
from math import log2

import mpmath
import numpy as np

mpmath.mp.prec = 200


def minimax(values, weights, basis, steps=300):
    """The coefficients c that minimize max |weights * (values - basis @ c)|.

    Lawson's iteration: least squares whose weights grow where the error is
    large. Unlike an exchange it needs no alternation, which is lost as soon as
    the low coefficients are fixed.
    """
    scale = np.max(np.abs(basis), axis=0)
    lawson = np.full(len(values), 1 / len(values))
    best, least = None, np.inf
    for _ in range(steps):
        root = np.sqrt(lawson) * weights
        c = (
            np.linalg.lstsq(root[:, None] * (basis / scale), root * values, rcond=None)[
                0
            ]
            / scale
        )
        error = np.abs(weights * (values - basis @ c))
        if error.max() < least:
            best, least = c, error.max()
        lawson = lawson * error
        lawson /= lawson.sum()
    return best


def fit(function, low, high, degree, weight, round_to, points=1500):
    """Rounded coefficients of degree 0..degree and the largest error."""
    nodes = [
        (low + high) / 2 - (high - low) / 2 * float(mpmath.cos(mpmath.pi * k / points))
        for k in range(points + 1)
    ]
    nodes = np.array([x for x in nodes if x != 0.0])
    values = np.array([float(function(mpmath.mpf(x))) for x in nodes])
    weights = np.array([abs(float(weight(mpmath.mpf(x)))) for x in nodes])
    powers = np.vander(nodes, degree + 1, increasing=True)
    coefficients, rest = [], values.copy()
    for k in range(degree + 1):
        best = minimax(rest, weights, powers[:, k:])
        coefficients.append(float(round_to(best[0])))
        rest = rest - coefficients[-1] * powers[:, k]
    return coefficients, np.max(np.abs(weights * rest))


def even(function):
    """function(x) / x as a function of z = x^2."""
    return lambda z: function(mpmath.sqrt(z)) / mpmath.sqrt(z)


LN2, LOG2E, PI = mpmath.log(2), 1 / mpmath.log(2), mpmath.pi

# fmt: off
TABLE = {
    # name: (function, low, high, degree, weight, format)
    # exp(r) = 1 + r + r^2 q(r)
    "exp": (lambda r: (mpmath.expm1(r) - r) / r**2, -0.34662, 0.34662, 4,
            lambda r: r**2 / mpmath.exp(r), np.float32),
    # expm1(r) = r + r^2 q(r)
    "expm1": (lambda r: (mpmath.expm1(r) - r) / r**2, -0.34662, 0.34662, 5,
              lambda r: r**2 / mpmath.expm1(r), np.float32),
    # exp2(r) = 1 + r q(r)
    "exp2": (lambda r: mpmath.expm1(r * LN2) / r, -0.50001, 0.50001, 5,
             lambda r: r / 2**r, np.float32),
    # log(1 + f) = f + f^2 q(f)
    "log": (lambda f: (mpmath.log1p(f) - f) / f**2, -0.33334, 0.33334, 8,
            lambda f: f**2 / mpmath.log1p(f), np.float32),
    "log1p": (lambda f: (mpmath.log1p(f) - f) / f**2, -0.25001, 0.50001, 8,
              lambda f: f**2 / mpmath.log1p(f), np.float32),
    # log2(1 + f) = f log2(e) + f^2 q(f)
    "log2": (lambda f: (mpmath.log1p(f) - f) / f**2 * LOG2E, -0.33334, 0.33334, 8,
             lambda f: f**2 / mpmath.log1p(f) / LOG2E, np.float32),
    # log2(3/2 + d) = log2(3/2) + d q(d), of ranges that expand
    "log2-ranges": (lambda d: mpmath.log1p(d / 1.5) / d * LOG2E, -0.5, 0.5, 7,
                    lambda d: d, np.float32),
    "log2-elements": (lambda d: mpmath.log1p(d / 1.5) / d * LOG2E, -0.5, 0.5, 6,
                      lambda d: d, np.float32),
    # exp2(r) = 1 + r q(r), of the same
    "exp2-ranges": (lambda r: mpmath.expm1(r * LN2) / r, -0.50001, 0.50001, 4,
                    lambda r: r / 2**r, np.float32),
    "exp2-elements": (lambda r: mpmath.expm1(r * LN2) / r, -0.50001, 0.50001, 3,
                      lambda r: r / 2**r, np.float32),
    # For results of 16 bits.
    # exp(r ln 2) = 1 + r q(r)
    "exp-bf16": (lambda r: mpmath.expm1(r * LN2) / r, -0.50001, 0.50001, 2,
                 lambda r: r / 2**r, np.float32),
    "exp-f16": (lambda r: mpmath.expm1(r * LN2) / r, -0.50001, 0.50001, 3,
                lambda r: r / 2**r, np.float32),
    # log(1 + f) = f + f^2 q(f)
    "log-bf16": (lambda f: (mpmath.log1p(f) - f) / f**2, -0.33334, 0.33334, 3,
                 lambda f: f**2 / mpmath.log1p(f), np.float32),
    "log-f16": (lambda f: (mpmath.log1p(f) - f) / f**2, -0.33334, 0.33334, 4,
                lambda f: f**2 / mpmath.log1p(f), np.float32),
    # tanh(x) = x + x z q(z)
    "tanh-bf16": (lambda z: (even(mpmath.tanh)(z) - 1) / z, 1e-9, 0.390625, 1,
                  lambda z: z / even(mpmath.tanh)(z), np.float32),
    "tanh-f16": (lambda z: (even(mpmath.tanh)(z) - 1) / z, 1e-9, 0.390625, 2,
                 lambda z: z / even(mpmath.tanh)(z), np.float32),
    # erf(x) = x q(z)
    "erf-bf16": (even(mpmath.erf), 1e-9, 7.85, 7, lambda z: 1 / even(mpmath.erf)(z),
                 np.float32),
    "erf-f16": (even(mpmath.erf), 1e-9, 9.62, 9, lambda z: 1 / even(mpmath.erf)(z),
                np.float32),
    # erfc(x) = 2^(x q(x))
    "erfc-bf16": (lambda x: mpmath.log(mpmath.erfc(x), 2) / x, 1e-9, 10.1, 8,
                  lambda x: x * LN2, np.float32),
    "erfc-f16": (lambda x: mpmath.log(mpmath.erfc(x), 2) / x, 1e-9, 10.1, 10,
                 lambda x: x * LN2, np.float32),
    # tanh(x) = x + x z q(z)
    "tanh": (lambda z: (even(mpmath.tanh)(z) - 1) / z, 1e-9, 0.390625, 4,
             lambda z: z / even(mpmath.tanh)(z), np.float32),
    # erf(x) = x + x q(z)
    "erf": (lambda z: even(mpmath.erf)(z) - 1, 1e-9, 0.712, 5,
            lambda z: 1 / even(mpmath.erf)(z), np.float32),
    # 1 - erf(x) = exp(q(x))
    "erf-tail": (lambda x: mpmath.log(mpmath.erfc(x)), 0.84, 3.93, 6,
                 lambda x: mpmath.erfc(x) / mpmath.erf(x), np.float32),
    # log2(1 + f) = f q(f), in f64
    "log2-f64": (lambda f: mpmath.log1p(f) / f * LOG2E, -0.33334, 0.33334, 12,
                 lambda f: f / mpmath.log1p(f) / LOG2E, np.float64),
    # exp2(r) = 1 + r q(r), in f64
    "exp2-f64": (lambda r: mpmath.expm1(r * LN2) / r, -0.50001, 0.50001, 6,
                 lambda r: r / 2**r, np.float64),
    # sin(2 pi t) = t q(t^2), cos(2 pi t) = q(t^2), |t| <= 1/8, in f64
    "sin-f64": (even(lambda t: mpmath.sin(2 * PI * t)), 1e-12, 1 / 64, 4,
                lambda z: 1 / even(lambda t: mpmath.sin(2 * PI * t))(z), np.float64),
    "cos-f64": (lambda z: mpmath.cos(2 * PI * mpmath.sqrt(z)), 0, 1 / 64, 4,
                lambda z: 1 / mpmath.cos(2 * PI * mpmath.sqrt(z)), np.float64),
    # atan(t) = t q(t^2), t <= 1, in f64
    "atan-f64": (even(mpmath.atan), 1e-12, 1, 11, lambda z: 1 / even(mpmath.atan)(z),
                 np.float64),
}
# fmt: on


def main(names):
    for name in names or TABLE:
        coefficients, error = fit(*TABLE[name])
        print(f"{name}: error 2^{log2(error):.2f}")
        for c in coefficients:
            print(f"    {float(c).hex()}")


if __name__ == "__main__":
    main(sys.argv[1:])
