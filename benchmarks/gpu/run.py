#!/usr/bin/env python3
"""Every check and measurement that needs a GPU, from what prepare.sh has made.

    benchmarks/gpu/run.sh [--artifacts FOLDER] [--out FOLDER] [PART...]

Needs NVIDIA's driver, Python with NumPy and ml_dtypes and, for peers, PyTorch; nothing of
Binade's compiler, LLVM or CUDA. Takes less than twelve minutes: each part ends after its
time, what it has measured is kept, and the next part begins. Parts, checks first; all that
the artifacts have unless some are named:

  conversions  every edge of every narrow format, by the device's instructions
  expansion    formats that expand ranges: the bits of the reference
  records      small bundles, each record from the CPU's bytes, by the bundle's own
               kernels and by NVIDIA's libraries, twice
  models       small models in several policies, on the CPU and twice on the device
  kernels      updates and quantizers against a copy, PyTorch, bitsandbytes, torchao
  statistics   what all statistics in each step cost
  steps        GPT-2 and Llama, time, memory and where the time goes, against
               torch.compile
  rates        what memory, caches, arithmetic units, launches, matmuls and fused
               attention reach, for models of costs

Writes DEVICE-DATE.json and .md into --out (benchmarks/gpu/results), anew with each result
that is there, so that a run that is cut off keeps what it had: commit them.
Exit codes: 0; 1 if a part failed; 2 for a wrong command line; 6 without a device.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import report
from artifacts import FOLDER, PARTS, find_commit, read_manifest
from rows import replace

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = {"conversions": "checks.py", "expansion": "checks.py", "records": "records.py",
            "models": "checks.py", "kernels": "kernels.py", "statistics": "watched.py",
            "steps": "whole.py", "rates": "rates.py"}  # fmt: skip
POLL = 0.5  # Seconds between looks at what a part has written.
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


class Results:
    """The file of results and its page, written anew when a part has something new."""

    def __init__(self, path: pathlib.Path, about: dict):
        self.path, self.about = path, about
        self.parts: list[dict] = []
        self.written: list[dict] = []  # By each part: its rows, and what else it knows.

    def add(self, part: dict) -> None:
        self.parts.append(part)
        self.written.append({"rows": [], "facts": {}})

    def update(self, written: dict) -> None:
        self.written[-1] = written
        self.write()

    def write(self) -> None:
        result = self.about | {"parts": self.parts, "rows": []}
        for written in self.written:
            result["rows"] += written["rows"]
            result |= written["facts"]
        replace(self.path, json.dumps(result, indent=1) + "\n")
        replace(self.path.with_suffix(".md"), report.render_file(self.path))


def stop(child: subprocess.Popen) -> None:
    """And whatever it has started: nothing may hold the device when the next begins."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def run_part(
    name: str,
    limit: float,
    artifacts: pathlib.Path,
    folder: pathlib.Path,
    environment: dict,
    results: Results,
) -> None:
    print(f"{name}: at most {limit:.0f} s", flush=True)
    out, errors = folder / f"{name}.json", folder / f"{name}.txt"
    arguments = [str(artifacts), str(out)]
    if PROGRAMS[name] == "checks.py":
        arguments.insert(0, name)
    part = {"name": name, "status": "stopped", "message": "", "seconds": 0.0}
    results.add(part)
    start, seen = time.perf_counter(), None
    with errors.open("w") as log:
        child = subprocess.Popen(
            [sys.executable, HERE / PROGRAMS[name], *arguments], env=environment,
            stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(POLL)
                part["seconds"] = round(time.perf_counter() - start, 1)
                isOver = child.returncode is not None or part["seconds"] > limit
                if isOver:
                    break
                if out.exists() and (now := out.stat().st_mtime_ns) != seen:
                    seen = now
                    results.update(json.loads(out.read_text()))
        finally:
            stop(child)
    said = errors.read_text().strip()
    if child.returncode == 0:
        part["status"] = "passed"
    elif child.returncode == -signal.SIGKILL and part["seconds"] > limit:
        part["message"] = f"not done after {limit:.0f} s"
    else:
        part["status"] = "failed"
        part["message"] = said.split("\n")[-1][:500] or f"exit code {child.returncode}"
        print(said, file=sys.stderr)
    print(f"{name}: {part['status']} after {part['seconds']:.0f} s {part['message']}",
          flush=True)  # fmt: skip
    if out.exists():
        results.update(json.loads(out.read_text()))
    results.write()


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="parts (default: all prepared ones)"
    )
    parser.add_argument(
        "--artifacts", type=pathlib.Path, default=FOLDER, help="what prepare.sh wrote"
    )
    parser.add_argument(
        "--out", type=pathlib.Path, default=report.RESULTS, help="folder of results"
    )
    parser.add_argument(
        "--time", type=float, default=1, help="factor for the time limits of parts"
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
            "benchmarks/gpu/results/predicted-h100.md",
            file=sys.stderr,
        )
        return NO_DEVICE
    print(f"{device['device_line']}; driver {device['driver']}", flush=True)
    isSimulated = device["device"].startswith("Simulated")
    about = {
        "standing": "simulated: the times mean nothing" if isSimulated else "measured",
        **device, "date": datetime.date.today().isoformat(),
        "commit": find_commit(), "artifacts": manifest["commit"], "copy_gbs": 0,
    }  # fmt: skip
    arguments.out.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^a-z0-9]+", "-", device["device"].lower()).strip("-")
    results = Results(arguments.out / f"{slug}-{about['date']}.json", about)
    # Who ends this process ends the part that runs, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.parts or manifest.get("parts", PARTS):
            limit = PARTS[name] * arguments.time
            run_part(name, limit, artifacts, pathlib.Path(folder), environment, results)
    print(results.path)
    return int(any(part["status"] != "passed" for part in results.parts))


if __name__ == "__main__":
    sys.exit(main())
