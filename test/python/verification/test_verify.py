"""`binade verify` accepts correct bundles and devices, and names the records that are wrong."""

import hashlib
import json
import re
import shutil

import numpy as np
import pytest
from support.cuda_runs import CUDA, LOSS, MODEL, NARROW, Bundles, run
from support.reference import safetensors

SUMS = ("reduce_sum", "gradient_statistics")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    return Bundles(tmp_path_factory.mktemp("bundles"))


def verify(bundle, *more, code=0, **environment):
    done = run("binade", "verify", bundle, "--json", *more, code=code, **environment)
    return json.loads(done.stdout)


def refuse(code, bundle, *more):
    return run("binade", "verify", bundle, *more, code=code).stderr


def differing(report):
    return [r for r in report["records"] if "difference" in r]


def edit(bundle, to, tensor, old, new):
    """Writes a bundle with a changed text in a tensor, and a matching hash."""
    tensors = safetensors.load(bundle)
    metadata = dict(safetensors.read_header(bundle).metadata)
    text = tensors[tensor].tobytes().decode()
    assert old in text
    changed = text.replace(old, new, 1).encode()
    tensors[tensor] = np.frombuffer(changed, np.uint8)
    metadata["sha256." + tensor] = hashlib.sha256(changed).hexdigest()
    safetensors.save(to, tensors, metadata)
    return to


@pytest.mark.parametrize("policy", ["fp32", "tf32", *NARROW])
def test_the_simulator_has_the_bits_of_the_cpu(policy, bundles):
    """Except matmuls and column sums, which the CPU accumulates in another order."""
    report = verify(bundles.compile(policy=policy), "--device", "simulator")
    assert report["equal"] and report["compared"] == "the simulator with the CPU"
    assert report["modules"]["count"] > 10
    assert report["modules"]["other_ptx"] == []
    for record in report["records"]:
        assert record["executions"] == 1
        if record["equal"] == 0:
            is_sum = any(name in record.get("kernel", "") for name in SUMS)
            assert record["kind"] == "matmul" or is_sum
            assert 0 < record["ratio"] <= 1
    kinds = [record["kind"] for record in report["records"]]
    assert kinds.count("matmul") == 5 + 2 and kinds.count("launch") > 10


@pytest.mark.parametrize("policy", ["fp32", "bf16-amp", "coat"])
def test_a_device_is_compared_with_the_cpu(policy, bundles):
    """The records run through the CUDA runtime and its library, on the simulated driver."""
    report = verify(
        bundles.compile(policy=policy), "--device", "cuda", "--data", bundles.data,
        "--steps", 2, "--repeat", 2, BINADE_SIMULATED_KERNELS=str(bundles.folder),
    )  # fmt: skip
    assert report["equal"]
    assert report["compared"] == "cuda:0 (Simulated H200) with the CPU"
    assert {record["executions"] for record in report["records"]} <= {1, 2}


@pytest.mark.parametrize("policy", ["fp32", "bf16-amp", "fp8-current"])
def test_the_cpu_is_within_the_bounds_of_the_reference(policy, bundles):
    report = verify(bundles.compile("cpu", policy), "--steps", 2)
    assert report["equal"] and report["compared"] == "the CPU with the reference"
    assert "modules" not in report
    assert all(record["ratio"] <= 1 for record in report["records"])
    assert any(record["ratio"] > 0 for record in report["records"])


def break_kernel(bundle, folder, prefix, old, new):
    """Edits the IR that the simulated driver runs instead of a kernel's code."""
    tensors = safetensors.load(bundle)
    plan = json.loads(tensors["plan"].tobytes())
    kernel = next(k for k in plan["device_kernels"] if k["name"].startswith(prefix))
    images = f"modules/{kernel.get('module', 0)}/"
    for name, image in tensors.items():
        if name.startswith(images):
            path = folder / (hashlib.sha256(image.tobytes()).hexdigest() + ".mlir")
            text = path.read_text()
            if old is None:  # Inserts `new` before the body of a kernel.
                many = re.search(r"memref<(\d+)xi8>", text)[1]
                old = re.search(r"gpu\.func .*\n", text)[0]
                new = old + new.replace("MANY", many)
            assert old in text
            path.write_text(text.replace(old, new))


