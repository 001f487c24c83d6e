"""`binade-run --profile` writes a trace and a table, on the CPU and on the simulated driver."""

import json
from collections import Counter

import pytest
from support.cuda_runs import LOSS, MODEL, STEPS, Bundles, run
from support.reference import safetensors

pytestmark = pytest.mark.usefixtures("with_libraries")

FORWARD = "matmul fc1"
# x, weight, result and bias in f32; 16 multiply-adds for each of 8 x 32 results.
FORWARD_BYTES = 4 * (8 * 16 + 32 * 16 + 8 * 32 + 32)
FORWARD_FLOPS = 2 * 8 * 32 * 16


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    return Bundles(tmp_path_factory.mktemp("bundles"))


@pytest.fixture(scope="module", params=["cpu", "cuda"])
def profiled(request, bundles):
    """The output, the trace, and the plan."""
    out, bundle = bundles.folder / request.param, bundles.compile(request.param)
    trace = bundles.folder / f"{request.param}.json"
    done = bundles.train(bundle, ["--out", out], "--device", request.param,
                         "--profile", trace)  # fmt: skip
    plan = json.loads(safetensors.load(bundle)["plan"].tobytes())
    return done.stdout, json.loads(trace.read_text()), plan


def calls(trace):
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def test_every_step_has_the_records_of_the_plan(profiled):
    _, trace, plan = profiled
    names = Counter(event["name"] for event in calls(trace))
    labels = Counter(record["label"] for record in plan["records"])
    for label, times in labels.items():
        assert names[label] == times * STEPS, label
    assert {f"step {i + 1}" for i in range(STEPS)} <= set(names)
    others = set(names) - set(labels) - {f"step {i + 1}" for i in range(STEPS)}
    assert others <= {"upload ports", "download ports"}


def test_records_of_a_step_do_not_overlap(profiled):
    _, trace, _ = profiled
    steps = [event for event in calls(trace) if event["cat"] == "step"]
    rounding = 0.01
    for step in steps:
        begin, end = step["ts"], step["ts"] + step["dur"]
        inside = [event for event in calls(trace)
                  if event is not step and begin <= event["ts"] < end]  # fmt: skip
        assert len(inside) * len(steps) + len(steps) == len(calls(trace))
        for event in sorted(inside, key=lambda event: event["ts"]):
            assert event["ts"] >= begin - rounding
            begin = event["ts"] + event["dur"]
        assert begin <= end + rounding


def test_bytes_and_operations_of_a_matmul_follow_from_its_shapes(profiled):
    _, trace, _ = profiled
    matmuls = [event["args"] for event in calls(trace) if event["name"] == FORWARD]
    first = matmuls[0]
    assert first["bytes"] == FORWARD_BYTES and first["flops"] == FORWARD_FLOPS
    on_device = trace["otherData"]["device"] != "cpu"
    assert ("cublaslt" if on_device else "onednn") in first["implementation"]


def test_the_share_of_the_roofline_follows_from_the_ceilings(profiled):
    stdout, trace, _ = profiled
    ceilings = trace["otherData"]["ceilings"]
    assert len(ceilings["sources"]) >= 2
    for source in ceilings["sources"]:
        assert f"ceiling: {source}" in stdout
    for event in calls(trace):
        args = event.get("args", {})
        if "roofline" not in args:
            continue
        minimum = args["bytes"] / ceilings["bytes_per_second"]
        if "flops" in args:
            minimum = max(minimum, args["flops"] / ceilings["flops_per_second"]["F32"])
        assert args["roofline"] * event["dur"] == pytest.approx(
            minimum * 1e6, rel=0.01, abs=args["roofline"] * 0.001
        )


def test_the_table_lists_the_kernels(profiled):
    stdout, _, plan = profiled
    table = stdout[stdout.index("profile:") :]
    assert f"in {STEPS} steps" in table
    for record in plan["records"][:3]:
        assert record["label"].split()[0] in table


def test_a_trace_that_cannot_be_written_is_an_error(bundles, tmp_path):
    done = bundles.train(
        bundles.compile("cpu"), ["--out", tmp_path / "run"],
        "--profile", tmp_path / "no" / "trace.json", code=5,
    )  # fmt: skip
    assert "trace.json" in done.stderr
    assert not (tmp_path / "run" / "final.safetensors").exists()


@pytest.mark.parametrize("capability, operations", [(80, 1024), (90, 2048), (120, 512)])
def test_tf32_matmuls_have_a_separate_ceiling(
    capability, operations, bundles, tmp_path
):
    """The operations per cycle and multiprocessor are from the vendor's whitepapers."""
    bundle = bundles.folder / "tf32-sm80.bnd"
    if not bundle.exists():
        run("binade", "compile", MODEL, "--loss", LOSS, "--policy", "tf32",
            "--target", "cuda:sm_80", "--save-kernels", bundles.folder,
            "-o", bundle)  # fmt: skip
    bundles.train(bundle, ["--out", tmp_path / "run"], "--profile", tmp_path / "t.json",
                  steps=1, settings=f"capability={capability}")  # fmt: skip
    trace = json.loads((tmp_path / "t.json").read_text())
    ceilings = trace["otherData"]["ceilings"]
    peak = ceilings["flops_per_second"]["TF32"]
    assert peak == pytest.approx(operations * 132 * 1.98e9)
    matmul = next(e for e in calls(trace) if e["name"] == FORWARD)
    minimum = max(FORWARD_BYTES / ceilings["bytes_per_second"], FORWARD_FLOPS / peak)
    assert matmul["args"]["roofline"] * matmul["dur"] == pytest.approx(
        minimum * 1e6, rel=0.01, abs=matmul["args"]["roofline"] * 0.001
    )
