"""Random training graphs for tests: texts, inputs, and helpers that inspect a step."""

import dataclasses
import functools
import io
import random
import re
import subprocess
import sys

import numpy as np
from support.paths import BUILD, ROOT

sys.path.insert(0, str(ROOT / "utils"))
import generate_graph

OPT = BUILD / "bin" / "binade-opt"
DECISION = re.compile(r" ?(?:, )?precision = (#binade\.precision<[^>]*>)")


@dataclasses.dataclass
class Case:
    """A generated graph: its text, and values for its inputs."""

    flavour: str
    seed: int
    ops: int

    def __str__(self):
        return f"{self.flavour}-{self.ops}-{self.seed}"

    @functools.cached_property
    def graph(self):
        return generate_graph.generate(self.seed, self.ops, self.flavour)

    @functools.cached_property
    def text(self):
        text = io.StringIO()
        self.graph.render(text)
        return text.getvalue()

    def draw(self):
        """A random batch, and the initial values of the parameters."""
        draw = np.random.default_rng(self.seed)
        inputs = {}
        for value, name, _ in self.graph.arguments["batch"]:
            if value.element == "i64":
                inputs[name] = draw.integers(0, 5, value.shape)
            else:
                inputs[name] = draw.standard_normal(value.shape, np.float32)
        for value, name, init in self.graph.arguments["parameter"]:
            mean, scale = map(float, re.findall(r"(\S+) : f64", init))
            numbers = mean + scale * draw.standard_normal(value.shape)
            inputs[name] = numbers.astype(np.float32)
        return inputs


def list_cases(count, seed=0):
    """Graphs of both flavours, from a few ops to some hundred."""
    for i in range(seed, seed + count):
        yield Case(("layers", "random")[i % 2], i, (5, 20, 60, 140)[i // 2 % 4])


def assign(policy):
    return f"--binade-assign-pipeline=policy={{{policy}}}"


def opt(module, *passes):
    """The module after some passes, node names included; all of them verified."""
    process = subprocess.run(
        [OPT, "-verify-each", "--mlir-print-debuginfo", "--mlir-print-local-scope", *passes],
        input=module, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[:2000]
    return process.stdout


class Step:
    """The text of a training step, with one line for each op of `@step`."""

    def __init__(self, module):
        lines = module.split("\n")
        first = next(i for i, line in enumerate(lines) if "func.func @step(" in line)
        last = next(i for i in range(first, len(lines)) if "    return " in lines[i])
        self.head, self.ops = lines[: first + 1], lines[first + 1 : last]
        self.tail = lines[last:]

    def __str__(self):
        return "\n".join(self.head + self.ops + self.tail)

    @property
    def decisions(self):
        """The decision of each op, or None."""
        found = (DECISION.search(line) for line in self.ops)
        return [match and match[1] for match in found]

    def find_narrow(self, narrow="bf16"):
        """The indices of the ops that compute in the narrow format."""
        text = f"compute = {narrow},"
        return {i for i, d in enumerate(self.decisions) if d and text in d}

    def shuffle(self, seed):
        """The step with its ops in a random topological order, and that order."""
        names = re.compile(r"%[a-zA-Z0-9_]+")
        known = {}
        waiting, readers = [], [[] for _ in self.ops]
        for number, line in enumerate(self.ops):
            left, _, right = line.partition(" = ")
            operands = {known[n] for n in names.findall(right) if n in known}
            known.update((name, number) for name in names.findall(left))
            waiting.append(len(operands))
            for operand in operands:
                readers[operand].append(number)
        draw = random.Random(seed)
        ready = [number for number, count in enumerate(waiting) if not count]
        order = []
        while ready:
            position = draw.randrange(len(ready))
            ready[position], ready[-1] = ready[-1], ready[position]
            order.append(ready.pop())
            for reader in readers[order[-1]]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    ready.append(reader)
        assert len(order) == len(self.ops)
        other = object.__new__(Step)
        other.head, other.tail = self.head, self.tail
        other.ops = [self.ops[number] for number in order]
        return other, order
