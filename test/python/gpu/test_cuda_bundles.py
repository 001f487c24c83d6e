"""Bundles for CUDA, run on the simulated driver, train as bundles for the CPU do."""

import json
import re

import numpy as np
import pytest
from support.cuda_runs import (
    BATCH,
    CUDA,
    LOSS,
    MODEL,
    NARROW,
    RATE,
    SIMULATED,
    STEPS,
    Bundles,
    run,
)
from support.reference import safetensors
from support.shared_models import Model

pytestmark = pytest.mark.usefixtures("with_libraries")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    return Bundles(tmp_path_factory.mktemp("bundles"))


def losses(out, name="loss"):
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    # Step 0 has only the loss of held-out samples.
    return np.array([line[name] for line in lines if line.get(name) is not None])


def final(out):
    return safetensors.load(out / "final.safetensors")


def check_close(out, expected, optimizer):
    """Allows 64 units in the last place of the largest value, because dot products of at
    most 32 terms are summed in f32 in another order.

    Narrow formats need no larger bound: no operand here is so close to a tie that the
    last bits of a sum change its rounding. AdamW divides by roots that may be almost 0.
    """

    def allowed(values):
        return 64 * 2.0**-24 * np.abs(values).max()

    found, wanted = losses(out), losses(expected)
    assert len(set(wanted)) == STEPS
    np.testing.assert_allclose(found, wanted, rtol=0, atol=allowed(wanted))
    found, wanted = final(out), final(expected)
    assert found.keys() == wanted.keys() and found["step"] == STEPS
    for name, value in wanted.items():
        bound = allowed(value)
        if optimizer == "adamw" and name.startswith("fc"):
            bound = 2 * RATE
        np.testing.assert_allclose(found[name], value, rtol=0, atol=bound, err_msg=name)


@pytest.mark.parametrize("policy, optimizer", [
    ("fp32", "sgd"), ("tf32", "sgd"), ("fp32", "adamw"), ("tf32", "adamw"),
    *[(policy, "adamw") for policy in NARROW],
])  # fmt: skip
def test_a_device_trains_as_the_cpu_does(policy, optimizer, bundles, tmp_path):
    for target in ("cpu", "cuda"):
        bundle = bundles.compile(target, policy, optimizer)
        bundles.train(bundle, ["--out", tmp_path / target], "--device", target)
    check_close(tmp_path / "cuda", tmp_path / "cpu", optimizer)


def test_prefetched_batches_arrive_in_order(bundles, tmp_path):
    """Each step reads two batches to train on, then evaluates held-out samples."""
    for target in ("cpu", "cuda"):
        bundle = bundles.compile(target, "fp32", "sgd", batches=2)
        bundles.train(bundle, ["--out", tmp_path / target], "--device", target,
                      "--eval-fraction", 0.2, "--eval-every", 1)  # fmt: skip
    check_close(tmp_path / "cuda", tmp_path / "cpu", "sgd")
    found, wanted = (losses(tmp_path / x, "eval_loss") for x in ("cuda", "cpu"))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def count_copied(bundles, bundle, out, steps, *more):
    done = bundles.train(bundle, ["--out", out], "--device", "cuda", *more, steps=steps,
                         settings="report=1")  # fmt: skip
    (found,) = re.findall(r"(\d+) bytes to devices, (\d+) from them", done.stderr)
    return np.array(found, int)


def test_a_step_copies_only_small_tensors(bundles, tmp_path):
    """A step copies no parameters, states or accumulators. A checkpoint copies them from
    the device only."""
    bundle = bundles.compile("cuda", "fp32", "adamw", batches=2)
    plan = json.loads(run("binade", "inspect", bundle, "--json").stdout)
    parameters = sum(plan["buffers"][port["buffer"]]["bytes"]
                     for port in plan["ports"] if port["role"] == "parameter")  # fmt: skip
    few = count_copied(bundles, bundle, tmp_path / "few", 2)
    many = count_copied(bundles, bundle, tmp_path / "many", 5)
    batch = BATCH * (16 * 4 + 8)
    # Small ports start at multiples of 64 bytes. Both programs of a step copy them.
    small = 64 * sum(
        port["role"] in ("hyper", "metric", "step") for port in plan["ports"]
    )
    assert ((many - few) / 3 <= 2 * (batch + small)).all()
    saved = count_copied(bundles, bundle, tmp_path / "saved", 5, "--save-every", 1)
    assert saved[0] == many[0]
    assert saved[1] >= many[1] + 3 * parameters