def test_a_broken_kernel_is_named(bundles, tmp_path):
    """On this device, ReLU is zero above zero; only records with ReLU differ."""
    bundle = bundles.compile()
    shutil.copytree(bundles.folder, tmp_path, dirs_exist_ok=True)
    break_kernel(bundle, tmp_path, "relu_0", "cmpf olt", "cmpf ogt")
    report = verify(
        bundle, "--device", "cuda", code=1, BINADE_SIMULATED_KERNELS=str(tmp_path)
    )
    assert not report["equal"]
    found = differing(report)
    # One in the step and one in the evaluation.
    assert [record["kernel"] for record in found] == ["relu_0", "relu_0"]
    assert found[0]["label"].startswith("relu_0 ")
    difference = found[0]["difference"]
    assert difference["what"] == "other bits than the CPU's"
    assert difference["dtype"] == "F32" and difference["step"] == 1
    assert difference["value"] != difference["expected"]
    assert 0 < difference["different"] <= difference["elements"]
    text = run(
        "binade", "verify", bundle, "--device", "cuda", code=1,
        BINADE_SIMULATED_KERNELS=str(tmp_path),
    ).stdout  # fmt: skip
    assert re.search(r"relu_0 .*\(launch\), step 1: other bits than the CPU's\n"
                     r"  buffer \d+, element \d+: \S+ for \S+ \(F32\), \S+ ulp; ", text)  # fmt: skip


def test_a_kernel_that_writes_to_other_buffers_is_found(bundles, tmp_path):
    """Updates can access the whole arena. This one writes 32 bytes of the batch, which the
    simulator allows."""
    bundle = bundles.compile()
    shutil.copytree(bundles.folder, tmp_path, dirs_exist_ok=True)
    plan = json.loads(safetensors.load(bundle)["plan"].tobytes())
    (x,) = [p["buffer"] for p in plan["ports"] if p["name"] == "x"]
    stray = f"""
      %stray = arith.constant 77 : i8
      %first = arith.constant {plan["buffers"][x]["offset"]} : index
      %zero = arith.constant 0 : index
      %few = arith.constant 32 : index
      %t = gpu.thread_id x
      %b = gpu.block_id x
      %is_first = arith.cmpi eq, %b, %zero : index
      %is_one = arith.cmpi ult, %t, %few : index
      %is = arith.andi %is_first, %is_one : i1
      %place = arith.addi %first, %t : index
      scf.if %is {{ memref.store %stray, %arg0[%place] : memref<MANYxi8> }}
"""
    break_kernel(bundle, tmp_path, "optimizer_update", None, stray)
    report = verify(
        bundle, "--device", "cuda", code=1, BINADE_SIMULATED_KERNELS=str(tmp_path)
    )
    (found,) = differing(report)
    assert found["label"].startswith("optimizer_update")
    difference = found["difference"]
    assert difference["what"] == "memory outside of the record's results has changed"
    assert difference["buffer"] == "x" and difference["different"] == 8


def test_edited_code_is_found_without_running_it(bundles, tmp_path):
    """The results in the simulator agree, because it does not run the PTX of the bundle."""
    bundle = bundles.compile()
    edited = edit(
        bundle, tmp_path / "edited.bnd", "modules/0/compute_90", "ret;", "ret; "
    )
    report = verify(edited, "--device", "simulator", code=1)
    assert not report["equal"] and differing(report) == []
    assert len(report["modules"]["other_ptx"]) >= 1


def test_another_source_is_rejected(bundles, tmp_path):
    edited = edit(
        bundles.compile(),
        tmp_path / "edited.bnd",
        "source",
        "binade.relu ",
        "binade.exp ",
    )
    assert "differ from those that this compiler generates" in refuse(
        3, edited, "--device", "simulator"
    )


def test_a_kernel_that_differs_from_its_source_is_named(bundles, tmp_path):
    """On the CPU, kernels are compared with the reference."""
    bundle, to = bundles.compile("cpu"), tmp_path / "edited.bnd"
    edited = edit(bundle, to, "source", "binade.relu ", "binade.exp ")
    found = differing(verify(edited, code=1))
    assert [record["kernel"] for record in found] == ["relu_0", "relu_0"]
    assert found[0]["difference"]["what"] == "beyond the bound of the reference"
    assert found[0]["difference"]["bound"] >= 0


def test_only_limits_the_compared_records(bundles):
    bundle = bundles.compile()
    labels = {r["label"] for r in verify(bundle, "--device", "simulator")["records"]}
    some = verify(bundle, "--device", "simulator", "--only", "relu")["records"]
    assert {r["label"] for r in some} == {n for n in labels if "relu" in n} != set()
    error = refuse(3, bundle, "--device", "simulator", "--only", "tanh")
    assert "no record's label has 'tanh'\n" in error


