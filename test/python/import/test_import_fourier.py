"""DFT and STFT compute numpy's transforms: of signals that are cut or padded, of one-sided
spectra and of frames. Invalid nodes are rejected."""

import numpy as np
import onnx.parser
import pytest
from support.onnx_nodes import BinadeBackend, Refused


def parse(shape, result, attributes="", length=None, axis=None, opset=20):
    inputs = ["x", "n" if length is not None else "", "a" if axis is not None else ""]
    values = f"<int64 n = {{{length or 0}}}, int64 a = {{{axis or 0}}}>"
    size, made = (", ".join(map(str, s)) for s in (shape, result))
    return onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : {opset}]>\n'
        f"g (float[{size}] x) => (float[{made}] y) {values} "
        f"{{ y = DFT {attributes} ({', '.join(inputs).rstrip(', ')}) }}"
    )


def draw(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype("f4")


def join(z):
    return np.stack([z.real, z.imag], -1)


def split(x):
    return x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0]


COMPLEX, REAL = draw(3, 7, 4, 2), draw(3, 7, 4, 1)
INVERSE, HALF = "<inverse = 1>", "<onesided = 1>"
BACK = "<inverse = 1, onesided = 1>"
CASES = {
    "complex": (COMPLEX, "", None, 1, lambda z: join(np.fft.fft(z, axis=1))),
    "last signal axis": (REAL, "", None, None, lambda z: join(np.fft.fft(z, axis=2))),
    "cut": (COMPLEX, "", 5, 1, lambda z: join(np.fft.fft(z, 5, axis=1))),
    "padded": (REAL, "", 12, 1, lambda z: join(np.fft.fft(z, 12, axis=1))),
    "inverse": (COMPLEX, INVERSE, 9, -3, lambda z: join(np.fft.ifft(z, 9, axis=1))),
    "half": (REAL, HALF, None, 1, lambda z: join(np.fft.rfft(z, axis=1))),
    "half, padded": (REAL, HALF, 10, 0, lambda z: join(np.fft.rfft(z, 10, axis=0))),
    "back": (COMPLEX, BACK, None, 1, lambda z: np.fft.irfft(z, axis=1)[..., None]),
    "back, odd": (
        COMPLEX,
        BACK,
        13,
        1,
        lambda z: np.fft.irfft(z, 13, axis=1)[..., None],
    ),
    "back, cut": (COMPLEX, BACK, 6, 1, lambda z: np.fft.irfft(z, 6, axis=1)[..., None]),
}


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("case", CASES)
def test_dft_equals_that_of_numpy(case, backend):
    x, attributes, length, axis, transform = CASES[case]
    expected = transform(split(x))
    model = parse(x.shape, expected.shape, attributes, length, axis)
    (found,) = BinadeBackend.prepare(model, backend).run([x])
    assert found.shape == expected.shape
    assert np.allclose(found, expected, atol=1e-5)


def parse_frames(
    shape, result, step, length=None, window=None, attributes="", opset=17
):
    names = ["x", "s", "w" if window is not None else "", "n" if length else ""]
    size, made = (", ".join(map(str, s)) for s in (shape, result))
    weights = (
        "" if window is None else f", float[{', '.join(map(str, window.shape))}] w"
    )
    return onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : {opset}]>\n'
        f"g (float[{size}] x{weights}) => (float[{made}] y) "
        f"<int64 s = {{{step}}}, int64 n = {{{length or 0}}}> "
        f"{{ y = STFT {attributes} ({', '.join(names).rstrip(', ')}) }}"
    )


def take_frames(z, length, step):
    count = (z.shape[1] - length) // step + 1
    return np.stack([z[:, i * step : i * step + length] for i in range(count)], 1)


SIGNAL, WINDOW = draw(2, 23, 1), np.hanning(8).astype("f4")
FULL = "<onesided = 0>"
FRAMES = {
    "half": (SIGNAL, "", 3, 8, WINDOW),
    "odd, without window": (SIGNAL, "", 4, 7, None),
    "as long as the window": (SIGNAL, FULL, 8, None, WINDOW),
    "the signal": (SIGNAL, "", 1, None, None),
    "complex": (draw(2, 23, 2), FULL, 5, 8, WINDOW),
}


@pytest.mark.parametrize("case", FRAMES)
def test_stft_equals_that_of_numpy(case):
    x, attributes, step, length, window = FRAMES[case]
    size = length or (x.shape[1] if window is None else len(window))
    weights = 1.0 if window is None else window
    transform = np.fft.fft if attributes == FULL else np.fft.rfft
    expected = join(transform(take_frames(split(x), size, step) * weights, axis=2))
    model = parse_frames(x.shape, expected.shape, step, length, window, attributes)
    given = [x] if window is None else [x, window]
    (found,) = BinadeBackend.prepare(model, "reference").run(given)
    assert found.shape == expected.shape
    assert np.allclose(found, expected, atol=1e-5)


BAD = {
    "frames that are too long": (parse_frames([1, 4, 1], [1, 1, 3, 2], 1, 5), r"cannot take frames of \[5\] numbers in steps of \[1\] from 'tensor<1x4x1xf32>'"),
    "no step": (parse_frames([1, 4, 1], [1, 1, 3, 2], 0, 4), r"in steps of \[0\]"),
    "half of a complex frame": (parse_frames([1, 4, 2], [1, 1, 3, 2], 1, 4), "with onesided expects real numbers, got 'tensor<1x4x2xf32>'"),
    "three parts": (parse([2, 4, 3], [2, 4, 2]), "expected a last axis of 1 or 2, got 'tensor<2x4x3xf32>'"),
    "half of a spectrum": (parse([2, 4, 2], [2, 3, 2], HALF), "with onesided expects real numbers, got 'tensor<2x4x2xf32>'"),
    "parts as axis": (parse([2, 4, 2], [2, 4, 2], axis=-1), "transforms along the axis of real and imaginary parts"),
    "no length": (parse([2, 4, 1], [2, 4, 2], length=-1), "expected a dft_length of 1 to 4096, got -1"),
    "endless": (parse([2, 4, 1], [2, 4, 2], length=2**40), "expected a dft_length of 1 to 4096, got 1099511627776"),
    "a large matrix": (parse([2, 2**20, 1], [2, 2**20, 2]), "expected a dft_length of 1 to 4096, got 1048576"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_rejected_transforms(case):
    model, message = BAD[case]
    x = np.zeros(
        [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim], "f4"
    )
    with pytest.raises(Refused, match=message):
        BinadeBackend.prepare(model, "reference").run([x])
