"""The build can be installed, and a project finds it with find_package(Binade)."""

import os
import subprocess

import numpy as np
import pytest
from support.paths import BUILD, ROOT
from support.reference import safetensors

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (BUILD / "lib/BinadePlugin.so").exists(), reason=f"{BUILD} is not built"
    ),
]

FORWARD = """
func.func @forward(
    %w: tensor<6xf32> {binade.role = #binade.role<parameter>, binade.name = "w"},
    %x: tensor<6xf32> {binade.role = #binade.role<batch>, binade.name = "x"})
    -> (tensor<f32> {binade.role = #binade.role<metric>, binade.name = "loss"}) {
  %0 = binade.mul %w, %x : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  %1 = binade.reduce_sum %0 {axes = array<i64: 0>} : (tensor<6xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
"""


def check_call(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def read_cache(name):
    for line in (BUILD / "CMakeCache.txt").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return line.partition("=")[2]
    return ""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    check_call("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix


@pytest.fixture(scope="module")
def consumer(installed, tmp_path_factory):
    build = tmp_path_factory.mktemp("consumer")
    settings = {
        "CMAKE_PREFIX_PATH": installed,
        "CMAKE_C_COMPILER": read_cache("CMAKE_C_COMPILER"),
        "CMAKE_CXX_COMPILER": read_cache("CMAKE_CXX_COMPILER"),
        "CMAKE_EXE_LINKER_FLAGS": read_cache("CMAKE_EXE_LINKER_FLAGS"),
    }
    flags = [f"-D{name}={value}" for name, value in settings.items()]
    check_call("cmake", "-G", "Ninja", "-S", ROOT / "test/package", "-B", build, *flags)
    check_call("ninja", "-C", build)
    return build


def test_a_project_parses_the_dialect_and_runs_a_pass(consumer, tmp_path):
    source = tmp_path / "forward.mlir"
    source.write_text(FORWARD)
    text = check_call(consumer / "differentiate", source)
    assert "func.func @gradient" in text
    assert "#binade.role<gradient>" in text


def test_a_project_reads_files_without_mlir(consumer):
    program = consumer / "count-tensors"
    fixture = ROOT / "test/unittests/Container/Inputs/all_dtypes.safetensors"
    assert check_call(program, fixture) == "19\n"
    assert "MLIR" not in check_call("ldd", program)


def test_installed_tools_run(installed):
    assert "Binade's pass driver" in check_call(installed / "bin/binade-opt", "--help")
    for name in ("binade/optimizers/adamw.mlir", "binade/policies/bf16-amp.yaml"):
        assert (installed / "share" / name).exists()


def test_installed_files_do_not_refer_to_the_source_tree(installed):
    for path in installed.rglob("*.cmake"):
        assert str(ROOT) not in path.read_text(), path


def test_the_installed_driver_lists_runs(installed, tmp_path):
    """`binade runs` uses the first Python on PATH and no file of the source tree."""
    data = tmp_path / "data.safetensors"
    safetensors.save(
        data,
        {"x": np.ones((16, 16), np.float32), "labels": np.zeros(16, np.int64)},
    )
    check_call(
        installed / "bin/binade", "train", ROOT / "examples/mlp/mlp.onnx", "--loss",
        "cross_entropy(prediction, labels)", "--data", data, "--optimizer", "sgd",
        "--steps", "2", "--out", tmp_path / "run",
    )  # fmt: skip
    done = subprocess.run(
        [installed / "bin/binade", "runs", tmp_path / "run"],
        capture_output=True, text=True, timeout=600, cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[2].split()[1:5] == ["mlp", "fp32", "0", "2"]
    assert str(ROOT) not in (installed / "bin/binade-runs").read_text()
