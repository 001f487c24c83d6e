"""Reads the memory of a compiled step after any of its records.

A plan is a list of records that work on one block of memory, the arena. A copy of the
bundle whose list ends early leaves the arena as it is at that point of the step.
"""

import ctypes
import hashlib
import json

import ml_dtypes
import numpy as np
from support.reference import safetensors
from support.runtime import Runtime, Tensor

TYPES = {
    "F64": np.float64, "F32": np.float32, "BF16": ml_dtypes.bfloat16, "F16": np.float16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2,
    "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "BOOL": np.bool_,
}  # fmt: skip


class Bundle:
    def __init__(self, path):
        self.path, self.metadata = path, safetensors.read_header(path).metadata
        self.tensors = safetensors.load(path)
        self.plan = json.loads(self.tensors["plan"].tobytes())

    def load(self, records=None, seed=0):
        """Loads the program with `records` instead of all records."""
        path = self.path
        if records is not None:
            # In the folder of the original: external weights are found by relative path.
            path = path.with_suffix(".cut.bnd")
            self.write(path, self.plan | {"records": records})
        return Arena(self.plan, path, seed)

    def write(self, path, plan):
        """Writes a copy of the bundle with `plan` and its hash."""
        text = json.dumps(plan).encode()
        tensors = self.tensors | {"plan": np.frombuffer(text, np.uint8)}
        digest = hashlib.sha256(text).hexdigest()
        safetensors.save(path, tensors, self.metadata | {"sha256.plan": digest})

    def buffers(self, category):
        return [i for i, b in enumerate(self.plan["buffers"])
                if b["category"] == category]  # fmt: skip

    def find_record(self, word):
        """The first record whose label, or a nested record's, begins with `word`."""
        for index, record in enumerate(self.plan["records"]):
            if any(r["label"].startswith(word) for r in flatten([record])):
                return index
        raise AssertionError(f"no record is called {word}")


def flatten(records):
    for record in records:
        yield record
        yield from flatten(record.get("body", []))


class Arena:
    def __init__(self, plan, path, seed):
        self.plan, self.runtime = plan, Runtime()
        code, self.program = self.runtime.load(path, seed=seed)
        assert code == 0, self.runtime.error()
        port, tensor = plan["ports"][0], Tensor()
        self.program.tensor(
            port["role"].encode(), port["name"].encode(), ctypes.byref(tensor)
        )
        self.start = tensor.data - plan["buffers"][port["buffer"]]["offset"]

    def run(self, batch=None):
        for name, array in (batch or {}).items():
            assert self.program.assign("batch", name, array) == 0, self.runtime.error()
        assert self.program.run() == 0, self.runtime.error()
        return self

    def memory(self):
        """A writable view of the whole arena."""
        size = self.plan["arena_bytes"]
        return np.frombuffer((ctypes.c_byte * size).from_address(self.start), np.uint8)

    def __getitem__(self, index):
        """A copy of the current contents of buffer `index`."""
        buffer = self.plan["buffers"][index]
        data = self.memory()[buffer["offset"] :][: buffer["bytes"]].copy()
        return data.view(TYPES[buffer["dtype"]]).reshape(buffer["shape"])

    def port(self, role, name):
        [port] = [
            p for p in self.plan["ports"] if (p["role"], p["name"]) == (role, name)
        ]
        return self[port["buffer"]]
