"""The machine that run.py runs on: its device, versions and libraries."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import subprocess


# Of cuBLASLt, cuDNN and the compiler that cuDNN uses.
LIBRARIES = ("libcublasLt.so.1?", "libcudnn.so.[89]", "libnvrtc.so.1?")


def find_libraries() -> list[str]:
    """Returns the folders of NVIDIA's libraries, which come with PyTorch or with CUDA."""
    roots = list(pathlib.Path("/usr/local").glob("cuda*/lib64"))
    for name in ("torch", "nvidia"):
        spec = importlib.util.find_spec(name)
        for root in spec.submodule_search_locations or [] if spec else []:
            root = pathlib.Path(root)
            roots += [root / "lib", root.parent / "nvidia"]
    found = [
        str(path.parent)
        for root in roots
        for library in LIBRARIES
        for path in root.rglob(library)
    ]
    return list(dict.fromkeys(found))


def make_environment(artifacts: pathlib.Path) -> dict[str, str]:
    runtime = artifacts / "runtime"
    paths = [os.environ.get("LD_LIBRARY_PATH", ""), *find_libraries()]
    environment = os.environ | {
        "BINADE_RUNTIME": str(runtime / "lib/libbinade_runtime.so"),
        "BINADE_RUN": str(runtime / "bin/binade-run"),
        "LD_LIBRARY_PATH": ":".join(path for path in paths if path),
        "PYTHONUNBUFFERED": "1",
    }
    if (artifacts / "ir").exists():
        environment.setdefault("BINADE_SIMULATED_KERNELS", str(artifacts / "ir"))
    return environment


def find_device(environment: dict[str, str]) -> dict | str:
    """Its name and versions, or why there is none."""
    done = subprocess.run(
        [environment["BINADE_RUN"], "--list-devices"], env=environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        return done.stderr.strip()
    line = re.search(r"^cuda:0 +(.*)$", done.stdout, re.MULTILINE)
    if not line:
        return done.stdout[done.stdout.find("cuda") :].strip()
    name = line[1].split(",")[0].strip()
    return {"device": name, "device_line": line[1], **find_versions()}


def find_versions() -> dict:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=False)
        driver = done.stdout.split("\n")[0].strip() or "unknown"
    except OSError:
        driver = "unknown"
    torch = cuda = None
    if importlib.util.find_spec("torch"):
        import torch as found

        torch, cuda = found.__version__, found.version.cuda
    return {"driver": driver, "cuda": cuda or "unknown", "torch": torch}
