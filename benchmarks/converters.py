"""Converters of ONNX files to f16, and what one conversion takes: each is a process of its
own. Run as a program, it is that process.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import onnx
from exported_models import ROOT

BUILD = pathlib.Path(os.environ.get("BINADE_BUILD", ROOT / "build" / "release"))
TIMEOUT = 1200


def convert_by_common(source: str) -> onnx.ModelProto:
    from onnxconverter_common import float16

    return float16.convert_float_to_float16(onnx.load(source), keep_io_types=True)


def convert_by_onnxruntime(source: str) -> onnx.ModelProto:
    from onnxruntime.transformers import float16

    model = onnx.load(source)
    return float16.convert_float_to_float16(model, keep_io_types=True) or model


def convert_by_modelopt(source: str) -> onnx.ModelProto:
    from modelopt.onnx.autocast import convert_to_mixed_precision

    return convert_to_mixed_precision(
        source, low_precision_type="fp16", keep_io_types=True
    )


PEERS = {
    "onnxconverter-common": (convert_by_common, "onnxconverter_common"),
    "onnxruntime.transformers": (convert_by_onnxruntime, "onnxruntime.transformers"),
    "modelopt autocast": (convert_by_modelopt, "modelopt.onnx"),
}


def work(tool: str, source: str, target: str) -> None:
    """One conversion by a peer, in a process of its own."""
    model = PEERS[tool][0](source)
    data = pathlib.Path(target).name + ".data"
    onnx.save(model, target, save_as_external_data=True, location=data)


def is_installed(module: str) -> bool:
    command = [sys.executable, "-c", f"import {module}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def get_command(tool: str, source: pathlib.Path, target: pathlib.Path) -> list[str]:
    if tool == "binade":
        options = ["--policy", "fp16-amp", "-o", str(target)]
        return [str(BUILD / "bin" / "binade"), "convert", str(source), *options]
    return [sys.executable, __file__, tool, str(source), str(target)]


def read_peak(pid: int) -> float:
    """MiB that a process has had at most; `ru_maxrss` would count its parent's, too."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"VmHWM:\s*(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


def time_conversion(tool: str, source: pathlib.Path, target: pathlib.Path) -> dict:
    """Seconds and MiB of the process, or why it failed."""
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            get_command(tool, source, target), stdout=subprocess.DEVNULL, stderr=errors
        )
        result = {"mib": 0.0}
        while process.poll() is None:
            result["mib"] = max(result["mib"], read_peak(process.pid))
            if time.perf_counter() > start + TIMEOUT:
                process.kill()
            time.sleep(0.002)
        result["seconds"] = time.perf_counter() - start
        if process.returncode:
            errors.seek(0)
            lines = errors.read().strip().splitlines()
            result["failed"] = "converting: " + (lines or ["no message"])[-1]
    return result


if __name__ == "__main__":
    work(*sys.argv[1:])
