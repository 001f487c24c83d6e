"""The rule table of unit scaling in Python, for the small char-GPT.

The factors are those of Graphcore's library (functional.py): `scale` of the library is the
reciprocal of the magnitude of a result for operands of magnitude 1.
"""

import math

BATCH, CONTEXT, WIDTH, HEADS, LAYERS, VOCAB = 16, 128, 128, 4, 4, 94
ROWS = BATCH * CONTEXT
WEIGHT, RESIDUAL = 0.02, 0.02 / math.sqrt(2 * LAYERS)


def between(alpha, lower, upper):
    return math.exp(alpha * math.log(upper) + (1 - alpha) * math.log(lower))


def gelu(m):
    return 1 / between(1 / (1 + 0.25 / m**2), 2, math.sqrt(2 / (1 - 1 / math.pi)))


def attention(m):
    return between(1 / (1 + 4 / m**2), math.sqrt(math.log(CONTEXT) / CONTEXT), 1)


def forward():
    """The magnitudes of activations, by layer, and of the residual stream before it."""
    x, layers = math.hypot(WEIGHT, WEIGHT), []
    for _ in range(LAYERS):
        layer = {"first": x}
        layer["qkv"] = WEIGHT * math.sqrt(WIDTH)
        layer["logits"] = (
            layer["qkv"] ** 2
        )  # Divided by, and summed over, heads' widths.
        layer["attention"] = layer["qkv"] * attention(layer["logits"])
        x = math.hypot(x, layer["attention"] * RESIDUAL * math.sqrt(WIDTH))
        layer["second"] = x
        layer["inner"] = WEIGHT * math.sqrt(WIDTH)
        layer["gelu"] = layer["inner"] * gelu(layer["inner"])
        x = math.hypot(x, layer["gelu"] * RESIDUAL * math.sqrt(4 * WIDTH))
        layers.append(layer)
    return layers, x


def expect_exponents():
    """The exponents of both operands of each product, by node and phase, in order."""
    layers, last = forward()
    found = {}

    def add(node, x, w, dy):
        to = lambda magnitude: -round(math.log2(magnitude))
        found[node, "forward"] = [[to(x), to(w)]]
        found[node, "backward"] = [[to(dy), to(w)], [to(dy), to(x)]]

    dy = math.sqrt(VOCAB - 1) / VOCAB / ROWS
    add("head", 1, WEIGHT, dy)
    stream = dy * WEIGHT * math.sqrt(VOCAB) / last
    for i in reversed(range(LAYERS)):
        layer = layers[i]
        add(f"blocks.{i}.mlp.2", layer["gelu"], RESIDUAL, stream)
        inner = stream * RESIDUAL * math.sqrt(WIDTH) * gelu(layer["inner"])
        add(f"blocks.{i}.mlp.0", 1, WEIGHT, inner)
        back = inner * WEIGHT * math.sqrt(4 * WIDTH) / layer["second"]
        stream = math.hypot(stream, back)
        add(f"blocks.{i}.attention.proj", layer["attention"], RESIDUAL, stream)
        value = stream * RESIDUAL * math.sqrt(WIDTH) * attention(layer["logits"])
        # The largest of the gradients of query, key and value, which are concatenated.
        qkv = max(value, value * layer["logits"])
        add(f"blocks.{i}.attention.qkv", 1, WEIGHT, qkv)
        back = qkv * WEIGHT * math.sqrt(3 * WIDTH) / layer["first"]
        stream = math.hypot(stream, back)
    return found
