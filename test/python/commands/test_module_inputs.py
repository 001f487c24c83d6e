"""Commands take a module that `binade import` wrote wherever they take an ONNX file, with the
same results."""

import json

import numpy as np
import pytest
from support.paths import BUILD
from support.reference import binade, safetensors
from support.traced_models import F32, TWO_LAYERS, options, write

onnx = pytest.importorskip("onnx")

from onnx import numpy_helper  # noqa: E402

RANDOM = np.random.default_rng(11)
X = RANDOM.standard_normal((32, 8)).astype(F32)
FIRST, SECOND = (RANDOM.standard_normal((8, 8)).astype(F32) for _ in range(2))
POLICY = """name: mine
extends: bf16-amp
rules:
- { match: { name: "NAME" }, class: deny }
"""
BEFORE_STEP = ["import", "autodiff", "optimizer"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("modules")
    write(folder, TWO_LAYERS, X, first=FIRST, second=SECOND)
    run("import", folder / "model.onnx", "-o", folder / "model.mlir")
    for phase in ["autodiff", "optimizer", "assign", "kernels"]:
        run("compile", folder / "model.onnx", f"--to={phase}", "-o",
            folder / f"{phase}.mlir", "--optimizer", "sgd")  # fmt: skip
    (folder / "known.yaml").write_text(POLICY.replace("NAME", "u*"))
    return folder


def run(*arguments, code=0, **how):
    done = binade(*arguments, **how)
    assert done.returncode == code, done.stderr
    return done


def refuse(code, words, *arguments):
    done = run(*arguments, code=code)
    assert words in done.stderr
    assert done.stderr.count("error: ") == 1
    return done


def get_output(folder, command, name):
    """What a command prints for a model, which it may name."""
    done = binade(command[0], folder / name, *command[1:])
    assert done.returncode in (0, 1), done.stderr
    return (done.stdout + done.stderr).replace(str(folder / name), "MODEL")


@pytest.mark.parametrize(
    "command",
    [
        ("explain", "--policy", "fp16-amp"),
        ("explain", "--policy", "fp16-amp", "--op", "up", "--format", "json"),
        ("diff", "--policy", "bf16-amp", "--policy", "fp16-amp"),
        ("inspect", "--policy", "bf16-amp"),
        ("inspect", "--ledger", "saved"),
        ("fit", "--memory", "1MiB", "--policy", "bf16-amp", "--states", "f32"),
    ],
)
def test_reports_are_those_of_the_file(folder, command):
    assert get_output(folder, command, "model.mlir") == get_output(
        folder, command, "model.onnx"
    )


def test_a_policy_is_checked_on_a_module(folder):
    texts = [
        run("policy", "check", folder / "known.yaml", "--model", folder / name).stdout
        for name in ("model.onnx", "model.mlir")
    ]
    assert texts[0].split("\n", 1)[1] == texts[1].split("\n", 1)[1]


@pytest.mark.parametrize("name", ["model.mlir", "autodiff.mlir", "optimizer.mlir"])
def test_training_a_module_gives_the_bits_of_the_file(folder, name, tmp_path):
    finals = []
    for model in ("model.onnx", name):
        arguments = options(folder, "bf16-amp")
        if name == "optimizer.mlir" and model == name:
            arguments = [
                a for a in arguments if a not in ("--optimizer", "sgd", "--lr", 0.01)
            ]
            run("compile", folder / "model.onnx", "--to=optimizer", "-o",
                folder / name, "--optimizer", "sgd", "--lr", 0.01)  # fmt: skip
        out = tmp_path / model
        run("train", folder / model, *arguments, "--steps", 3, "--out", out)
        finals.append(safetensors.load(out / "final.safetensors"))
    assert finals[0].keys() == finals[1].keys()
    assert all(np.array_equal(finals[0][key], finals[1][key]) for key in finals[0])


def test_compile_finds_the_phase(folder, tmp_path):
    plans = []
    for name in ["model.onnx", "model.mlir", "autodiff.mlir", "optimizer.mlir"]:
        more = [] if name == "optimizer.mlir" else ["--optimizer", "sgd"]
        run("compile", folder / name, "--to=plan", "-o", tmp_path / "plan.json", *more)
        plans.append(json.loads((tmp_path / "plan.json").read_text()))
    for plan in plans:
        plan.pop("model", None)
    assert plans[0]["records"] == plans[1]["records"]
    assert len({len(plan["records"]) for plan in plans}) == 1


def test_trace_reads_a_module(folder, tmp_path):
    run("train", folder / "model.mlir", *options(folder, "fp16-amp"), "--steps", 1,
        "--out", tmp_path / "run", "--save-inputs", tmp_path / "step.safetensors")  # fmt: skip
    arguments = ["--policy", "fp16-amp", "--optimizer", "sgd", "--inputs",
                 tmp_path / "step.safetensors", "--compare"]  # fmt: skip
    texts = [
        run("trace", folder / n, *arguments).stdout
        for n in ("model.onnx", "model.mlir")
    ]
    assert texts[0] == texts[1]


@pytest.mark.skipif(
    not (BUILD / "bin/binade-shadow").exists(), reason="the tools are not built"
)
@pytest.mark.parametrize("command", ["shadow", "sweep", "search", "bisect"])
def test_python_commands_take_a_module(folder, command, tmp_path):
    arguments, policy = options(folder, "fp16-amp")[:-2], ["--policy", "fp16-amp"]
    out = ["--out", tmp_path / "out"]
    more = {
        "shadow": policy,
        "sweep": ["--steps", 2, "--policies", "bf16-amp", "--seeds", 1, *out],
        "search": [
            "--steps",
            2,
            "--budget",
            "memory=1MiB",
            "--policies",
            "bf16-amp",
            "--trials",
            1,
            "--eval-fraction",
            0.5,
            *out,
        ],
        "bisect": ["--criterion", "loss@2 <= fp32*1.5", *policy, *out],
    }[command]
    done = binade(command, folder / "model.mlir", *arguments, *more)
    assert done.returncode in (0, 1), done.stderr
    assert "error" not in done.stderr


@pytest.mark.skipif(
    not (BUILD / "bin/binade-why-nan").exists(), reason="the tools are not built"
)
def test_why_nan_traces_a_run_of_a_module(folder, tmp_path):
    large = tmp_path / "data.safetensors"
    safetensors.save(large, {"x": np.float32(1e38) * X})
    texts = []
    for name in ("model.onnx", "model.mlir"):
        arguments = ["--data", large, "--order", "sequential", "--policy", "bf16-amp"]
        out = tmp_path / name
        run("train", folder / name, *arguments, "--steps", 2, "--out", out, code=4)
        texts.append(run("why-nan", out, "--json").stdout)
    first, second = (json.loads(text) for text in texts)
    assert first.keys() == second.keys()


@pytest.mark.parametrize(
    "option", ["--dim=batch=8", "--loss=mse(loss, x)", "--train=*"]
)
def test_options_of_the_import_are_refused(folder, option):
    flag = option.split("=")[0]
    words = f"{flag} belongs to phase 'import', which is done in a module"
    refuse(2, words, "explain", folder / "model.mlir", option)
    refuse(2, words, "compile", folder / "model.mlir", option, "-o", "-", "--to=assign")
    refuse(2, words, "fit", folder / "model.mlir", option, "--memory", "1MiB")


def test_modules_of_later_phases_are_refused(folder, tmp_path):
    where = folder / "assign.mlir"
    refuse(2, f"{where} is a module: name the phase that wrote it, such as --from=assign "
           "(binade list phases)", "compile", where, "-o", tmp_path / "x.bnd")  # fmt: skip
    refuse(2, "compile it first: binade compile", "train", where,
           *options(folder, "bf16-amp"), "--steps", 1, "--out", tmp_path / "run")  # fmt: skip
    refuse(3, "expected a function '@forward', '@gradient' or '@step'", "explain",
           write_module(tmp_path, "func.func private @f()"))  # fmt: skip
    refuse(2, "convert writes a changed copy of an ONNX file", "convert",
           folder / "model.mlir", "--policy", "bf16-amp", "-o", tmp_path / "x.onnx")  # fmt: skip
    assert not list(tmp_path.glob("x.*"))


def test_a_metric_has_one_element(tmp_path):
    module = write_module(
        tmp_path,
        """func.func @step(%x: tensor<4xf32> {binade.name = "x", binade.role = #binade.role<batch>})
    -> (tensor<4xf32> {binade.name = "y", binade.role = #binade.role<metric>}) {
  %y = binade.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
""",
    )
    refuse(3, "metric 'y' has type 'tensor<4xf32>', expected one element; tensors have the "
           "role 'output'", "compile", module, "-o", tmp_path / "x.bnd")  # fmt: skip


def write_module(folder, text):
    (folder / "other.mlir").write_text(text)
    return folder / "other.mlir"


def test_a_run_of_a_module_is_exported_into_its_file(folder, tmp_path):
    out = tmp_path / "run"
    run("train", folder / "model.mlir", *options(folder, "bf16-amp"), "--steps", 1,
        "--out", out)  # fmt: skip
    refuse(2, "name the ONNX file that it was imported from by --model", "export", out,
           "-o", tmp_path / "x.onnx")  # fmt: skip
    run("export", out, "--model", folder / "model.onnx", "-o", tmp_path / "x.onnx")


@pytest.fixture
def external(tmp_path):
    """A model in a folder of its own, with weights in a file next to it."""
    folder = tmp_path / "sub"
    folder.mkdir()
    write(folder, TWO_LAYERS, X, first=FIRST, second=SECOND)
    model = onnx.load(folder / "model.onnx")
    for tensor in model.graph.initializer:
        tensor.CopyFrom(
            numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name)
        )
    onnx.save(model, folder / "model.onnx", save_as_external_data=True,
              location="weights.bin", size_threshold=0)  # fmt: skip
    return folder


def test_weights_are_found_from_the_folder_of_the_module(external, tmp_path):
    model, above = external / "model.onnx", tmp_path / "above.mlir"
    assert run("import", model, "-o", above).stderr.count("warning") == 0
    assert '#binade.external<"sub/weights.bin"' in above.read_text()
    for name in (model, above):
        run("train", name, *options(external, "fp32"), "--steps", 2, "--out",
            tmp_path / name.suffix[1:])  # fmt: skip
    finals = [
        safetensors.load(tmp_path / suffix / "final.safetensors")
        for suffix in ("onnx", "mlir")
    ]
    assert all(np.array_equal(finals[0][key], finals[1][key]) for key in finals[0])
    other = tmp_path / "other"
    other.mkdir()
    done = run("import", model, "-o", other / "m.mlir")
    assert f"weight file 'weights.bin' in {external.resolve()}" in done.stderr
