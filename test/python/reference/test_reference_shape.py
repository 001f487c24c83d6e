"""Compares constants, data movement, reductions and gathers with NumPy."""

import hashlib

import numpy as np
import pytest
from support.reference import (
    BF16,
    EVAL,
    evaluate,
    evaluate_op,
    fail_op,
    random,
    rounded,
    type_of,
    wide,
)

F32 = np.float32


def integers(shape, dtype=np.int64):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


@pytest.mark.parametrize("make", [integers, lambda shape: random(shape, BF16)])
class TestMovement:
    def check(self, op, x, expected, attributes=""):
        (y,) = evaluate_op(op, [x], [(expected.shape, x.dtype)], attributes)
        np.testing.assert_array_equal(y, expected)

    def test_reshape(self, make):
        x = make((2, 3, 4))
        self.check("reshape", x, x.reshape(4, 6))

    def test_transpose(self, make):
        x = make((2, 3, 4))
        self.check(
            "transpose", x, x.transpose(2, 0, 1), "permutation = array<i64: 2, 0, 1>"
        )

    def test_broadcast(self, make):
        x = make((3, 1))
        expected = np.broadcast_to(x[None, :, :], (2, 3, 4))
        self.check("broadcast", x, expected, "axes = array<i64: 1, 2>")

    def test_slice(self, make):
        x = make((5, 7))
        self.check("slice", x, x[1:4:2, 2:7:3],
                   "offsets = array<i64: 1, 2>, strides = array<i64: 2, 3>")  # fmt: skip

    def test_pad(self, make):
        x = make((2, 2))
        expected = np.zeros((5, 7), x.dtype)
        expected[1:4:2, 2:7:3] = x
        self.check("pad", x, expected,
                   "offsets = array<i64: 1, 2>, strides = array<i64: 2, 3>")  # fmt: skip

    def test_concat(self, make):
        x, y = make((2, 3)), make((2, 1))
        (z,) = evaluate_op("concat", [x, y, x], [((2, 7), x.dtype)], "axis = 1 : i64")
        np.testing.assert_array_equal(z, np.concatenate([x, y, x], 1))


def test_iota():
    module = """
      func.func @f() -> (tensor<2x3xi32>, tensor<2x3xi64>) {
        %a = binade.iota {axis = 1 : i64} : tensor<2x3xi32>
        %b = binade.iota : tensor<2x3xi64>
        return %a, %b : tensor<2x3xi32>, tensor<2x3xi64>
      }"""
    outputs = evaluate(module, {})
    np.testing.assert_array_equal(outputs["result0"], [[0, 1, 2], [0, 1, 2]])
    np.testing.assert_array_equal(outputs["result1"], [[0, 1, 2], [3, 4, 5]])


def test_constant():
    module = """
      func.func @f() -> (tensor<2xbf16>, tensor<3xi8>) {
        %a = binade.constant dense<[1.0, -0.5]> : tensor<2xbf16>
        %b = binade.constant dense<-7> : tensor<3xi8>
        return %a, %b : tensor<2xbf16>, tensor<3xi8>
      }"""
    outputs = evaluate(module, {})
    np.testing.assert_array_equal(outputs["result0"].astype(F32), [1, -0.5])
    np.testing.assert_array_equal(outputs["result1"], [-7, -7, -7])


class TestExternal:
    """Initial values in a file next to the module."""

    def run(self, folder, attribute):
        import subprocess

        path = folder / "module.mlir"
        path.write_text(f"""
          func.func @f(%x: tensor<3xf32> {{binade.init = {attribute}}}) -> tensor<3xf32> {{
            return %x : tensor<3xf32>
          }}""")
        return subprocess.run([EVAL, path], capture_output=True, text=True, timeout=600)

    def attribute(self, offset=4, digest=None, file="data.bin"):
        suffix = f', "{digest}"' if digest else ""
        return f'#binade.external<"{file}", {offset}, 12{suffix}> : tensor<3xf32>'

    def test_is_read_and_checked(self, tmp_path):
        data = np.array([1, 2.5, -3], F32).tobytes()
        (tmp_path / "data.bin").write_bytes(b"head" + data)
        done = self.run(
            tmp_path, self.attribute(digest=hashlib.sha256(data).hexdigest())
        )
        assert done.stdout.strip().endswith("= 1 2.5 -3"), done

    @pytest.mark.parametrize("changed, message", [
        ({"digest": "0" * 64}, "the module expects"),
        ({"offset": 8}, "data.bin"),
        ({"file": "../data.bin"}, "data.bin"),
        ({"file": "absent.bin"}, "absent.bin"),
    ])  # fmt: skip
    def test_is_rejected(self, tmp_path, changed, message):
        (tmp_path / "data.bin").write_bytes(bytes(16))
        done = self.run(tmp_path, self.attribute(**changed))
        assert done.returncode == 3
        assert "cannot read external data" in done.stderr and message in done.stderr


