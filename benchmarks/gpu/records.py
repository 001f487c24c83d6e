"""Part of run.py: each record of small bundles from the CPU's bytes, compared with what the
CPU makes of them, as `binade verify` does where a compiler is.

Every bundle runs twice: by its own kernels, and by NVIDIA's libraries, each record two times
from the same bytes. What is compared with is a file of `binade verify --save-expected`,
packed by prepare.py.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
from collections.abc import Iterator

import ml_dtypes
import numpy as np
from device import retain_context
from rows import Rows
from runtime import Program
from selection import is_wanted

TYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu, "I64": np.int64, "I32": np.int32,
    "I16": np.int16, "I8": np.int8, "U32": np.uint32, "U8": np.uint8, "BOOL": np.uint8,
}  # fmt: skip
WIDE = {"F64", "F32", "F16", "BF16"}  # A NaN is any NaN.
UNREAD = 0xFF


class Limits:
    """The limits of a record's results, by addresses: the results of attention gradients are
    the columns of one matrix, so that the bytes of one contain elements of the others."""

    def __init__(self):
        self.ranges: list[tuple[dict, np.ndarray, np.ndarray]] = []

    def add(self, access: dict, low: np.ndarray, high: np.ndarray) -> None:
        """Adds the limits of the elements of `access`; `low` and `high` are arrays of bytes."""
        dtype = TYPES[access["dtype"]]
        wide = [limit.view(dtype).astype(np.float64) for limit in (low, high)]
        self.ranges.append((access, *wide))

    def allow(
        self, access: dict, elements: np.ndarray, values: np.ndarray
    ) -> np.ndarray:
        """Returns for `elements` of `access` whether limits allow their `values`."""
        size = np.dtype(TYPES[access["dtype"]]).itemsize
        allowed = np.zeros(len(elements), bool)
        for other, low, high in self.ranges:
            if other["dtype"] != access["dtype"] or not len(low):
                continue
            shift = access["offset"] - other["offset"]
            at = elements + shift // size
            inside = (shift % size == 0) & (at >= 0) & (at < len(low))
            at = np.where(inside, at, 0)
            allowed |= inside & (low[at] <= values) & (values <= high[at])
        return allowed


def find_wrong(access: dict, got: bytes, expected: bytes, limits: Limits) -> np.ndarray:
    """Returns the elements that are neither the CPU's nor within the limits."""
    dtype = np.dtype(TYPES[access["dtype"]])
    size = dtype.itemsize
    bits = [np.frombuffer(b, np.uint8).reshape(-1, size) for b in (got, expected)]
    wrong = np.flatnonzero((bits[0] != bits[1]).any(1))
    values, wanted = (
        np.frombuffer(b, dtype)[wrong].astype(np.float64) for b in (got, expected)
    )
    allowed = limits.allow(access, wrong, values)
    if access["dtype"] in WIDE:
        allowed |= np.isnan(values) & np.isnan(wanted)
    return wrong[~allowed]


class Bundle:
    """A bundle on the device, and what is expected of it."""

    def __init__(self, path: pathlib.Path):
        self.name = path.stem
        self.tensors = np.load(path.with_suffix(".npz"))
        about = json.loads(self.tensors["records"].tobytes())
        self.records, self.runs = about["records"], about["runs"]
        self.statuses = about["statuses"]
        self.program = Program(path)

    def check(self) -> Iterator[str]:
        """What is wrong, record by record. `image` is the arena as the CPU has it."""
        run, image = None, bytearray(self.runs[0][0][1])
        for number, record in enumerate(self.records):
            if record["run"] != run:
                run = record["run"]
                self.enter(run, image)
            first, second = self.run(record, image), self.run(record, image)
            limits = self.find_limits(number, record)
            for index, access in enumerate(record["accesses"]):
                if not access["written"]:
                    continue
                name = f"{number}/{index}"
                expected = self.tensors[name].tobytes()
                wrong = find_wrong(access, first[index], expected, limits)
                if len(wrong):
                    yield self.describe(record, access, wrong, first[index], expected)
                elif first[index] != second[index]:
                    yield f"{self.name}: {record['label']}: other bits when it runs again"
                begin = access["offset"]
                image[begin : begin + access["bytes"]] = expected
            if any(any(self.program.read_arena(*word)) for word in self.statuses):
                yield f"{self.name}: {record['label']}: meets an index out of range"

    def find_limits(self, number: int, record: dict) -> Limits:
        limits = Limits()
        for index, access in enumerate(record["accesses"]):
            name = f"{number}/{index}"
            if f"{name}/low" in self.tensors:
                limits.add(
                    access, *(self.tensors[f"{name}/{x}"] for x in ("low", "high"))
                )
        return limits

    def enter(self, run: int, image: bytearray) -> None:
        """Gives what changes between two runs, such as the batch, to the image."""
        data, at = self.tensors[f"arena/{run}"].tobytes(), 0
        for offset, count in self.runs[run]:
            image[offset : offset + count] = data[at : at + count]
            at += count

    def run(self, record: dict, image: bytearray) -> dict[int, bytes]:
        """What the record's results have afterwards."""
        for offset, count in self.statuses:
            self.program.write_arena(offset, bytes(count))
        for access in record["accesses"]:
            begin, count = access["offset"], access["bytes"]
            before = bytes(image[begin : begin + count])
            self.program.write_arena(
                begin, bytes([UNREAD]) * count if access["unread"] else before
            )
        self.program.run_record(record["list"], record["path"], record["iteration"])
        return {
            index: self.program.read_arena(access["offset"], access["bytes"])
            for index, access in enumerate(record["accesses"])
            if access["written"]
        }

    def describe(self, record, access, wrong, got: bytes, expected: bytes) -> str:
        first = int(wrong[0])
        values, wanted = (
            np.frombuffer(b, TYPES[access["dtype"]]) for b in (got, expected)
        )
        return (
            f"{self.name}: {record['label']}: {len(wrong)} of {len(values)} elements, "
            f"element {first} is {values[first]} for {wanted[first]}"
        )


def check(path: pathlib.Path) -> tuple[list[str], int]:
    """What is wrong with a bundle, and how many records it has. What ends the device's
    context is wrong, too."""
    found, count = [], 0
    try:
        bundle = Bundle(path)
        count = len(bundle.records)
        found.extend(bundle.check())
    except RuntimeError as error:
        found.append(f"{path.stem}: {error}")
    return found, count


def main(folder: pathlib.Path, out: pathlib.Path) -> int:
    rows, checked, wrong = Rows(out), {}, []
    retain_context()
    paths = sorted((folder / "records").glob("*.bnd"))
    paths = [path for path in paths if is_wanted(path.stem)]
    for by in ("own", "auto"):
        os.environ["BINADE_CONTRACTION"] = by
        for path in paths:
            found, count = check(path)
            wrong += [f"{by}: {message}" for message in found]
            checked[f"{by}: {path.stem}"] = {"records": count, "wrong": len(found)}
            rows.note(records_checked=checked, records_wrong=wrong)
            print(
                f"  {by}, {path.stem}: {count} records, {len(found)} wrong", flush=True
            )
            for message in found[:5]:
                print(f"    {message}", file=sys.stderr, flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(pathlib.Path, sys.argv[1:])))
