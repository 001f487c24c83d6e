"""Runs a command on an invalid or hostile file.

The command must reject the file: with an exit code of docs/ExitCodes.md and one printable
error that names the file and the part of it, and within the address space and time that a
small file needs, whatever sizes the file claims.
"""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
from pathlib import Path

import onnx
from support.paths import BUILD

MEMORY = 3 << 30  # Bytes of address space, of which MLIR's libraries use half a GiB.
SECONDS = 20  # CPU time, which does not depend on the machine's load.
HANGS = 600  # Wall-clock seconds: a blocked process uses no CPU time.

HEAD = '<ir_version: {}, opset_import: ["" : {}]> '


def limit_resources():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(tool, *arguments, cwd=None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [BUILD / "bin" / tool, *map(str, arguments)], cwd=cwd, capture_output=True,
        timeout=HANGS, preexec_fn=limit_resources,
    )  # fmt: skip


def refuse(code, words, tool, *arguments, cwd=None) -> str:
    """Checks that a command fails with one error that contains `words`; returns it."""
    done = run(tool, *arguments, cwd=cwd)
    text = done.stderr.decode()
    assert done.returncode == code, f"{done.returncode}\n{text[:2000]}"
    assert text.count(": error: ") == 1, text
    for word in [words] if isinstance(words, str) else words:
        assert word in text, text
    assert text.isprintable() or text.replace("\n", "").isprintable(), repr(text)
    assert len(text) < 4000, text
    return text


def parse(graph: str, opset: int = 20, ir: int = 10) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEAD.format(ir, opset) + graph)


def write(model, path: Path) -> Path:
    """Writes `model`: bytes, a graph as text, or a model."""
    if isinstance(model, str):
        model = parse(model)
    if not isinstance(model, bytes):
        model = model.SerializeToString()
    path.write_bytes(model)
    return path


def change_plan(bundle: Path, path: Path, change) -> None:
    """Writes a bundle whose plan `change` has changed, with a hash that fits."""
    data = bundle.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    about = header.pop("__metadata__")
    parts, offset = [], 0
    for name, entry in sorted(header.items(), key=lambda x: x[1]["data_offsets"]):
        begin, stop = entry["data_offsets"]
        part = data[end + begin : end + stop]
        if name == "plan":
            plan = json.loads(part)
            change(plan)
            part = json.dumps(plan).encode()
            entry["shape"] = [len(part)]
            about["sha256.plan"] = hashlib.sha256(part).hexdigest()
        entry["data_offsets"] = [offset, offset + len(part)]
        offset += len(part)
        parts.append(part)
    head = json.dumps({"__metadata__": about, **header}).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + b"".join(parts))
