"""Bundles for CUDA train as those for the CPU do, on the simulated driver; what keeps
one from running has an error that says what to do, and an exit code.

PTX is enough: nothing here needs CUDA's ptxas.
"""

import json
import os
import re
import subprocess

import numpy as np
import pytest
from arena import Bundle
from reference import BUILD, ROOT, safetensors

SIMULATED = BUILD / "simulated-cuda"
MODEL = ROOT / "examples" / "mlp" / "mlp.onnx"
LOSS = "cross_entropy(prediction, labels)"
CUDA = ["--target", "cuda:sm_90"]
NARROW = [
    "bf16-amp",
    "fp16-amp",
    "fp8-current",
    "fp8-delayed",
    "mxfp8",
    "coat",
    "tiger-half",
]
BATCH, STEPS, RATE = 8, 5, 1e-3


def run(program, *arguments, code=0, library_path=SIMULATED, **environment):
    done = subprocess.run(
        [BUILD / "bin" / program, *map(str, arguments)],
        env=dict(os.environ, LD_LIBRARY_PATH=str(library_path), **environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == code, done.stderr
    return done


class Bundles:
    """The model for both targets, and data for it."""

    def __init__(self, folder):
        self.folder = folder
        self.data = folder / "data.safetensors"
        draw = np.random.default_rng(7)
        samples = BATCH * STEPS
        x = draw.standard_normal((samples, 16), np.float32)
        safetensors.save(self.data, {"x": x, "labels": draw.integers(0, 4, samples)})

    def compile(self, target="cuda", policy="fp32", optimizer="adamw"):
        bundle = self.folder / f"{target}-{policy}-{optimizer}.bnd"
        if not bundle.exists():
            more = [*CUDA, "--save-kernels", self.folder] if target == "cuda" else []
            run(
                "binade", "compile", MODEL, "--loss", LOSS, "--policy", policy,
                "--optimizer", optimizer, "--lr", RATE, *more, "-o", bundle,
            )  # fmt: skip
        return bundle

    def train(self, bundle, out, *more, steps=STEPS, code=0, settings="", **options):
        arguments = [bundle, "--data", self.data, "--order", "sequential",
                     "--steps", steps, *out, *more]  # fmt: skip
        return run(
            "binade-run", *arguments, code=code,
            BINADE_SIMULATED_KERNELS=str(self.folder),
            BINADE_SIMULATED_CUDA=settings, **options,
        )  # fmt: skip


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    if not (SIMULATED / "libcuda.so.1").exists():
        pytest.skip("the simulated driver is not built: ninja binade-tests")
    return Bundles(tmp_path_factory.mktemp("bundles"))


def losses(out):
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return np.array([line["loss"] for line in lines])


def final(out):
    return safetensors.load(out / "final.safetensors")


def check_close(out, expected, optimizer):
    """Sums of at most 32 products in f32, in another order: 64 units of the largest.

    In narrow formats too: no operand here lies so near to a tie that a sum's last bits
    would make another number of it. AdamW divides by roots of what may be next to
    nothing.
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


def test_without_a_library_kernels_multiply(bundles, tmp_path):
    library_path, out = tmp_path / "lib", ["--out", tmp_path / "run"]
    library_path.mkdir()
    (library_path / "libcuda.so.1").symlink_to(SIMULATED / "libcuda.so.1")
    bundles.train(bundles.compile(), out, library_path=library_path)
    bundles.train(bundles.compile("cpu"), ["--out", tmp_path / "cpu"])
    check_close(tmp_path / "run", tmp_path / "cpu", "adamw")


def test_runs_of_a_device_are_deterministic(bundles, tmp_path):
    bundle = bundles.compile()
    for name in ("first", "second"):
        bundles.train(bundle, ["--out", tmp_path / name], "--device", "cuda:0")
    first, second = (tmp_path / n / "final.safetensors" for n in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()


def test_a_model_trains_as_its_bundle_does(bundles, tmp_path):
    """The same modules come out of `binade train`, which keeps none of them."""
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
def test_a_run_goes_on_elsewhere(first, second, bundles, tmp_path):
    unbroken, out = tmp_path / "unbroken", tmp_path / "run"
    bundles.train(bundles.compile(second), ["--out", unbroken])
    bundles.train(bundles.compile(first), ["--out", out], "--save-every", 2, steps=2)
    done = bundles.train(bundles.compile(second), ["--resume", out])
    assert "resumed after step 2\n" in done.stdout
    check_close(out, unbroken, "adamw")


def test_a_bundle_is_inspected_without_a_device(bundles):
    done = run("binade", "inspect", bundles.compile(), BINADE_SIMULATED_CUDA="init=100")
    heading, _, memory, *rest = done.stdout.splitlines()
    assert heading == "mlp, policy fp32, kernels for cuda:sm_90"
    assert re.match(r"memory [\d.]+ KiB: parameter ", memory)
    assert any("relu" in line for line in rest)


# --- Errors ---------------------------------------------------------------------------


@pytest.mark.parametrize("built, asked, said", [
    ("cuda", "cpu", ["its kernels are for cuda:sm_90",
                     "compile for the CPU: without --target"]),
    ("cpu", "cuda", ["its kernels are for the CPU",
                     "compile with --target cuda:sm_90"]),
])  # fmt: skip
def test_a_bundle_for_something_else(built, asked, said, bundles, tmp_path):
    bundle, out = bundles.compile(built), ["--out", tmp_path / "run"]
    done = bundles.train(bundle, out, "--device", asked, code=6)
    error, note = said
    assert done.stderr == f"{bundle}: error: {error}\n{bundle}: note: {note}\n"


def test_no_driver(bundles, tmp_path):
    # Found before the system's, on machines that have one.
    (tmp_path / "libcuda.so.1").write_text("no library")
    done = bundles.train(
        bundles.compile(), ["--out", tmp_path / "run"], code=6, library_path=tmp_path
    )
    assert "error: the driver cannot be opened: " in done.stderr
    assert "nvidia-smi" in done.stderr


@pytest.mark.parametrize("settings, said", [
    ("version=11040", "the driver is too old: it has CUDA 11.4"),
    ("init=100", "cuInit failed: CUDA_ERROR_NO_DEVICE (100)"),
    ("capability=75",
     "cuda:0 (Simulated H200) is of compute capability 7.5, the kernels are for compute_90"),
])  # fmt: skip
def test_no_device_that_fits(settings, said, bundles, tmp_path):
    done = bundles.train(
        bundles.compile(), ["--out", tmp_path / "run"], settings=settings, code=6
    )
    assert said in done.stderr


@pytest.mark.parametrize("settings", ["memory=4096", "allocate=4096"])
def test_too_little_memory(settings, bundles, tmp_path):
    done = bundles.train(
        bundles.compile(), ["--out", tmp_path / "run"], settings=settings, code=7
    )
    who, _, rest = done.stderr.partition(" error: ")
    assert who == "cuda:0 (Simulated H200):"
    first, *notes = (line.removeprefix(f"{who} note: ") for line in rest.splitlines())
    assert re.fullmatch(r"needs [\d.]+ KiB of memory, of .* are .* free", first)
    # What AdamW keeps of each parameter is two numbers.
    assert re.fullmatch(r"[\d.]+ KiB for state", notes[0])
    assert notes.count("a smaller batch, or a narrower policy, needs less") == 1


def test_a_kernel_that_fails_is_named(bundles, tmp_path):
    done = bundles.train(
        bundles.compile(), ["--out", tmp_path / "run"], settings="fail_launch=3", code=6,
    )  # fmt: skip
    # The products before are the library's.
    third = [r for r in Bundle(bundles.compile()).plan["records"] if "segments" in r][2]
    assert "LAUNCH_FAILED (719)" in done.stderr
    assert re.search(
        rf"note: while kernel '\w+' \({re.escape(third['label'])}\) ran\n", done.stderr
    )


@pytest.mark.parametrize("program, more", [("binade-run", []), ("binade", ["train"])])
def test_a_device_of_no_name(program, more, bundles):
    done = run(program, *more, bundles.compile("cpu"), "--device", "gpu", code=2)
    assert "expected auto, cpu, cuda or cuda:NUMBER, got 'gpu'" in done.stderr


@pytest.mark.parametrize("target, meant", [
    ("cuda:sm_12", "; did you mean 'cuda:sm_80'?"), ("foo", ""), ("", ""),
])  # fmt: skip
@pytest.mark.parametrize("command", ["compile", "train"])
def test_a_target_of_no_name(command, target, meant, tmp_path):
    more = ["-o", tmp_path / "b"]
    if command == "train":
        more = ["--data", tmp_path / "d", "--steps", 1, "--out", tmp_path / "run"]
    done = run("binade", command, MODEL, *more, "--target", target, code=2)
    assert done.stderr == (
        f"binade: error: no target is called '{target}'{meant}\n"
        "binade: note: there are cuda:sm_80, cuda:sm_89, cuda:sm_90, cuda:sm_100, and "
        "CPUs without --target\n"
    )


def test_a_kernel_in_no_module(bundles, tmp_path):
    bundle, changed = Bundle(bundles.compile()), tmp_path / "changed.bnd"
    bundle.plan["device_kernels"][0]["module"] = 1000
    bundle.write(changed, bundle.plan)
    done = bundles.train(changed, ["--out", tmp_path / "run"], code=3)
    assert re.search(
        r"'relu_0 act': error: kernel 'relu_0' is in module 1000, and there are \d+\n",
        done.stderr,
    )
