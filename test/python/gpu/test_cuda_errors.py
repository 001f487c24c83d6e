"""A bundle that cannot run reports why and what to do, with an exit code."""

import re

import numpy as np
import pytest
from support.arena import Bundle
from support.cuda_runs import LOSS, MODEL, Bundles, run

pytestmark = pytest.mark.usefixtures("with_libraries")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    return Bundles(tmp_path_factory.mktemp("bundles"))


@pytest.mark.parametrize("built, device, messages", [
    ("cuda", "cpu", ["its kernels are for cuda:sm_90, the selected device is the CPU",
                     "to run on the CPU, compile without --target"]),
    ("cpu", "cuda", ["its kernels are for the CPU, the selected device is a GPU",
                     "to run on a GPU, compile with --target cuda:sm_90"]),
])  # fmt: skip
def test_a_bundle_for_another_target(built, device, messages, bundles, tmp_path):
    bundle, out = bundles.compile(built), ["--out", tmp_path / "run"]
    done = bundles.train(bundle, out, "--device", device, code=6)
    error, note = messages
    assert done.stderr == f"{bundle}: error: {error}\n{bundle}: note: {note}\n"


@pytest.mark.parametrize("formed, compiled, message", [
    (["--target", "cuda:sm_90"], [], "for cuda:sm_90, not for cpu; compile it with "
                                     "--target cuda:sm_90"),
    ([], ["--target", "cuda:sm_90"], "for cpu, not for cuda:sm_90; compile it without "
                                     "--target"),
    (["--target", "cuda:sm_80"], ["--target", "cuda:sm_90"],
     "for cuda:sm_80, not for cuda:sm_90; compile it with --target cuda:sm_80"),
])  # fmt: skip
def test_kernels_that_were_formed_for_another_target(
    formed, compiled, message, tmp_path
):
    module, bundle = tmp_path / "kernels.mlir", tmp_path / "out.bnd"
    run("binade", "compile", MODEL, "--loss", LOSS, *formed, "--to=kernels",
        "-o", module)  # fmt: skip
    done = run("binade", "compile", module, "--from=kernels", *compiled, "-o", bundle,
               code=3)  # fmt: skip
    assert f"error: the kernels of this module were formed {message}" in done.stderr
    assert "or start from a module of a phase before 'kernels'" in done.stderr
    assert not bundle.exists()


def test_no_driver(bundles, tmp_path):
    # The loader finds this file before the system's driver, if there is one.
    (tmp_path / "libcuda.so.1").write_text("no library")
    done = bundles.train(
        bundles.compile(), ["--out", tmp_path / "run"], code=6, library_path=tmp_path
    )
    assert "error: the driver cannot be opened: " in done.stderr
    assert "nvidia-smi" in done.stderr


@pytest.mark.parametrize("settings, message", [
    ("version=11040", "the driver is too old: it has CUDA 11.4"),
    ("init=100", "cuInit failed: CUDA_ERROR_NO_DEVICE (100)"),
    ("capability=75",
     "cuda:0 (Simulated H200) has compute capability 7.5, the kernels are for compute_90"),
])  # fmt: skip
def test_no_suitable_device(settings, message, bundles, tmp_path):
    done = bundles.train(
        bundles.compile(), ["--out", tmp_path / "run"], settings=settings, code=6
    )
    assert message in done.stderr


@pytest.mark.parametrize("settings", ["memory=4096", "allocate=4096"])
def test_too_little_memory(settings, bundles, tmp_path):
    done = bundles.train(
        bundles.compile(), ["--out", tmp_path / "run"], settings=settings, code=7
    )
    who, _, rest = done.stderr.partition(" error: ")
    assert who == "cuda:0 (Simulated H200):"
    first, *notes = (line.removeprefix(f"{who} note: ") for line in rest.splitlines())
    assert re.fullmatch(r"needs [\d.]+ KiB of memory; of .*, .* are free", first)
    # AdamW keeps two states per parameter.
    assert any(re.fullmatch(r"[\d.]+ KiB for state", note) for note in notes)
    assert notes.count("a smaller batch or a narrower policy needs less") == 1


def test_a_kernel_that_fails_is_named(bundles, tmp_path):
    done = bundles.train(
        bundles.compile(), ["--out", tmp_path / "run"], settings="fail_launch=3", code=6,
    )  # fmt: skip
    # Earlier records are matmuls of the library, which are not kernels of the bundle.
    third = [r for r in Bundle(bundles.compile()).plan["records"] if "segments" in r][2]
    assert "LAUNCH_FAILED (719)" in done.stderr
    assert re.search(
        rf"note: while kernel '\w+' \({re.escape(third['label'])}\) ran\n", done.stderr
    )


