"""Attention on a device, by cuDNN or by own kernels: a small model trains as on the CPU."""

import itertools
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.cuda_runs import CUDA, CUDNN, SIMULATED, need_simulated_driver, run
from support.paths import MODELS
from support.reference import safetensors
from support.shared_models import FOLD

pytestmark = pytest.mark.usefixtures("with_libraries")

BATCH, STEPS, HEADS, GROUPS, ROWS, COLUMNS = 2, 2, 4, 2, 80, 16
SHAPE = (BATCH, HEADS, ROWS, COLUMNS)
# Gradients for which the plan reserves workspace, because they take less time by cuDNN.
WIDE = (1, 1, 96, 128)
LIBRARIES = f"{CUDNN}:{SIMULATED}"
BY_CUDNN = "cudnn 9.24.0 attention engine 6"


def make_model(path, shape, groups):
    """Attention whose query, key and value are matmuls of the input with a weight each. With fewer
    groups than heads, keys and values are those of the first heads of the input.
    """
    draw, names = np.random.default_rng(5), ["query", "key", "value"]
    columns = shape[-1]
    size = (columns, columns)
    weights = {
        f"w.{name}": draw.standard_normal(size, np.float32) / columns**0.5
        for name in names
    }
    limits = {"first": 0, "last": groups, "axis": 1}
    nodes = [
        helper.make_node("Constant", [], [name], value_ints=[value])
        for name, value in limits.items()
    ]
    nodes.append(helper.make_node("Slice", ["x", *limits], ["some"]))
    for name in names:
        source = "x" if name == "query" else "some"
        nodes.append(helper.make_node("MatMul", [source, f"w.{name}"], [name]))
    nodes.append(
        helper.make_node("Attention", names, ["y"], is_causal=1, scale=columns**-0.5)
    )
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "attention", [info("x", TensorProto.FLOAT, shape)],
        [info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(x.astype(np.float32), name) for name, x in weights.items()],
    )  # fmt: skip
    opset = [helper.make_opsetid("", 23)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=10)
    onnx.save(model, path, save_as_external_data=True, size_threshold=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    need_simulated_driver()
    folder = tmp_path_factory.mktemp("attention")
    for name, shape, groups in (
        ("model", SHAPE, HEADS), ("grouped", SHAPE, GROUPS), ("wide", WIDE, 1),
    ):  # fmt: skip
        make_model(folder / f"{name}.onnx", shape, groups)
        draw = np.random.default_rng(7)
        size = (shape[0] * STEPS, *shape[1:])
        data = {key: draw.standard_normal(size, np.float32) for key in ("x", "target")}
        safetensors.save(folder / f"{name}.safetensors", data)
    targets = {"cpu": [], "cuda": [*CUDA, "--save-kernels", folder]}
    compiled = [*itertools.product(("bf16-amp", "fp16-amp"), ("model", "grouped")),
                ("bf16-amp", "wide")]  # fmt: skip
    for (target, more), (policy, model) in itertools.product(targets.items(), compiled):
        suffix = "" if model == "model" else f"-{model}"
        run(
            "binade", "compile", folder / f"{model}.onnx", "--policy", policy,
            "--loss", "mse(y, target)", "--optimizer", "sgd", "--lr", 0.5, *more,
            "-o", folder / f"{target}-{policy}{suffix}.bnd",
        )  # fmt: skip
    return folder


def find_model(bundle):
    """Returns the name of the model of a bundle."""
    name = bundle.split("-")[-1]
    return name if name in ("grouped", "wide") else "model"


def train(folder, bundle, out, libraries=SIMULATED, settings="", code=0, **environment):
    """Returns the standard error, the parameters, and the calls of attention: forward and gradients
    of the step, forward of the evaluation.
    """
    done = run(
        "binade-run", folder / f"{bundle}.bnd",
        "--data", folder / f"{find_model(bundle)}.safetensors", "--steps", STEPS, "--order", "sequential", "--device", bundle.split("-")[0],
        "--out", out, library_path=libraries, code=code,
        BINADE_SIMULATED_KERNELS=str(folder), BINADE_SIMULATED_CUDA=settings,
        **environment,
    )  # fmt: skip
    if code:
        return done.stderr, {}, []
    about = json.loads((out / "run.json").read_text())["invocations"][0]
    calls = [call for call in about["contractions"] if "attention" in call["record"]]
    return done.stderr, safetensors.load(out / "final.safetensors"), calls


def check_close(found, expected, unit, path):
    """Sums in another order and probabilities may round differently, by a whole unit."""
    start = {
        x.name: numpy_helper.to_array(x) for x in onnx.load(path).graph.initializer
    }
    for name, first in start.items():
        change = np.abs(expected[name] - first).max()
        assert change > 0
        np.testing.assert_allclose(
            found[name], expected[name], rtol=0, atol=8 * unit * change, err_msg=name
        )


@pytest.mark.parametrize(
    "policy, unit", [("bf16-amp", 2.0**-8), ("fp16-amp", 2.0**-11)]
)
@pytest.mark.parametrize("suffix", ["", "-grouped"])
def test_cudnn_trains_as_the_cpu_does(suffix, policy, unit, folder, tmp_path):
    """With `library`, cuDNN also computes gradients for which the plan reserves no workspace."""
    policy += suffix
    _, expected, _ = train(folder, f"cpu-{policy}", tmp_path / "cpu")
    _, own, calls = train(folder, f"cuda-{policy}", tmp_path / "own")
    assert [call["by"] for call in calls] == ["own kernel"] * 3
    errors, found, calls = train(
        folder, f"cuda-{policy}", tmp_path / "cudnn", LIBRARIES,
        BINADE_CONTRACTION="library",
    )  # fmt: skip
    assert "own kernels" not in errors
    assert [call["by"] for call in calls] == [BY_CUDNN] * 3
    path = folder / f"{find_model(policy)}.onnx"
    check_close(own, expected, unit, path)
    check_close(found, expected, unit, path)
    assert any((found[name] != own[name]).any() for name in own)


def find_workspaces(bundle):
    """Returns by the pass whether the plan reserves workspace for cuDNN."""
    plan = json.loads(run("binade", "inspect", bundle, "--json").stdout)
    return {
        "backward" if "gradients" in record else "forward": "library_scratch" in record
        for record in plan["records"]
        if record["kind"] == "attention"
    }


@pytest.mark.parametrize("suffix, model, gradients", [
    ("", "model", "own kernel"),
    ("-wide", "wide", BY_CUDNN),
])  # fmt: skip
def test_gradients_are_computed_where_they_are_fastest(
    suffix, model, gradients, folder, tmp_path
):
    """Where own kernels are as fast as cuDNN, the plan has no workspace, and nothing is refused."""
    bundle = f"cuda-bf16-amp{suffix}"
    assert find_workspaces(folder / f"{bundle}.bnd") == {
        "forward": True, "backward": gradients == BY_CUDNN,
    }  # fmt: skip
    _, expected, _ = train(folder, f"cpu-bf16-amp{suffix}", tmp_path / "cpu")
    errors, found, calls = train(folder, bundle, tmp_path / "run", LIBRARIES)
    assert [call["by"] for call in calls] == [BY_CUDNN, gradients, BY_CUDNN]
    assert not any("refusal" in call for call in calls) and "own kernels" not in errors
    check_close(found, expected, 2.0**-8, folder / f"{model}.onnx")


@pytest.mark.parametrize("bundle, mode, settings, why", [
    ("cuda-bf16-amp", "library", "attention_engines=0",
     "cuDNN 9.24.0 has no engine for it"),
    ("cuda-bf16-amp", "library", "cudnn=91000",
     "cuDNN 9.10.0 supports no attention in this version"),
    ("cuda-bf16-amp-wide", "auto", "attention_workspace=1000000000",
     "bytes of workspace for attention"),
])  # fmt: skip
def test_own_kernels_compute_what_cudnn_refuses(
    bundle, mode, settings, why, folder, tmp_path
):
    _, expected, _ = train(folder, bundle, tmp_path / "own")
    errors, found, calls = train(
        folder, bundle, tmp_path / "run", LIBRARIES, settings, BINADE_CONTRACTION=mode
    )
    refused = [call for call in calls if call["by"] == "own kernel"]
    assert f"own kernels, which are slower, compute {len(refused)} of" in errors
    assert why in errors and all(why in call["refusal"] for call in refused)
    # The forward pass needs little workspace.
    assert len(refused) == (1 if "workspace" in settings else 3)
    if len(refused) == 3:
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_libraries_are_not_used_if_the_user_says_so(folder, tmp_path):
    _, expected, _ = train(folder, "cuda-bf16-amp", tmp_path / "own")
    _, found, calls = train(
        folder, "cuda-bf16-amp", tmp_path / "run", LIBRARIES, BINADE_CONTRACTION="own"
    )
    assert [call["by"] for call in calls] == ["own kernel"] * 3
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_cudnn_is_not_opened_without_cublaslt(folder, tmp_path):
    """cuDNN ends the process if it does not find cuBLASLt."""
    lonely = tmp_path / "lib"
    lonely.mkdir()
    for library in (SIMULATED / "libcuda.so.1", CUDNN / "libcudnn.so.9"):
        (lonely / library.name).symlink_to(library)
    errors, _, calls = train(folder, "cuda-bf16-amp", tmp_path / "run", lonely)
    assert (
        "attention uses the bundle's own kernels, which are slower: cuBLASLt" in errors
    )
    assert [call["by"] for call in calls] == ["own kernel"] * 3


def test_a_failed_execution_ends_the_run(folder, tmp_path):
    errors, _, _ = train(
        folder, "cuda-bf16-amp", tmp_path / "run", LIBRARIES, "attention_status=5000",
        code=6,
    )  # fmt: skip
    assert "cudnnBackendExecute failed" in errors


def check_groups(bundle, batch, count, rows, columns):
    """All records share keys and values, and no operand is a copy for each head."""
    plan = json.loads(run("binade", "inspect", bundle, "--json").stdout)
    records = [r for r in plan["records"] if r["kind"] == "attention"]
    assert len(records) == count
    for record in records:
        assert record["grouped"] and record["batch"] == batch
        sizes = [
            plan["buffers"][view["buffer"]]["bytes"]
            for views in (record, record.get("gradients", {}))
            for name in ("key", "value", "dkey", "dvalue")
            if (view := views.get(name))
        ]
        assert max(sizes) == 2 * batch[0] * batch[1] * rows * columns
    return [kernel["name"] for kernel in plan["device_kernels"]]


def test_groups_read_no_copies_of_keys(folder):
    bundle = folder / "cuda-bf16-amp-grouped.bnd"
    check_groups(bundle, [BATCH, GROUPS, HEADS // GROUPS], 2, ROWS, COLUMNS)


@pytest.mark.parametrize("graph", ["loss", "grads", "train_step.adamw"])
def test_groups_of_an_imported_model_read_no_copies(graph, tmp_path):
    """In graphs with gradients, the exporter has added up those of the copies."""
    path = MODELS / f"llama-tiny/{graph}.onnx"
    if not path.exists():
        pytest.skip(f"{path} is absent; BINADE_MODELS names its folder")
    more = FOLD["llama-tiny"] if graph == "loss" else []
    bundle = tmp_path / "model.bnd"
    run("binade", "compile", path, *CUDA, "--policy", "bf16-amp", *more, "-o", bundle)
    kernels = check_groups(bundle, [4, 2, 2], 4, rows=64, columns=16)
    assert not [name for name in kernels if "broadcast" in name]
    # Only the loss is a sum.
    assert len([name for name in kernels if "reduce_sum" in name]) == 1


@pytest.mark.parametrize("suffix", ["", "-grouped"])
def test_verify_accepts_attention_by_cudnn(suffix, folder):
    done = run(
        "binade", "verify", folder / f"cuda-bf16-amp{suffix}.bnd", "--device", "cuda",
        "--data", folder / f"{find_model(suffix)}.safetensors", "--repeat", 2,
        library_path=LIBRARIES, BINADE_SIMULATED_KERNELS=str(folder),
        BINADE_CONTRACTION="library",
    )  # fmt: skip
    assert "are within the bound" in done.stdout + done.stderr