def test_accumulation_and_evaluation_are_compared(tmp_path, bundles):
    bundle = tmp_path / "accumulating.bnd"
    run("binade", "compile", MODEL, "--loss", LOSS, *CUDA, "--accumulate", 3,
        "-o", bundle)  # fmt: skip
    report = verify(bundle, "--device", "simulator")
    assert report["equal"]
    assert {record["executions"] for record in report["records"]} == {1, 2}


def test_unverifiable_bundles_are_rejected_with_the_reason(bundles, tmp_path):
    cpu = bundles.compile("cpu")
    assert "the CPU, which is not simulated" in refuse(6, cpu, "--device", "simulator")
    assert "its kernels are for the CPU" in refuse(6, cpu, "--device", "cuda")
    assert "its kernels are for cuda:sm_90" in refuse(
        6, bundles.compile(), "--device", "cpu"
    )
    assert "not a bundle" in refuse(3, bundles.data)
    tensors = safetensors.load(cpu)
    del tensors["source"]
    metadata = dict(safetensors.read_header(cpu).metadata)
    safetensors.save(tmp_path / "old.bnd", tensors, metadata)
    assert "compile it again" in refuse(3, tmp_path / "old.bnd")
    assert "got 'gpu'" in refuse(2, cpu, "--device", "gpu")


def test_a_bit_that_flips_once_is_found_by_repeating(bundles):
    """On this device, a bit of memory flips in one launch; other launches are right."""
    bundle = bundles.compile()
    for launch in (1, 2):
        report = verify(
            bundle, "--device", "cuda", "--only", "relu_0", "--repeat", 2, code=1,
            BINADE_SIMULATED_KERNELS=str(bundles.folder),
            BINADE_SIMULATED_CUDA=f"flip_launch={launch}",
        )  # fmt: skip
        (found,) = differing(report)
        difference = found["difference"]
        assert difference["what"] == "other bits when it runs again"
        assert difference["element"] == 0 and difference["different"] == 1
        assert difference["ulps"] == 1


def test_a_launch_that_fails_names_its_record(bundles):
    bundle = bundles.compile()
    plan = json.loads(safetensors.load(bundle)["plan"].tobytes())
    labels = [r["label"] for r in plan["records"] if r["kind"] in ("launch", "matmul")]
    done = run(
        "binade", "verify", bundle, "--device", "cuda", code=6,
        BINADE_SIMULATED_KERNELS=str(bundles.folder),
        BINADE_SIMULATED_CUDA="fail_launch=2",
    )  # fmt: skip
    assert labels[1] in done.stderr, done.stderr


def test_expected_results_are_saved(bundles, tmp_path):
    """For a matmul, the saved limits are close and contain the exact result. Records that
    accumulate nothing have the bits of the CPU and no limits."""
    path = tmp_path / "expected.safetensors"
    report = verify(bundles.compile(), "--save-expected", path, "--data", bundles.data)
    assert report["equal"]
    tensors = safetensors.load(path)
    about = json.loads(tensors["records"].tobytes())
    assert len(about["records"]) == sum(r["executions"] for r in report["records"])
    arena = tensors["arena/0"].tobytes()
    for number, record in enumerate(about["records"]):
        has_limits = f"{number}/2/low" in tensors
        assert record["kind"] != "matmul" or has_limits
        for index, access in enumerate(record["accesses"]):
            assert (f"{number}/{index}" in tensors) == access["written"]
    labels = [record["label"] for record in about["records"]]
    first = labels.index("matmul fc1")
    matmul = about["records"][first]
    assert matmul["list"] == "step"
    x, weight, _, bias = (
        np.frombuffer(arena, np.float32, a["bytes"] // 4, a["offset"]).astype(float)
        for a in matmul["accesses"]
    )
    exact = x.reshape(8, 16) @ weight.reshape(32, 16).T + bias
    low, high = (
        tensors[f"{first}/2/{x}"].view(np.float32).reshape(8, 32)
        for x in ("low", "high")
    )
    assert (low <= exact).all() and (exact <= high).all()
    magnitude = np.abs(x).reshape(8, 16) @ np.abs(weight).reshape(32, 16).T + np.abs(
        bias
    )
    assert (high - low <= 2 * 20 * 2.0**-24 * magnitude).all()
    error = refuse(2, bundles.compile("cpu"), "--save-expected", path)
    assert "no device will run them" in error
    refuse(2, bundles.compile(), "--save-expected", path, "--device", "cuda")