def test_kernels_of_a_graph_are_named(bundles, tmp_path):
    """A failed graph names its first and last kernel, because no more is known. With
    BINADE_CUDA_BLOCKING=1, launches run one by one, and the error names the kernel."""
    bundle, kernels = bundles.compile(), bundles.compile()
    records = Bundle(kernels).plan["records"]
    launched = [record for record in records if "segments" in record]
    entries = {k["name"]: len(k["entries"])
               for k in Bundle(kernels).plan["device_kernels"]}  # fmt: skip
    counts = [entries[record["kernel"]] for record in launched]
    # The third kernel of the second step; launches are counted from 1.
    settings = f"fail_launch={sum(counts) + 3}"
    done = bundles.train(
        bundle, ["--out", tmp_path / "graph"], settings=settings, code=6
    )
    note = next(x for x in done.stderr.splitlines() if "note: while" in x)
    assert f"({records[0]['label']}) ran, or one of the " in note
    assert f"({records[-1]['label']})" in note
    assert "BINADE_CUDA_BLOCKING=1 finds out which one" in done.stderr
    done = bundles.train(bundle, ["--out", tmp_path / "blocking"], settings=settings,
                         code=6, BINADE_CUDA_BLOCKING="1")  # fmt: skip
    (third,) = [r["label"] for r, end in zip(launched, np.cumsum(counts))
                if end >= 3 > end - entries[r["kernel"]]]  # fmt: skip
    assert f"({third}) ran\n" in done.stderr and "after it" not in done.stderr


def test_a_hanging_device_times_out(bundles, tmp_path):
    done = bundles.train(
        bundles.compile(), ["--out", tmp_path / "run"], settings="hang_launch=2", code=6,
        BINADE_CUDA_TIMEOUT="0.2",
    )  # fmt: skip
    assert "error: the device has not finished its work for 0.2 s" in done.stderr
    assert "BINADE_CUDA_TIMEOUT sets the limit, in seconds" in done.stderr


def test_a_driver_that_is_older_than_the_code(bundles, tmp_path):
    done = bundles.train(
        bundles.compile(), ["--out", tmp_path / "run"], code=6,
        settings="version=11080,load_ptx=222,load_cubin=209",
    )  # fmt: skip
    assert "CUDA 11.8" in done.stderr and "error:" in done.stderr


@pytest.mark.parametrize("program, more", [("binade-run", []), ("binade", ["train"])])
def test_an_unknown_device(program, more, bundles):
    done = run(program, *more, bundles.compile("cpu"), "--device", "gpu", code=2)
    assert "expected auto, cpu, cuda or cuda:NUMBER, got 'gpu'" in done.stderr


@pytest.mark.parametrize("target, meant", [
    ("cuda:sm_12", "; did you mean 'cuda:sm_80'?"), ("foo", ""), ("", ""),
])  # fmt: skip
@pytest.mark.parametrize("command", ["compile", "train"])
def test_an_unknown_target(command, target, meant, tmp_path):
    more = ["-o", tmp_path / "b"]
    if command == "train":
        more = ["--data", tmp_path / "d", "--steps", 1, "--out", tmp_path / "run"]
    done = run("binade", command, MODEL, *more, "--target", target, code=2)
    assert done.stderr == (
        f"binade: error: no target is called '{target}'{meant}\n"
        "binade: note: there are cuda:sm_80, cuda:sm_89, cuda:sm_90, cuda:sm_100, and "
        "CPUs without --target\n"
    )


def test_a_launch_with_too_many_blocks(bundles, tmp_path):
    bundle, changed = Bundle(bundles.compile()), tmp_path / "changed.bnd"
    [update] = [
        record
        for record in bundle.plan["records"]
        if record["label"].startswith("optimizer_update")
    ]
    update["grain"] = 1
    update["segments"][0]["extent"] = 2**46
    bundle.write(changed, bundle.plan)
    done = bundles.train(changed, ["--out", tmp_path / "run"], code=3)
    assert "has more than 16777216 blocks of 1 items" in done.stderr


def test_a_kernel_in_an_absent_module(bundles, tmp_path):
    bundle, changed = Bundle(bundles.compile()), tmp_path / "changed.bnd"
    bundle.plan["device_kernels"][0]["module"] = 1000
    bundle.write(changed, bundle.plan)
    done = bundles.train(changed, ["--out", tmp_path / "run"], code=3)
    assert re.search(
        r"'relu_0 act': error: kernel 'relu_0' is in module 1000, and there are \d+\n",
        done.stderr,
    )