def test_small_ports_share_one_copy(bundles, tmp_path):
    """The batch, which is prefetched, is a second copy."""
    bundle, counts = bundles.compile("cuda", "fp16-amp"), []
    plan = json.loads(run("binade", "inspect", bundle, "--json").stdout)
    roles = [port["role"] for port in plan["ports"]]
    assert roles.count("hyper") + roles.count("metric") + roles.count("scaler") > 8
    for steps in (2, 5):
        done = bundles.train(bundle, ["--out", tmp_path / str(steps)], steps=steps,
                             settings="report=1")  # fmt: skip
        (found,) = re.findall(r"copies (\d+) and (\d+)", done.stderr)
        counts.append(np.array(found, int))
    assert (counts[1] - counts[0] == [3 * 2, 3]).all()


def test_scratch_memory_of_the_library_is_in_the_arena(bundles):
    """The scratch buffer has room for eight partial sums (split-K), at most 32 MiB."""
    plan = json.loads(run("binade", "inspect", bundles.compile(), "--json").stdout)
    found = [r for r in plan["records"] if r["kind"] == "matmul"]
    assert len(found) >= 5
    for record in found:
        buffer = plan["buffers"][record["library_scratch"]["buffer"]]
        assert buffer["bytes"] == 8 * 4 * record["m"] * record["n"]
        assert buffer["offset"] % 256 == 0
        assert buffer["offset"] + buffer["bytes"] <= plan["arena_bytes"]


@pytest.mark.parametrize("status", [900, 901])
def test_steps_that_cannot_be_captured_run_without_a_graph(status, bundles, tmp_path):
    bundle = bundles.compile()
    bundles.train(bundle, ["--out", tmp_path / "graph"])
    done = bundles.train(bundle, ["--out", tmp_path / "run"], "--eval-fraction", 0.2,
                         "--eval-every", 1, steps=4, settings=f"capture={status}")  # fmt: skip
    warnings = [line for line in done.stderr.splitlines() if "one by one" in line]
    assert len(warnings) == 1 and "the step cannot be put into a graph" in warnings[0]
    assert "cublasLtMatmul failed" in warnings[0]
    assert (losses(tmp_path / "run") == losses(tmp_path / "graph")[:4]).all()


def test_run_json_names_the_matmul_implementations(bundles, tmp_path):
    """It names the library's algorithm, the same in each run, or why there is none."""
    bundle, found = bundles.compile("cuda", "bf16-amp"), []
    for name, settings in (("first", ""), ("second", ""), ("old", "refuse=1")):
        done = bundles.train(bundle, ["--out", tmp_path / name], settings=settings)
        about = json.loads((tmp_path / name / "run.json").read_text())
        found.append(about["invocations"][0]["contractions"])
        refused = (
            "compute 7 of 7 matmuls, convolutions and attention calls" in done.stderr
        )
        assert refused == (name == "old")
    assert found[0] == found[1] and len(found[0]) == 7
    for used, refused in zip(found[0], found[2]):
        assert used["by"].startswith("cublaslt 13.0.0 id ") and "refusal" not in used
        assert refused["by"] == "own kernel"
        assert "has no algorithm for" in refused["refusal"]
        assert used["record"] == refused["record"]


@pytest.mark.parametrize("policy", ["fp32", "fp8-current", "fp8-block"])
def test_own_kernels_compute_matmuls_without_a_library(policy, bundles, tmp_path):
    library_path, out = tmp_path / "lib", ["--out", tmp_path / "run"]
    library_path.mkdir()
    (library_path / "libcuda.so.1").symlink_to(SIMULATED / "libcuda.so.1")
    done = bundles.train(
        bundles.compile("cuda", policy), out, library_path=library_path
    )
    assert "own kernels, which are slower: cuBLASLt cannot be" in done.stderr
    bundles.train(bundles.compile("cpu", policy), ["--out", tmp_path / "cpu"])
    check_close(tmp_path / "run", tmp_path / "cpu", "adamw")
    done = bundles.train(bundles.compile("cuda", policy), ["--out", tmp_path / "own"],
                         BINADE_CONTRACTION="own")  # fmt: skip
    assert "slower" not in done.stderr
    assert (losses(tmp_path / "own") == losses(tmp_path / "run")).all()


def list_matmuls(plan):
    """Yields the operand types of each matmul, whether it has scales, and its blocks."""
    types = [buffer["dtype"] for buffer in plan["buffers"]]
    for record in plan["records"]:
        if record["kind"] == "matmul":
            sides = [types[record[side]["buffer"]] for side in ("lhs", "rhs")]
            has_scales = "lhs_scale" in record and "rhs_scale" in record
            yield (*sides, has_scales, *record.get("block", []))


# Operands of the FP8 matmuls (the output and the gradients of weight and input), and a
# chip that lacks these matmuls.
FP8_MATMULS = {
    "fp8-current": ({("F8_E4M3", "F8_E4M3", True), ("F8_E5M2", "F8_E4M3", True),
                     ("F8_E4M3", "F8_E5M2", True)}, "sm_80"),
    "fp8-block": ({("F8_E4M3", "F8_E4M3", True, 1, 128, 128),
                   ("F8_E4M3", "F8_E4M3", True, 1, 1, 128)}, "sm_100"),
}  # fmt: skip


