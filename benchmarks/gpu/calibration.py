"""Measured kernels and matmuls with their work: results/calibration/*.json."""

from __future__ import annotations

import collections
import dataclasses
import json
import math
import pathlib
from collections.abc import Iterator

from attention_costs import Attention, predict_attention
from chips import Chip
from costs import predict_copy, predict_launch
from counts import Launch, Operand, Work
from goals import PREDICTED_KERNELS
from matmul_costs import Matmul, predict_matmul
from reuse import Histogram

FOLDER = pathlib.Path(__file__).resolve().parent / "results/calibration"
# Seconds that timing a kernel by itself adds, within 1.5 us, as kernels with one thread show.
TIMER = 4.6e-6
# Shorter calls are not compared, because of that error. Where the host launches so slowly
# that a kernel with one thread takes longer than SLOW_HOST, SHORTEST_OF_SLOW_HOST counts.
SHORTEST, SHORTEST_OF_SLOW_HOST = 12e-6, 50e-6
SLOW_HOST = 6e-6
# Their work depends on the values of indices, which are not the measured ones here.
DEPENDS_ON_VALUES = ("gather",)


@dataclasses.dataclass
class KernelRow:
    """The calls of a kernel in a step. `variants` has what one call launches, how often the
    step calls it so, and the shares of the operands that are in L2 then."""

    source: str  # The step, or the case.
    name: str
    seconds: float  # Of a call.
    variants: list[tuple[int, list[Launch], list[list[float]]]]

    @property
    def calls(self) -> int:
        return sum(times for times, _, _ in self.variants)

    @property
    def is_predictable(self) -> bool:
        return not self.name.startswith(DEPENDS_ON_VALUES)

    @property
    def is_of_one_thread(self) -> bool:
        return all(
            launch.grid * launch.threads == 1
            for _, launches, _ in self.variants
            for launch in launches
        )

    def predict(self, chip: Chip) -> float:
        return sum(
            times * predict_launch(launch, chip, shares).seconds
            for times, launches, cached in self.variants
            for launch, shares in zip(launches, cached, strict=True)
        ) / self.calls  # fmt: skip


@dataclasses.dataclass
class MatmulRow:
    """Calls of matmuls that a profile does not distinguish."""

    source: str
    seconds: float  # Of a call, on average.
    matmuls: list[tuple[int, Matmul]]

    @property
    def name(self) -> str:
        shapes = {f"{x.m} x {x.n} x {x.k}" for _, x in self.matmuls}
        return "matmul " + ", ".join(sorted(shapes))

    @property
    def calls(self) -> int:
        return sum(times for times, _ in self.matmuls)

    is_predictable = True

    def predict(self, chip: Chip) -> float:
        return (
            sum(n * predict_matmul(chip.chip, x) for n, x in self.matmuls) / self.calls
        )


@dataclasses.dataclass
class AttentionRow:
    """Calls of cuDNN's attention, or of its gradients."""

    source: str
    name: str
    seconds: float  # Of a call.
    attention: list[tuple[int, Attention]]
    is_predictable = True

    @property
    def calls(self) -> int:
        return sum(times for times, _ in self.attention)

    def predict(self, chip: Chip) -> float:
        return (
            sum(
                times * predict_attention(attention, chip.law_of(attention))
                for times, attention in self.attention
            )
            / self.calls
        )


@dataclasses.dataclass
class CopyRow:
    """Copies without a kernel of their own."""

    source: str
    name: str
    seconds: float
    calls: int
    copied: float  # Bytes that a call writes.
    is_predictable = False

    def predict(self, chip: Chip) -> float:
        return predict_copy(self.copied, chip).seconds


Row = KernelRow | MatmulRow | AttentionRow | CopyRow


@dataclasses.dataclass
class Calibration:
    """`steps` has the measured seconds of whole steps."""

    steps: dict[str, float]
    rows: list[Row]

    def list_comparable(self) -> Iterator[Row]:
        """The rows whose time says how long the GPU took."""
        for row in self.rows:
            if row.is_predictable and row.seconds >= self.find_shortest(row.source):
                yield row

    def find_shortest(self, source: str) -> float:
        shortest = [
            row.seconds
            for row in self.rows
            if isinstance(row, KernelRow)
            and row.source == source
            and row.is_of_one_thread
        ]
        is_slow = shortest and max(shortest) > SLOW_HOST
        return SHORTEST_OF_SLOW_HOST if is_slow else SHORTEST

    def predict_step(self, step: str, chip: Chip) -> float:
        return sum(
            row.calls * row.predict(chip) for row in self.rows if row.source == step
        )