@pytest.mark.parametrize("axes", [(0,), (1, 2), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("op, function", [
    ("reduce_sum", np.sum), ("reduce_mean", np.mean), ("reduce_max", np.max),
])  # fmt: skip
def test_reductions(op, function, axes):
    for dtype in (F32, BF16):
        x = random((3, 4, 5), dtype, seed=1)
        expected = function(*wide(x), axis=axes)
        attribute = f"axes = array<i64: {', '.join(map(str, axes))}>"
        (y,) = evaluate_op(op, [x], [(expected.shape, dtype)], attribute)
        np.testing.assert_array_equal(y, rounded(expected, dtype))


def test_reduce_max_keeps_nan():
    x = np.array([[1, np.nan, 3], [np.nan, 1, 0], [-np.inf, -2, -1]], F32)
    (y,) = evaluate_op("reduce_max", [x], [((3,), F32)], "axes = array<i64: 1>")
    np.testing.assert_array_equal(y, [np.nan, np.nan, -1])


@pytest.mark.parametrize("integer", [np.int64, np.int32])
def test_gather(integer):
    table, indices = random((5, 3), BF16, seed=2), np.array([[0, 4], [-1, -5]], integer)
    (y,) = evaluate_op("gather", [table, indices], [((2, 2, 3), BF16)])
    np.testing.assert_array_equal(y, table[indices])
    numbers = integers((4, 2))
    (y,) = evaluate_op("gather", [numbers, indices[0][:1]], [((1, 2), np.int64)])
    np.testing.assert_array_equal(y, numbers[[0]])


def test_gather_grad():
    dy, indices = random((2, 3, 4), seed=3), np.array([[0, 2, -1], [2, 2, 0]])
    expected = np.zeros((5, 4))
    np.add.at(expected, indices, *wide(dy))
    (dtable,) = evaluate_op("gather_grad", [dy, indices], [((5, 4), F32)])
    np.testing.assert_array_equal(dtable, rounded(expected, F32))


@pytest.mark.parametrize("index", [5, -6])
def test_indices_out_of_range_are_errors(index):
    table, indices = random((5, 3), seed=4), np.array([[1, 2], [index, 0]])
    expected = f"index {index} at position 2 is not a row of the table, which has 5"
    assert expected in fail_op("gather", [table, indices], [((2, 2, 3), F32)])
    gradient = random((2, 2, 3), seed=5)
    assert expected in fail_op("gather_grad", [gradient, indices], [((5, 3), F32)])


@pytest.mark.parametrize("integer", [np.int64, np.int32])
def test_check_index(integer):
    x, attributes = np.array([[0, 4], [-100, 1]], integer), "low = 0, high = 5"
    ignored = f"{attributes}, ignored = -100"
    (y,) = evaluate_op("check_index", [x], [((2, 2), integer)], ignored)
    np.testing.assert_array_equal(y, x)
    expected = "index -100 at position 2 is outside of [0, 5)"
    assert expected in fail_op("check_index", [x], [((2, 2), integer)], attributes)
    x[0, 1] = 5
    expected = "index 5 at position 1 is outside of [0, 5)"
    assert expected in fail_op("check_index", [x], [((2, 2), integer)], ignored)


def test_data_movement_of_empty_tensors():
    x = np.zeros((0, 3), F32)
    assert type_of(x) == "tensor<0x3xf32>"
    (y,) = evaluate_op(
        "transpose", [x], [((3, 0), F32)], "permutation = array<i64: 1, 0>"
    )
    assert y.shape == (3, 0)
