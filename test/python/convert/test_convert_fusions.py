"""`binade convert` on patterns that onnxruntime's default session fuses: the session opens the
converted model, and its results are within the same bound as those without fusion.
"""

import numpy as np
import pytest
from support.convert import add_tensor, convert, draw, open_session, parse


def layer_norm(x, square="Pow (d, two)", swapped=False):
    """Returns the nodes of a layer norm of x, with operands of Add and Mul in either order."""

    def pair(left, right):
        return f"{right}, {left}" if swapped else f"{left}, {right}"

    return f"""
        u = ReduceMean <axes = [-1]> ({x})
        d = Sub ({x}, u)
        q = {square}
        v = ReduceMean <axes = [-1]> (q)
        e = Add ({pair("v", "small")})
        s = Sqrt (e)
        n = Div (d, s)
        m = Mul ({pair("n", "gain")})
        y = Add ({pair("m", "shift")})"""


def gelu(x):
    return f"""
        d = Div ({x}, two)
        f = Erf (d)
        p = Add (f, one)
        m = Mul ({x}, p)
        y = Mul (m, half)"""


RESIDUAL = """
        r = Add (h, x)"""
#: Nodes that compute y from h, a matmul, with the constants of `make`; k multiplies y.
PATTERNS = {
    "layer norm": layer_norm("h"),
    "layer norm by products, operands swapped": layer_norm(
        "h", square="Mul (d, d)", swapped=True
    ),
    "residual and layer norm": RESIDUAL + layer_norm("r"),
    "layer norm as a node": "y = LayerNormalization <axis = -1> (h, gain, shift)",
    "residual and node": RESIDUAL
    + """
        y = LayerNormalization <axis = -1> (r, gain, shift)""",
    "rms norm": """
        q = Pow (h, two)
        v = ReduceMean <axes = [-1]> (q)
        e = Add (v, small)
        s = Sqrt (e)
        n = Div (h, s)
        y = Mul (n, gain)""",
    "gelu": gelu("h"),
    "bias and gelu": """
        b = Add (h, shift)"""
    + gelu("b"),
    "gelu by tanh": """
        c = Pow (h, three)
        i = Mul (c, small)
        j = Add (h, i)
        l = Mul (j, half)
        t = Tanh (l)
        p = Add (t, one)
        m = Mul (h, p)
        y = Mul (m, half)""",
    "quick gelu": """
        a = Mul (h, two)
        s = Sigmoid (a)
        y = Mul (h, s)""",
    "scaled product": """
        t = Transpose <perm = [1, 0]> (h)
        p = MatMul (h, t)
        d = Div (p, two)
        a = Softmax <axis = -1> (d)
        y = MatMul (a, h)""",
    "product and bias": """
        t = Transpose <perm = [1, 0]> (k)
        p = MatMul (h, t)
        y = Add (p, shift)""",
    "softmax by hand": """
        a = ReduceMax <axes = [-1]> (h)
        d = Sub (h, a)
        e = Exp (d)
        s = ReduceSum (e, last)
        y = Div (e, s)""",
    "clipped": """
        r = Relu (h)
        y = Clip (r, half, two)""",
}


def make(name, version):
    body = PATTERNS[name]
    if version >= 18:
        for op in ("ReduceMean", "ReduceMax"):
            body = body.replace(f"{op} <axes = [-1]> (h)", f"{op} (h, last)")
            for value in ("q", "r"):
                body = body.replace(
                    f"{op} <axes = [-1]> ({value})", f"{op} ({value}, last)"
                )
    model = parse(f"""
    g (float[4, 8] x) => (float[4, 8] z)
      <float two = {{2}}, float one = {{1}}, float half = {{0.5}}, float three = {{3}},
       float small = {{0.01}}, int64[1] last = {{-1}}> {{
      h = MatMul (x, w)
      {body}
      z = MatMul (y, k)
    }}""")
    model.opset_import[0].version = version
    for number, tensor in enumerate("wk"):
        add_tensor(model, tensor, draw(8, 8, scale=0.5, seed=number))
    add_tensor(model, "gain", 1 + draw(8, scale=0.1, seed=2))
    return add_tensor(model, "shift", draw(8, scale=0.1, seed=3))


@pytest.mark.parametrize("policy", ["fp16-amp", "autocast-onnx"])
@pytest.mark.parametrize("version", [17, 20])
@pytest.mark.parametrize("name", PATTERNS)
def test_default_sessions_run_converted_patterns(tmp_path, name, version, policy):
    convert(make(name, version), tmp_path, policy)
    x = draw(4, 8, seed=4)
    exact = open_session(tmp_path / "in.onnx").run(None, {"x": x})[0]
    for optimizes in (False, True):
        session = open_session(tmp_path / "out.onnx", optimizes)
        (narrow,) = session.run(None, {"x": x})
        limit = 32 * 2.0**-11 * np.abs(exact).max()
        assert np.abs(narrow - exact).max() <= limit, optimizes