def judge(chip: Chip) -> list[dict]:
    """Returns rows of how far the predictions of measured steps, and of their kernels, are
    from the measurements."""
    known, rows = read(chip.chip), []
    for step, seconds in known.steps.items():
        predicted = known.predict_step(step, chip)
        rows.append(
            {"part": "steps", "name": step, "title": f"{step}, as calibrated",
             "ms": round(1e3 * seconds, 2), "predicted_ms": round(1e3 * predicted, 2)}
        )  # fmt: skip
    errors = {
        f"{row.name} of {row.source}": row.predict(chip) / row.seconds - 1
        for row in known.list_comparable()
    }
    far = {name: x for name, x in errors.items() if abs(x) > PREDICTED_KERNELS}
    rows.append(
        {"part": "kernels", "name": "calibration", "title": "kernels, as calibrated",
         "within": len(errors) - len(far), "compared": len(errors),
         "far": {name: round(x, 3) for name, x in far.items()}}
    )  # fmt: skip
    return rows


def pack_launch(launch: Launch) -> dict:
    packed = dataclasses.asdict(launch)
    packed["operands"] = [
        [x.bytes, x.read, x.written, sorted(x.reuse.items())] for x in launch.operands
    ]
    packed["work"] = {k: round(v, 2) for k, v in packed["work"].items() if v}
    return packed


def unpack_launch(packed: dict) -> Launch:
    operands = [
        Operand(size, read, written, Histogram(dict(reuse)))
        for size, read, written, reuse in packed["operands"]
    ]
    return Launch(**packed | {"work": Work(**packed["work"]), "operands": operands})


def keep_accessed(launch: Launch, shares: list[float]) -> tuple[Launch, list[float]]:
    """Leaves out the operands that a block does not access, and their shares."""
    kept = [
        (operand, round(share, 3))
        for operand, share in zip(launch.operands, shares, strict=True)
        if operand.read or operand.written or operand.reuse
    ]
    operands = [operand for operand, _ in kept]
    return dataclasses.replace(launch, operands=operands), [share for _, share in kept]


def pack(calibration: Calibration) -> dict:
    kinds = collections.defaultdict(list)
    for row in calibration.rows:
        fields = {x.name: getattr(row, x.name) for x in dataclasses.fields(row)}
        fields["seconds"] = float(f"{row.seconds:.4g}")
        if isinstance(row, KernelRow):
            fields["variants"] = [
                [times, [*map(pack_launch, launches)], cached]
                for times, launches, cached in row.variants
            ]
        elif isinstance(row, MatmulRow):
            fields["matmuls"] = [[n, dataclasses.asdict(x)] for n, x in row.matmuls]
        elif isinstance(row, AttentionRow):
            fields["attention"] = [[n, dataclasses.asdict(x)] for n, x in row.attention]
        kinds[type(row).__name__].append(fields)
    return {"steps": calibration.steps, **kinds}


def unpack(packed: dict) -> Calibration:
    rows: list[Row] = []
    for fields in packed["KernelRow"]:
        variants = [
            (times, [*map(unpack_launch, launches)], cached)
            for times, launches, cached in fields["variants"]
        ]
        rows.append(KernelRow(**fields | {"variants": variants}))
    for fields in packed["MatmulRow"]:
        matmuls = [(n, Matmul(**x)) for n, x in fields["matmuls"]]
        rows.append(MatmulRow(**fields | {"matmuls": matmuls}))
    for fields in packed.get("AttentionRow", []):
        attention = [(n, Attention(**x)) for n, x in fields["attention"]]
        rows.append(AttentionRow(**fields | {"attention": attention}))
    rows += [CopyRow(**fields) for fields in packed["CopyRow"]]
    return Calibration(packed["steps"], rows)


def read(name: str) -> Calibration:
    return unpack(json.loads((FOLDER / f"{name}.json").read_text()))


def write(name: str, calibration: Calibration) -> pathlib.Path:
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.json"
    rows = pack(calibration)
    lines = ",\n".join(
        f'"{kind}": [\n' + ",\n".join(map(json.dumps, found)) + "]"
        if isinstance(found, list)
        else f'"{kind}": {json.dumps(found)}'
        for kind, found in rows.items()
    )
    path.write_text("{" + lines + "}\n")
    return path


def find_error(row: Row, chip: Chip) -> float:
    """The logarithm of predicted over measured time."""
    return math.log(row.predict(chip) / row.seconds)
