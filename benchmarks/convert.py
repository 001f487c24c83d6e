"""What converters to f16 make of exported training graphs: whether the result is valid, runs
and is finite, how far it is from f32, and what it takes to make it.

    convert.py                          the stored models
    convert.py --made FOLDER            and those that their scripts make, in FOLDER
    convert.py --big gpt2-124m --made FOLDER
                                        one loss whose weights are made, repeated
    BINADE_RUNS=1 convert.py            converted graphs run in Binade, which rounds
                                        wherever they say

Each conversion is a process of its own. Peers (python/requirements-peers.txt) that are not
installed are left out by name.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from converters import BUILD, PEERS, is_installed, time_conversion
from exported_models import (
    KINDS, MODELS, ROOT, add_weights, list_graphs, list_stored, make_models,
)  # fmt: skip

sys.path.insert(0, str(ROOT / "python"))
# Its masks are drawn anew in each run: it works, but has no error.
RANDOM = "dropout"
ROUNDED = "BINADE_RUNS"

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
    options.intra_op_num_threads = 1  # Threads of ScatterND lose sums of one index.
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds)))


def run_in_binade(path: pathlib.Path, feeds: dict) -> dict:
    from binade import safetensors

    module = path.with_suffix(".mlir")
    given, out = path.with_name("in.safetensors"), path.with_name("out.safetensors")
    safetensors.save(given, feeds)
    for command in (
        ["binade-translate", "--import-onnx", path, "-o", module],
        ["binade-interpret", module, "--backend=cpu", "--inputs", given, "--out", out],
    ):
        tool, *arguments = map(str, command)
        done = subprocess.run(
            [BUILD / "bin" / tool, *arguments],
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
    return safetensors.load(out)


def run_converted(path: pathlib.Path, feeds: dict) -> dict:
    """By onnxruntime, or by Binade where that has no kernel for a type. With
    ROUNDED always by Binade: onnxruntime drops casts between nodes of f16."""
    if os.environ.get(ROUNDED):
        return run_in_binade(path, feeds)
    try:
        return run(path, feeds)
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error):
            raise
        return run_in_binade(path, feeds)


def judge(target: pathlib.Path, feeds: dict, exact: dict, result: dict) -> None:
    """Adds whether the file is valid, and how far its outputs are from f32."""
    try:
        onnx.checker.check_model(target, full_check=True)
        result["valid"] = True
    except Exception as error:  # noqa: BLE001 - whatever the checker raises.
        result["valid"] = False
        result["failed"] = "checking: " + " ".join(str(error).split())
    try:
        outputs = run_converted(target, feeds)
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


# --- Tables -------------------------------------------------------------------


def print_table(results: dict[str, dict[str, dict]]) -> None:
    """Of `results` by converter and graph."""
    print(
        f"| converter | {' | '.join(KINDS)} | valid | error, median | worst "
        "| nearest to f32 | seconds | most MiB |"
    )
    print("|---" * (len(KINDS) + 7) + "|")
    for tool, graphs in results.items():
        cells = []
        for kind in KINDS:
            of_kind = [r for name, r in graphs.items() if name.endswith("/" + kind)]
            works = sum("error" in r for r in of_kind)
            cells.append(f"{works}/{len(of_kind)}")
        valid = sum(r.get("valid", False) for r in graphs.values())
        cells.append(f"{valid}/{len(graphs)}")
        errors = get_errors(graphs)
        cells += (
            [f"{np.median(list(errors.values())):.1e}", f"{max(errors.values()):.1e}"]
            if errors
            else ["", ""]
        )
        nearest = sum(
            all(get_errors(r).get(name, np.inf) >= error for r in results.values())
            for name, error in errors.items()
        )
        seconds = np.median([r["seconds"] for r in graphs.values()])
        most = max(r["mib"] for r in graphs.values())
        cells += [str(nearest), f"{seconds:.2f}", f"{most:.0f}"]
        print(f"| {tool} | " + " | ".join(cells) + " |")


def get_errors(graphs: dict[str, dict]) -> dict[str, float]:
    return {
        name: result["error"]
        for name, result in graphs.items()
        if "error" in result and RANDOM not in name
    }


def print_nearer(results: dict[str, dict[str, dict]]) -> None:
    """Graphs that a peer brings nearer to f32 than Binade."""
    for name, error in get_errors(results["binade"]).items():
        for tool, graphs in results.items():
            if (other := get_errors(graphs).get(name, np.inf)) < error:
                print(f"{name}: binade {error:.2e}, {tool} {other:.2e}")


def print_costs(results: dict[str, list[dict]], graph: str) -> None:
    print(f"\n| {graph} | seconds, median | minimum to maximum | peak MiB | error |")
    print("|---|---|---|---|---|")
    for tool, runs in results.items():
        failed = next((r["failed"] for r in runs if "failed" in r), None)
        seconds = [r["seconds"] for r in runs]
        error = f"{runs[0]['error']:.1e}" if "error" in runs[0] else failed or ""
        print(
            f"| {tool} | {np.median(seconds):.2f} | {min(seconds):.2f} to "
            f"{max(seconds):.2f} | {max(r['mib'] for r in runs):.0f} | {error[:120]} |"
        )


# --- Runs -----------------------------------------------------------------------


def report(*what: object) -> None:
    print(*what, file=sys.stderr, flush=True)


def compare_on(graphs: list[pathlib.Path], tools: list[str], folder: str) -> dict:
    target = pathlib.Path(folder) / "converted.onnx"
    results = {tool: {} for tool in tools}
    for source in graphs:
        name = f"{source.parent.name}/{source.stem}"
        feeds = read_feeds(source)
        exact = run(source, feeds)
        for tool in tools:
            target.unlink(missing_ok=True)
            results[tool][name] = result = time_conversion(tool, source, target)
            if "failed" not in result:
                judge(target, feeds, exact, result)
            report(tool, name, json.dumps(result)[:300])
    return results


def repeat_on(
    source: pathlib.Path, tools: list[str], folder: str, repeat: int, runs: bool
) -> dict:
    target = pathlib.Path(folder) / "converted.onnx"
    feeds = read_feeds(source) if runs else {}
    exact = run(source, feeds) if runs else {}
    results = {}
    for tool in tools:
        results[tool] = [time_conversion(tool, source, target) for _ in range(repeat)]
        if runs and "failed" not in results[tool][0]:
            judge(target, feeds, exact, results[tool][0])
        report(tool, json.dumps(results[tool])[:500])
    return results


def choose_tools(wanted: list[str] | None) -> list[str]:
    tools = ["binade"]
    for tool, (_, module) in PEERS.items():
        if wanted is not None and tool not in wanted:
            continue
        if is_installed(module):
            tools.append(tool)
        else:
            report(tool, "is not installed and left out")
    return tools


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folders", nargs="*", help="folders of stored models (default: all)"
    )
    parser.add_argument(
        "--made", type=pathlib.Path, help="folder for the models that scripts export"
    )
    parser.add_argument("--big", help="name of a stored model without weights")
    parser.add_argument(
        "--repeat", type=int, default=5, help="runs of --big (default: 5)"
    )
    parser.add_argument("--skip-runs", action="store_true", help="only convert --big")
    parser.add_argument("--json", type=pathlib.Path, help="file for all results")
    parser.add_argument(
        "--tools", nargs="*", choices=list(PEERS), help="converters (default: all)"
    )
    arguments = parser.parse_args()
    tools = choose_tools(arguments.tools)
    with tempfile.TemporaryDirectory() as folder:
        made = arguments.made or pathlib.Path(folder)
        if arguments.big:
            source = add_weights(MODELS / arguments.big, made) / "loss.onnx"
            results = repeat_on(
                source, tools, folder, arguments.repeat, not arguments.skip_runs
            )
            print_costs(results, f"{arguments.big}/{source.name}")
        else:
            folders = [MODELS / name for name in arguments.folders] or list_stored()
            folders += make_models(made) if arguments.made else []
            results = compare_on(list_graphs(folders), tools, folder)
            print_table(results)
            print_nearer(results)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
