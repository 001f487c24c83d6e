"""A small model with dropout, and its steps in a group of ranks that are threads."""

import hashlib

import numpy as np
import onnx
from support.rank_threads import Group, divide, run_ranks

import binade
from binade.batches import fill

BATCHES, STEPS = 12, 3
KEPT = ("parameter", "state", "scaler", "rng", "step")
WIDTHS = (48, 96, 96, 64, 10)


def make_model(ratio=0.1):
    """Returns dense layers with dropout after the first."""
    random = np.random.default_rng(0)
    text, before = "", "x"
    for index, width in enumerate(WIDTHS[1:]):
        after = "y" if width == WIDTHS[-1] else f"h{index}"
        text += (
            f"[dense{index}] s{index} = Gemm (a{index}, w{index}, b{index})\n".replace(
                f"a{index}", before
            )
        )
        if after == "y":
            text += f"y = Identity (s{index})\n"
        elif index == 0 and ratio:
            text += f"t{index} = Tanh (s{index})\n{after} = Dropout (t{index}, ratio, training)\n"
        else:
            text += f"{after} = Tanh (s{index})\n"
        before = after
    model = onnx.parser.parse_model(f"""
      <ir_version: 9, opset_import: ["": 20]>
      net (float[8, {WIDTHS[0]}] x) => (float[8, {WIDTHS[-1]}] y)
      <float ratio = {{{ratio}}}, bool training = {{1}}> {{ {text} }}
    """)
    for index, (rows, columns) in enumerate(zip(WIDTHS, WIDTHS[1:])):
        weight = random.standard_normal((rows, columns), np.float32) / rows**0.5
        for name, value in ((f"w{index}", weight), (f"b{index}", np.zeros(columns))):
            model.graph.initializer.append(
                onnx.numpy_helper.from_array(value.astype(np.float32), name)
            )
    return model


def compile_bundle(path, exchange=None, accumulate=BATCHES, **options):
    options = {"threads": 1, "optimizer": "adamw", "loss": "mse(y, t)", **options}
    if exchange:
        options["exchange"] = exchange
    step = binade.compile(
        make_model(), accumulate=accumulate, train=["w*", "b*"], **options
    )
    step.write(path)


def load(bundle):
    return binade.load(bundle, threads=1, seed=3, alarms="off")


def draw_batches(step, count=BATCHES):
    random = np.random.default_rng(5)
    return [
        {n: random.standard_normal(v.shape, np.float32) for n, v in step.batch.items()}
        for _ in range(count)
    ]


def run_step(step, batches):
    """Executes the batches of a rank."""
    for batch in batches[:-1]:
        fill(step.batch, batch)
        step._program.accumulate()
    fill(step.batch, batches[-1])
    step._program.run()


def read_state(step):
    """Returns the bytes of everything that a step changes, by role and name."""
    program = step._program
    return {
        (role, name): bytes(program.tensor(role, name))
        for role, name, *_ in program.ports()
        if role in KEPT
    }


def hash_state(step):
    text = repr(sorted(read_state(step).items())).encode()
    return hashlib.sha256(text).hexdigest()


def train(bundle, size=1, steps=STEPS, transport=None):
    """Returns the hash of the state of each rank, the ranks' programs, and the group."""
    group = Group(size)

    def work(rank):
        step = load(bundle)
        made = transport or group.transport(rank)
        if made != "none":
            step._program.set_exchange(rank, size, made)
        batches = draw_batches(step)
        for _ in range(steps):
            run_step(step, divide(batches, rank, size))
        return hash_state(step), step

    results = run_ranks(size, work)
    return [one for one, _ in results], [step for _, step in results], group