@pytest.mark.parametrize("policy", FP8_MATMULS)
def test_matmuls_read_fp8_operands_directly(policy, tmp_path):
    """Holds for the output and both gradients, if extents are multiples of 16."""
    multiplied, without = FP8_MATMULS[policy]
    model, found = Model("gpt2-tiny", tmp_path), {}
    given = [tmp_path / "loss.onnx", "--policy", policy]
    for name, target in (("cpu", []), (without, ["--target", f"cuda:{without}"]),
                         ("sm_90", CUDA)):  # fmt: skip
        out = tmp_path / f"{name}.json"
        run("binade", "compile", *given, *target, "--to", "plan", "-o", out)
        found[name] = set(list_matmuls(json.loads(out.read_text())))
    assert not any("F8" in side for sides in (found["cpu"], found[without])
                   for matmul in sides for side in matmul[:2])  # fmt: skip
    assert {p for p in found["sm_90"] if p[0].startswith("F8")} == multiplied
    losses_ = []
    for target in ("cpu", "cuda"):
        bundle, out = tmp_path / f"{target}.bnd", tmp_path / target
        more = [*CUDA, "--save-kernels", tmp_path] if target == "cuda" else []
        run("binade", "compile", *given, *more, "-o", bundle)
        run(
            "binade-run", bundle, "--device", target, "--data", model.data, "--steps", 1,
            "--out", out, BINADE_SIMULATED_KERNELS=str(tmp_path),
        )  # fmt: skip
        losses_.append(losses(out))
    # Attention differs in the last bit of some results, which changes codes of FP8.
    np.testing.assert_allclose(*losses_, rtol=1e-4)


def test_runs_of_a_device_are_deterministic(bundles, tmp_path):
    bundle = bundles.compile()
    for name in ("first", "second"):
        bundles.train(bundle, ["--out", tmp_path / name], "--device", "cuda:0")
    first, second = (tmp_path / n / "final.safetensors" for n in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()


def test_a_model_trains_as_its_bundle_does(bundles, tmp_path):
    """`binade train` compiles the same modules, but writes none of them."""
    bundles.train(bundles.compile(), ["--out", tmp_path / "bundle"])
    run(
        "binade", "train", MODEL, "--loss", LOSS, "--optimizer", "adamw", "--lr", RATE,
        "--policy", "fp32", *CUDA, "--device", "cuda", "--data", bundles.data,
        "--order", "sequential", "--steps", STEPS, "--out", tmp_path / "model",
        BINADE_SIMULATED_KERNELS=str(bundles.folder),
    )  # fmt: skip
    found, expected = (tmp_path / n / "final.safetensors" for n in ("model", "bundle"))
    assert found.read_bytes() == expected.read_bytes()


@pytest.mark.parametrize("first, second", [("cpu", "cuda"), ("cuda", "cpu")])
def test_a_run_resumes_on_another_target(first, second, bundles, tmp_path):
    unbroken, out = tmp_path / "unbroken", tmp_path / "run"
    bundles.train(bundles.compile(second), ["--out", unbroken])
    bundles.train(bundles.compile(first), ["--out", out], "--save-every", 2, steps=2)
    done = bundles.train(bundles.compile(second), ["--resume", out])
    assert "resumed after step 2\n" in done.stdout
    check_close(out, unbroken, "adamw")


def test_a_run_resumes_on_a_target_with_other_in_place_buffers(bundles, tmp_path):
    """Each target chooses which buffers share memory; in a language model they differ."""
    model, out = Model("gpt2-tiny", tmp_path), tmp_path / "run"
    for target, more in (("cpu", ["--out", out]), ("cuda", ["--resume", out])):
        bundle = tmp_path / f"{target}.bnd"
        given = [*CUDA, "--save-kernels", bundles.folder] if target == "cuda" else []
        run("binade", "compile", tmp_path / "loss.onnx", *given, "-o", bundle)
        done = run(
            "binade-run", bundle, "--data", model.data, "--steps", 1, "--save-every", 1,
            *more, BINADE_SIMULATED_KERNELS=str(bundles.folder),
        )  # fmt: skip
    assert "resumed after step 1" in done.stdout


def test_a_bundle_is_inspected_without_a_device(bundles):
    done = run("binade", "inspect", bundles.compile(), BINADE_SIMULATED_CUDA="init=100")
    heading, _, memory, *rest = done.stdout.splitlines()
    assert heading == "mlp, policy fp32, kernels for cuda:sm_90"
    assert re.match(r"memory [\d.]+ KiB: parameter ", memory)
    assert any("relu" in line for line in rest)
