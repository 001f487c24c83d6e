"""Kinds of ops of random graphs.

Each makes a value of any shape from a graph and a value, rank 2 at least.
"""

from graph_text import array, tensor_type

LARGEST = 512  # Elements of a value that a kind of op may make larger.


def unary(mnemonic, attributes=""):
    return lambda g, x: g.op(mnemonic, [x], attributes=attributes)


def binary(mnemonic):
    return lambda g, x: g.op(mnemonic, [x, g.other(x)])


def reshape(g, x, shape=None):
    if shape is None:
        axis = g.axis(x)
        n = x.shape[axis]
        factor = next((f for f in (2, 3, 5) if n % f == 0), n)
        shape = (*x.shape[:axis], factor, n // factor, *x.shape[axis + 1 :])
        shape = shape if len(shape) <= 5 else (x.shape[0], x.size // x.shape[0])
    return g.op("reshape", [x], shape)


def rows(g, x):
    """The same elements with two axes."""
    if len(x.shape) == 2:
        return x
    return g.op("reshape", [x], (x.size // x.shape[-1], x.shape[-1]))


def image(g, x):
    """The same elements as a batch of images."""
    if len(x.shape) == 4:
        return x
    n = x.size
    height, width = (2 if n % 2 == 0 else 1), (2 if n % 4 == 0 else 1)
    return g.op("reshape", [x], (1, n // height // width, height, width))


def transpose(g, x):
    order = g.random.sample(range(len(x.shape)), len(x.shape))
    shape = tuple(x.shape[axis] for axis in order)
    return g.op("transpose", [x], shape, f"permutation = {array(order)}")


def broadcast(g, x):
    copies = 2 if x.size * 2 <= LARGEST and len(x.shape) < 5 else 1
    axes = array(range(1, len(x.shape) + 1))
    y = g.op("broadcast", [x], (copies, *x.shape), f"axes = {axes}")
    return reshape(g, y, (copies * x.shape[0], *x.shape[1:]))


def slice_(g, x):
    axis, n = (axis := g.axis(x)), x.shape[axis]
    stride = g.random.choice((1, 2))
    length = max(1, n // 2)
    offset = g.random.randrange(n - (length - 1) * stride)
    one = [1] * len(x.shape)
    return g.op(
        "slice", [x], (*x.shape[:axis], length, *x.shape[axis + 1 :]),
        f"offsets = {array([0] * axis + [offset] + [0] * (len(one) - axis - 1))}, "
        f"strides = {array(one[:axis] + [stride] + one[axis + 1 :])}",
    )  # fmt: skip


def pad(g, x):
    if x.size * 2 > LARGEST:
        return slice_(g, x)
    shape = tuple(n + g.random.choice((0, 1)) for n in x.shape)
    zeros, ones = [0] * len(shape), [1] * len(shape)
    return g.op("pad", [x], shape, f"offsets = {array(zeros)}, strides = {array(ones)}")


def concat(g, x):
    if x.size * 2 > LARGEST:
        return slice_(g, x)
    axis, y = g.axis(x), g.other(x)
    shape = (*x.shape[:axis], 2 * x.shape[axis], *x.shape[axis + 1 :])
    return g.op("concat", [x, y], shape, f"axis = {axis} : i64")


def reduce_(mnemonic):
    def build(g, x):
        axis = g.axis(x)
        rest = x.shape[:axis] + x.shape[axis + 1 :]
        y = g.op(mnemonic, [x], rest, f"axes = {array([axis])}")
        if len(rest) >= 2 and g.random.random() < 0.5:
            return y
        axes = array(a for a in range(len(x.shape)) if a != axis)
        back = g.op("broadcast", [y], x.shape, f"axes = {axes}")
        return g.op("sub", [x, back])

    return build


def linear(g, x, width=None, bias=None):
    x = rows(g, x)
    n, k = x.shape
    limit = max(1, LARGEST // n)
    width = width or min(g.random.choice((1, 3, 4, 8, 16)), limit)
    transposed = g.random.random() < 0.5
    weight = g.weight(width, k) if transposed else g.weight(k, width, scale=k**-0.5)
    operands = [x, weight]
    if bias or (bias is None and g.random.random() < 0.5):
        operands.append(g.weight(width, scale=0.1))
    return g.op("matmul", operands, (n, width), "transpose_rhs" if transposed else "")


def gram(g, x):
    *batch, m, _ = x.shape
    if x.size // x.shape[-1] * m > LARGEST:
        return linear(g, x)
    x, y = g.bounded(x), g.other(x)
    y = g.op("mul", [y, g.splat(y.shape, 1 / x.shape[-1])])
    return g.op("matmul", [x, y], (*batch, m, m), "transpose_rhs")


def conv(g, x, channels=None, stride=1):
    x = image(g, x)
    n, c, h, w = x.shape
    channels = channels or min(
        g.random.choice((1, 2, 4, 8)), max(1, LARGEST // (n * h * w))
    )
    groups = 2 if c % 2 == 0 and channels % 2 == 0 and g.random.random() < 0.3 else 1
    size = g.random.choice((1, 3))
    operands = [x, g.weight(channels, c // groups, size, size)]
    if g.random.random() < 0.5:
        operands.append(g.weight(channels, scale=0.1))
    pads = array([size // 2] * 2)
    return g.op(
        "conv", operands, (n, channels, -(-h // stride), -(-w // stride)),
        f"dilations = array<i64: 1, 1>, groups = {groups} : i64, padding_high = {pads}, "
        f"padding_low = {pads}, strides = {array([stride] * 2)}",
    )  # fmt: skip


def layer_norm(g, x):
    width = x.shape[-1]
    operands = [x, g.weight(width, scale=0.1, mean=1.0)]
    if g.random.random() < 0.7:
        operands.append(g.weight(width, scale=0.1))
    shapes = [x.shape, x.shape[:-1], x.shape[:-1]]
    return g.op("layer_norm", operands, shapes, "epsilon = 1.0e-5 : f64")[0]


def rms_norm(g, x):
    operands = [x, g.weight(x.shape[-1], scale=0.1, mean=1.0)]
    shapes = [x.shape, x.shape[:-1]]
    return g.op("rms_norm", operands, shapes, "epsilon = 1.0e-5 : f64")[0]


def batch_norm(g, x):
    channels = x.shape[1]
    shapes = [(channels,), (channels,)]
    mean, variance = g.op("batch_norm_statistics", [x], shapes, "axis = 1 : i64")
    scale, bias = g.weight(channels, scale=0.1, mean=1.0), g.weight(channels, scale=0.1)
    if len(g.arguments["buffer"]) < 20:
        advance(g, mean, 0.0)
        advance(g, variance, 1.0)
    attributes = "axis = 1 : i64, epsilon = 1.0e-5 : f64, training"
    return g.op("batch_norm", [x, scale, bias, mean, variance], x.shape, attributes)


def advance(g, statistic, start):
    """A running mean of `statistic`."""
    name = f"running.{len(g.arguments['buffer'])}"
    shape = statistic.shape
    init = f"dense<{start:.6e}> : {tensor_type(shape)}"
    old = g.argument("buffer", shape, name=name, init=init)
    kept = g.op("mul", [old, g.splat(shape, 0.875)])
    new = g.op("add", [kept, g.op("mul", [statistic, g.splat(shape, 0.125)])])
    g.unread.pop(new.name)
    g.results.append((new, "buffer", name))


def attention(g, x):
    if len(x.shape) < 3:
        n, width = x.shape
        x = reshape(g, x, (1, n, width))
    lse = x.shape[:-1]
    operands = [g.bounded(x), g.other(x), g.other(x)]
    causal = "causal, " if g.random.random() < 0.5 else ""
    scale = f"{causal}scale = {x.shape[-1] ** -0.5:.6e} : f64"
    return g.op("attention", operands, [x.shape, lse], scale)[0]


def gather(g, x):
    n = x.shape[0]
    picked = [g.random.randrange(n) for _ in range(min(n, 4))]
    index = g.constant((len(picked),), picked, "i64")
    return g.op("gather", [x, index], (len(picked), *x.shape[1:]))


def select(g, x):
    y = g.other(x)
    kind = g.random.choice(("less", "greater_equal"))
    chosen = g.op(
        "compare", [x, y], x.shape, f"comparison = #binade.comparison<{kind}>", ["i1"]
    )
    return g.op("select", [chosen, x, y], x.shape)


def dropout(g, x):
    if not g.arguments["rng"]:
        g.argument("rng", (2,), "i64", "rng", "dense<[1, 0]> : tensor<2xi64>")
    rng = g.arguments["rng"][0][0]
    stream = f"ratio = 0.25 : f64, stream = {g.count} : i64"
    return g.op("dropout", [x, rng], x.shape, stream)


def rounding(g, x):
    element = g.random.choice(("bf16", "f16"))
    narrow = g.op("cast", [x], x.shape, elements=[element])
    return g.op("cast", [narrow], x.shape)


KINDS = {
    # Arithmetic on one value.
    "abs": unary("abs"),
    "atan": unary("atan"),
    "cos": unary("cos"),
    "erf": unary("erf"),
    "exp": lambda g, x: g.op("exp", [g.op("tanh", [x])]),
    "expm1": lambda g, x: g.op("expm1", [g.op("tanh", [x])]),
    "gelu": unary("gelu"),
    "gelu_tanh": unary("gelu", "approximate = #binade.approximation<tanh>"),
    "log": lambda g, x: g.op("log", [g.positive(x)]),
    "log1p": lambda g, x: g.op("log1p", [g.positive(x)]),
    "log_softmax": unary("log_softmax"),
    "neg": unary("neg"),
    "reciprocal": lambda g, x: g.op("reciprocal", [g.positive(x)]),
    "relu": unary("relu"),
    "sigmoid": unary("sigmoid"),
    "silu": unary("silu"),
    "sin": unary("sin"),
    "softmax": unary("softmax"),
    "softplus": unary("softplus"),
    "sqrt": lambda g, x: g.op("sqrt", [g.positive(x)]),
    "tanh": unary("tanh"),
    # On two or three.
    "add": binary("add"),
    "div": lambda g, x: g.op("div", [x, g.positive(g.other(x))]),
    "max": binary("max"),
    "min": binary("min"),
    "mul": binary("mul"),
    "pow": lambda g, x: g.op("pow", [g.positive(x), g.splat(x.shape, 1.5)]),
    "scale": lambda g, x: g.op("mul", [x, g.splat(x.shape, 0.5)]),
    "select": select,
    "sub": binary("sub"),
    # Contractions.
    "attention": attention,
    "conv": conv,
    "gram": gram,
    "linear": linear,
    # Over axes.
    "batch_norm": batch_norm,
    "layer_norm": layer_norm,
    "reduce_max": reduce_("reduce_max"),
    "reduce_mean": reduce_("reduce_mean"),
    "reduce_sum": reduce_("reduce_sum"),
    "rms_norm": rms_norm,
    # Movement of data.
    "broadcast": broadcast,
    "cast": rounding,
    "concat": concat,
    "dropout": dropout,
    "gather": gather,
    "pad": pad,
    "reshape": reshape,
    "slice": slice_,
    "transpose": transpose,
}
