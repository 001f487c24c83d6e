"""Every pass and pipeline of binade-opt, on the module after each phase, succeeds or says
which pipeline to run first, in a few lines."""

import concurrent.futures
import re
import subprocess

import pytest
from support.paths import BUILD, ROOT

OPT = BUILD / "bin/binade-opt"
PHASES = ["import", "autodiff", "optimizer", "assign", "materialize", "programs", "monitor",
          "kernels"]  # fmt: skip
OPTIONS = {"assign": "=policy=fp16-amp", "monitor": "=watch=gradient:absmax"}
# What a refusal says: a pipeline to run, or that the pass is too late, has nothing to do, or
# needs another setting.
CLEAR = re.compile(
    r"run (binade-[a-z-]+-pipeline( and )?)+ first|run this pass before|has no embedding"
    r"|gradients cannot be released .*; use (--on-nonfinite stop|a policy)"
)


def call(*arguments):
    return subprocess.run(arguments, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stages")
    last = folder / "import.mlir"
    done = call(BUILD / "bin/binade", "import", ROOT / "examples/mlp/mlp.onnx", "-o", last,
                "--loss", "cross_entropy(prediction, labels)")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = {"import": last}
    for phase in PHASES[1:]:
        found[phase] = folder / f"{phase}.mlir"
        pipeline = f"--binade-{phase}-pipeline{OPTIONS.get(phase, '')}"
        done = call(OPT, last, pipeline, "--mlir-print-debuginfo", "-o", found[phase])
        assert done.returncode == 0, done.stderr
        last = found[phase]
    return found


@pytest.fixture(scope="module")
def passes():
    found = re.findall(r"^ {4,8}--(binade-[\w-]+)", call(OPT, "--help").stdout, re.M)
    assert len(found) > 50
    return found


def test_passes_succeed_or_say_what_to_run_first(stages, passes):
    def run(case):
        name, path = case
        return case, call(OPT, path, f"--{name}", "-o", "/dev/null")

    cases = [(name, path) for name in passes for path in stages.values()]
    with concurrent.futures.ThreadPoolExecutor() as threads:
        for (name, path), done in threads.map(run, cases):
            where = (name, path.stem, done.stderr[:2000])
            assert done.returncode in (0, 1), where
            if done.returncode:
                assert len(done.stderr.splitlines()) == 1, where
                assert CLEAR.search(done.stderr), where


@pytest.mark.parametrize(
    ("phase", "stage", "words"),
    [
        ("kernels", "import", "'@step' to expand; this module has '@forward': run "
         "binade-autodiff-pipeline and binade-optimizer-pipeline first"),
        ("assign", "autodiff", "'@step' to assign formats to; this module has '@gradient': "
         "run binade-optimizer-pipeline first"),
        ("materialize", "optimizer", "expected a policy ('binade.policy' of the module); run "
         "binade-assign-pipeline first"),
        ("autodiff", "kernels", "'@forward' to differentiate; this module has '@step', which "
         "binade-optimizer-pipeline wrote from it: run this pass before binade-optimizer-pipeline"),
        ("conversion", "monitor", "expected kernels, functions with 'binade.kernel'; run "
         "binade-kernels-pipeline first"),
        ("target-cpu", "kernels", "expected loops over memory, without binade ops; run "
         "binade-conversion-pipeline first"),
    ],
)  # fmt: skip
def test_a_phase_too_early_names_the_pipelines_before(stages, phase, stage, words):
    done = call(OPT, stages[stage], f"--binade-{phase}-pipeline")
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr


def test_an_empty_module_lacks_an_import(tmp_path):
    (tmp_path / "empty.mlir").write_text("")
    done = call(OPT, tmp_path / "empty.mlir", "--binade-kernels-pipeline")
    assert "'binade import' writes a module with '@forward'" in done.stderr


def test_help_starts_with_binade():
    lines = call(OPT, "--help").stdout.splitlines()
    assert lines[0].startswith("OVERVIEW: Binade's pass driver")
    first = "\n".join(lines[:30])
    assert all(f"--binade-{phase}-pipeline" in first for phase in PHASES)
    text = "\n".join(lines)
    assert not re.search(r"--(amdgpu|aarch64|polly)", text)
    assert len(lines) < 400
    hidden = call(OPT, "--help-hidden").stdout
    assert "--verify-each" in text and len(hidden) > len(text)
