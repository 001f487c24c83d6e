"""`binade-run tune` stores the fastest matmul algorithms in the bundle, which are used only on
the same device with the same library."""

import json

import pytest
from support.arena import Bundle
from support.cuda_runs import SIMULATED, Bundles, run

pytestmark = pytest.mark.usefixtures("with_libraries")

NAME = "Simulated H200, cublaslt 13.0.0"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    return Bundles(tmp_path_factory.mktemp("bundles"))


@pytest.fixture(scope="module")
def tuned(bundles):
    bundle = bundles.folder / "tuned.bnd"
    done = run(
        "binade-run", "tune", bundles.compile(), "-o", bundle,
        BINADE_SIMULATED_KERNELS=str(bundles.folder),
    )  # fmt: skip
    # Two layers, the gradients of their weights, and that of the hidden values.
    count = len(matmuls(bundle))
    assert count >= 5
    assert done.stdout == f"{bundle}: algorithms of {count} matmuls on sm_90\n"
    return bundle


def matmuls(bundle):
    plan = Bundle(bundle).plan
    return [
        record
        for key in ("records", "evaluation")
        for record in plan.get(key, [])
        if record["kind"] == "matmul"
    ]


def implementations(bundles, bundle, tmp_path, settings=""):
    """The implementations of a step's matmuls, in order."""
    trace = tmp_path / "trace.json"
    bundles.train(
        bundle,
        ["--out", tmp_path / "run"],
        "--profile",
        trace,
        steps=1,
        settings=settings,
    )
    events = json.loads(trace.read_text())["traceEvents"]
    found = [event.get("args", {}).get("implementation", "") for event in events]
    return [text for text in found if text.startswith("cublaslt")]


def ids(found):
    return [int(text.split(" id ")[1].split()[0]) for text in found]


def test_algorithms_are_recorded_and_used(bundles, tuned, tmp_path):
    # Algorithms 0 and 1 of the simulated library need 0 and 4096 bytes of workspace.
    recorded = []
    for matmul in matmuls(tuned):
        assert list(matmul["algorithms"]) == [NAME]
        words = matmul["algorithms"][NAME]
        assert len(words) == 128
        recorded.append(int(words[16:32], 16) // 4096)
    found = implementations(bundles, tuned, tmp_path)
    assert all(text.startswith("cublaslt 13.0.0 ") for text in found)
    assert ids(found) == recorded[: len(found)] and len(found) >= 5


def test_another_library_version_ignores_the_algorithms(bundles, tuned, tmp_path):
    found = implementations(bundles, tuned, tmp_path, "cublaslt=120901")
    assert all(text.startswith("cublaslt 12.9.1 ") for text in found)
    # The first algorithm for which the matmul's scratch memory suffices.
    buffers = Bundle(tuned).plan["buffers"]
    scratch = [buffers[p["library_scratch"]["buffer"]]["bytes"] for p in matmuls(tuned)]
    assert ids(found) == [int(bytes >= 4096) for bytes in scratch[: len(found)]]
    assert set(ids(found)) == {0, 1}


def test_tuning_changes_only_algorithms(bundles, tuned, tmp_path):
    for name, bundle in (("first", bundles.compile()), ("tuned", tuned)):
        bundles.train(bundle, ["--out", tmp_path / name])
    first, again = (tmp_path / n / "final.safetensors" for n in ("first", "tuned"))
    assert first.read_bytes() == again.read_bytes()
    before, after = Bundle(bundles.compile()).plan, Bundle(tuned).plan
    for matmul in matmuls(tuned):
        assert matmul["algorithms"]
    for key in ("records", "evaluation"):
        for record in after[key]:
            record.pop("algorithms", None)
    assert before == after


def test_a_bundle_in_another_folder_finds_its_weights(bundles, tuned, tmp_path):
    (tmp_path / "other").mkdir()
    moved = tmp_path / "other" / "tuned.bnd"
    run(
        "binade-run", "tune", tuned, "-o", moved,
        BINADE_SIMULATED_KERNELS=str(bundles.folder),
    )  # fmt: skip
    bundles.train(moved, ["--out", tmp_path / "run"])


def test_bundles_that_cannot_be_tuned_are_rejected(bundles, tmp_path):
    out = tmp_path / "out.bnd"
    done = run("binade-run", "tune", bundles.compile("cpu"), "-o", out,
               "--device", "cpu", code=2)  # fmt: skip
    assert "runs on the CPU, whose matmuls have only one algorithm" in done.stderr
    alone = tmp_path / "lib"
    alone.mkdir()
    (alone / "libcuda.so.1").symlink_to(SIMULATED / "libcuda.so.1")
    done = run(
        "binade-run", "tune", bundles.compile(), "-o", out, code=6, library_path=alone,
        BINADE_SIMULATED_KERNELS=str(bundles.folder),
    )  # fmt: skip
    assert "cuBLASLt is not in use" in done.stderr
    assert not out.exists()
    done = run("binade-run", "tune", bundles.compile(), code=2)
    assert "--output" in done.stderr
