#!/usr/bin/env python3
"""Every check and measurement that needs a GPU, from what prepare.sh has made.

    benchmarks/gpu/run.sh [--artifacts FOLDER] [--out FOLDER] [PART...]

Needs NVIDIA's driver, Python with NumPy and ml_dtypes and, for peers, PyTorch; nothing of
Binade's compiler, LLVM or CUDA. Takes less than eight minutes: each part ends after its
time, what it has measured is kept, and the next part begins. Parts:

  conversions  every edge of every narrow format, by the device's instructions
  models       small models in several policies, on the CPU and twice on the device
  kernels      updates and quantizers against a copy, PyTorch, bitsandbytes, torchao
  steps        GPT-2 and Llama, time and memory, against torch.compile
  profiles     where the time of these steps goes

Writes DEVICE-DATE.json and .md into --out (benchmarks/gpu/results): commit them.
Exit codes: 0; 1 if a part failed; 2 for a wrong command line; 6 without a device.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import report
from artifacts import FOLDER, find_commit, read_manifest

HERE = pathlib.Path(__file__).resolve().parent
# Seconds that each part may take.
PARTS = {"conversions": 45, "models": 60, "kernels": 150, "steps": 180, "profiles": 40}
PROGRAMS = {"conversions": "checks.py", "models": "checks.py", "kernels": "kernels.py",
            "steps": "whole.py", "profiles": "profiles.py"}  # fmt: skip
NO_DEVICE = 6


def find_libraries() -> list[str]:
    """Folders of cuBLASLt, which comes with PyTorch or with CUDA."""
    found = []
    for name in ("torch", "nvidia"):
        spec = importlib.util.find_spec(name)
        for root in spec.submodule_search_locations or [] if spec else []:
            root = pathlib.Path(root)
            roots = [root / "lib", root.parent / "nvidia"]
            for place in roots:
                found += [path.parent for path in place.rglob("libcublasLt.so.1?")]
    found += [
        path.parent
        for path in pathlib.Path("/usr/local").glob("cuda*/lib64/libcublasLt.so.1?")
    ]
    return list(dict.fromkeys(map(str, found)))


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


def run_part(
    name: str,
    limit: float,
    artifacts: pathlib.Path,
    folder: pathlib.Path,
    environment: dict,
) -> tuple[dict, dict]:
    """What became of it, and what it has written."""
    print(f"{name}: at most {limit:.0f} s", flush=True)
    out, start = folder / f"{name}.json", time.perf_counter()
    arguments = [str(artifacts), str(out)]
    if PROGRAMS[name] == "checks.py":
        arguments.insert(0, name)
    status, message = "passed", ""
    try:
        done = subprocess.run(
            [sys.executable, HERE / PROGRAMS[name], *arguments], env=environment,
            stderr=subprocess.PIPE, text=True, timeout=limit, check=False,
        )  # fmt: skip
        if done.returncode:
            status, message = "failed", done.stderr.strip().split("\n")[-1][:500]
            print(done.stderr, file=sys.stderr)
    except subprocess.TimeoutExpired:
        status, message = "stopped", f"not done after {limit:.0f} s"
    seconds = time.perf_counter() - start
    print(f"{name}: {status} after {seconds:.0f} s {message}", flush=True)
    written = json.loads(out.read_text()) if out.exists() else {"rows": [], "facts": {}}
    part = {
        "name": name,
        "status": status,
        "message": message,
        "seconds": round(seconds, 1),
    }
    return part, written


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="all unless named")
    parser.add_argument("--artifacts", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--out", type=pathlib.Path, default=report.RESULTS)
    parser.add_argument(
        "--time", type=float, default=1, help="times what parts may take"
    )
    made = parser.parse_args(arguments)
    unknown = [name for name in made.parts if name not in PARTS]
    if unknown:
        parser.error(f"no part is called {unknown[0]}; there are {', '.join(PARTS)}")
    return made


def main() -> int:
    arguments = parse()
    artifacts = arguments.artifacts.resolve()
    manifest, environment = read_manifest(artifacts), make_environment(artifacts)
    device = find_device(environment)
    if isinstance(device, str):
        print(
            "run: error: these measurements need a CUDA device, and there is none:\n"
            f"{device}\nrun: note: what is predicted without one: "
            "benchmarks/gpu/results/predicted-h200.md",
            file=sys.stderr,
        )
        return NO_DEVICE
    print(f"{device['device_line']}; driver {device['driver']}", flush=True)
    isSimulated = device["device"].startswith("Simulated")
    result = {
        "standing": "simulated: the times mean nothing" if isSimulated else "measured",
        **device, "date": datetime.date.today().isoformat(),
        "commit": find_commit(), "artifacts": manifest["commit"], "copy_gbs": 0,
        "parts": [], "rows": [],
    }  # fmt: skip
    arguments.out.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^a-z0-9]+", "-", device["device"].lower()).strip("-")
    path = arguments.out / f"{slug}-{result['date']}.json"
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.parts or PARTS:
            limit = PARTS[name] * arguments.time
            part, written = run_part(
                name, limit, artifacts, pathlib.Path(folder), environment
            )
            result["parts"].append(part)
            result["rows"] += written["rows"]
            result |= written["facts"]
            path.write_text(json.dumps(result, indent=1) + "\n")
            path.with_suffix(".md").write_text(report.render_file(path))
    print(path)
    return int(any(part["status"] != "passed" for part in result["parts"]))


if __name__ == "__main__":
    sys.exit(main())
