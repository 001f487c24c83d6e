"""What converters to f16 make of exported training graphs: whether the result is valid, runs
and is finite, how far it is from f32, and what it takes to make it.

Each conversion is a process of its own. Peers that are not installed are left out by name.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("BINADE_BUILD", ROOT / "build" / "release"))
MODELS = pathlib.Path(
    os.environ.get("BINADE_MODELS", ROOT.parent / "shared" / "models")
)
sys.path.insert(0, str(ROOT / "python"))
KINDS = ["model", "loss", "grads", "train_step.adamw"]
TIMEOUT = 240

# --- Converters ---------------------------------------------------------------


def convert_by_common(source: str) -> onnx.ModelProto:
    from onnxconverter_common import float16

    return float16.convert_float_to_float16(onnx.load(source), keep_io_types=True)


def convert_by_onnxruntime(source: str) -> onnx.ModelProto:
    from onnxruntime.transformers import float16

    model = onnx.load(source)
    return float16.convert_float_to_float16(model, keep_io_types=True) or model


def convert_by_modelopt(source: str) -> onnx.ModelProto:
    from modelopt.onnx.autocast import convert_to_mixed_precision

    return convert_to_mixed_precision(source, low_precision_type="fp16")


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
    return [sys.executable, __file__, "--work", tool, str(source), str(target)]


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


# --- What was made ------------------------------------------------------------


def read_feeds(source: pathlib.Path) -> dict:
    """A first batch, the initial parameters, and states of zeros."""
    from binade import safetensors

    batch = np.load(source.parent / "inputs.npz")
    stored = source.parent / "weights.safetensors"
    weights = safetensors.load(stored) if stored.exists() else {}
    feeds = {}
    for value in onnx.load(source, load_external_data=False).graph.input:
        type = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(type.elem_type)
        if value.name in batch.files:
            array = batch[value.name]
            array = array[0] if array.ndim > len(type.shape.dim) else array
        elif value.name in weights:
            array = weights[value.name]
        else:
            shape = [size.dim_value for size in type.shape.dim]
            array = np.full(shape, value.name == "step")
        feeds[value.name] = np.asarray(array).astype(dtype)
    return feeds


def run(path: pathlib.Path, feeds: dict) -> dict:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds)))


def judge(target: pathlib.Path, feeds: dict, exact: dict, result: dict) -> None:
    """Adds whether the file is valid, and how far its outputs are from f32."""
    try:
        onnx.checker.check_model(target, full_check=True)
        result["valid"] = True
    except Exception as error:  # noqa: BLE001 - whatever the checker raises.
        result["valid"] = False
        result["failed"] = "checking: " + " ".join(str(error).split())
    try:
        outputs = run(target, feeds)
    except Exception as error:  # noqa: BLE001 - whatever onnxruntime raises.
        result["failed"] = "running: " + " ".join(str(error).split())
        return
    difference = total = 0.0
    for name, value in exact.items():
        got = np.float64(outputs[name])
        if not np.isfinite(got).all():
            result["failed"] = f"output {name} is not finite"
            return
        difference += np.square(got - value).sum()
        total += np.square(np.float64(value)).sum()
    result["error"] = float(np.sqrt(difference / total))


def list_graphs(folders: list[str]) -> list[pathlib.Path]:
    return [
        path
        for folder in folders
        for kind in KINDS
        if (path := MODELS / folder / f"{kind}.onnx").exists()
    ]


def list_folders() -> list[str]:
    return sorted(path.parent.name for path in MODELS.glob("*/weights.safetensors"))


# --- Tables -------------------------------------------------------------------


def print_table(results: dict[str, dict[str, dict]]) -> None:
    print("| converter | " + " | ".join(KINDS) + " | valid | error, median | worst |")
    print("|---" * (len(KINDS) + 4) + "|")
    for tool, graphs in results.items():
        cells = []
        for kind in KINDS:
            of_kind = [r for name, r in graphs.items() if name.endswith("/" + kind)]
            works = sum("error" in r for r in of_kind)
            cells.append(f"{works}/{len(of_kind)}")
        valid = sum(r.get("valid", False) for r in graphs.values())
        cells.append(f"{valid}/{len(graphs)}")
        errors = [r["error"] for r in graphs.values() if "error" in r]
        cells += (
            [f"{np.median(errors):.1e}", f"{max(errors):.1e}"] if errors else ["", ""]
        )
        print(f"| {tool} | " + " | ".join(cells) + " |")


def print_costs(results: dict[str, list[dict]], graph: str) -> None:
    print(f"\n| {graph} | seconds, median | least to most | peak MiB | error |")
    print("|---|---|---|---|---|")
    for tool, runs in results.items():
        if failed := next((r["failed"] for r in runs if "failed" in r), None):
            print(f"| {tool} | {failed[:120]} | | | |")
            continue
        seconds = [r["seconds"] for r in runs]
        print(
            f"| {tool} | {np.median(seconds):.2f} | {min(seconds):.2f} to "
            f"{max(seconds):.2f} | {max(r['mib'] for r in runs):.0f} | "
            f"{runs[0].get('error', float('nan')):.1e} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", help="of the models; those with weights")
    parser.add_argument("--big", type=pathlib.Path, help="a graph to repeat")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, help="where all numbers go")
    parser.add_argument("--tools", nargs="+", choices=list(PEERS), help="peers; all")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        return work(*arguments.work)
    tools = ["binade"]
    for tool, (_, module) in PEERS.items():
        if arguments.tools and tool not in arguments.tools:
            continue
        if is_installed(module):
            tools.append(tool)
        else:
            print(f"{tool} is not installed and left out", file=sys.stderr)
    results = {tool: {} for tool in tools}
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "converted.onnx"
        if not arguments.big:
            for source in list_graphs(arguments.folders or list_folders()):
                name = f"{source.parent.name}/{source.stem}"
                feeds = read_feeds(source)
                exact = run(source, feeds)
                for tool in tools:
                    target.unlink(missing_ok=True)
                    results[tool][name] = result = time_conversion(tool, source, target)
                    if "failed" not in result:
                        judge(target, feeds, exact, result)
                    print(
                        tool,
                        name,
                        json.dumps(result)[:300],
                        file=sys.stderr,
                        flush=True,
                    )
            print_table(results)
        else:
            feeds = read_feeds(arguments.big)
            exact = run(arguments.big, feeds)
            for tool in tools:
                runs = [
                    time_conversion(tool, arguments.big, target)
                    for _ in range(arguments.repeat)
                ]
                if "failed" not in runs[0]:
                    judge(target, feeds, exact, runs[0])
                results[tool] = runs
                print(tool, json.dumps(runs)[:500], file=sys.stderr, flush=True)
            print_costs(results, arguments.big.name)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
