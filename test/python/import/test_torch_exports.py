"""Files that torch.onnx.export wrote train like the module that was exported.

The files are from PyTorch 2.5, 2.9 and 2.14; the expected values are from PyTorch
(`test/data/torch-exports/export.py`).
"""

import numpy as np
import pytest
from binade import trained
from support import exported_models
from support.exported_models import BINADE, DATA, binade, load_values

onnx = pytest.importorskip("onnx")

FILES = DATA / "torch-exports"
VERSIONS = ["2.5", "2.9", "2.14"]

pytestmark = pytest.mark.skipif(not BINADE.exists(), reason="the tool is not built")


def exported(pattern):
    return sorted(str(path.relative_to(FILES)) for path in FILES.glob(pattern))


def values(name, prefix=None):
    module = name.split("/")[-1].split("-")[0]
    return load_values("torch-exports", module, prefix)


def train(name, folder, *options):
    """One step of SGD on the batch with which PyTorch trained."""
    known = values(name)
    batch = {onnx.load(FILES / name).graph.input[0].name: known["batch"]}
    return exported_models.train(
        FILES / name, batch, known["labels"], folder, *options, steps=1
    )


def check_step(name, folder, parameters, without=()):
    expected = values(name, "after/")
    state = trained.load_state(folder / "run")
    assert set(parameters) <= set(state) <= set(expected)
    for key in set(state) - set(without):
        assert state[key].shape == expected[key].shape, key
        np.testing.assert_allclose(
            state[key], expected[key], rtol=0, atol=1e-6, err_msg=key
        )


BUFFERS = ("mask", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked")


def parameters(name):
    return [key for key in values(name, "before/") if key not in BUFFERS]


TRACED = [
    *exported("*/text-dynamo-*.onnx"), *exported("*/text-kept-*.onnx"),
    *exported("*/image-kept-*.onnx"), *exported("2.5/image-dynamo-train.onnx"),
]  # fmt: skip


@pytest.mark.parametrize("name", TRACED)
def test_parameters_of_the_signature_are_trained(name, tmp_path):
    """Merged, transposed and removed parameters are those of the module again, and batch
    norm is in training mode if the module was."""
    result = train(name, tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    count = len(parameters(name))
    assert f"trained: {count} of {count} parameters\n" in result.stdout
    check_step(name, tmp_path, parameters(name))


@pytest.mark.parametrize("name", exported("*/text-dynamo-*.onnx"))
def test_stored_transposes_are_not_reported_as_unused(name):
    report = binade("import", FILES / name, "--report").stderr
    assert f"parameters: {len(parameters(name))} tensors" in report
    assert "unused" not in report


@pytest.mark.parametrize("name", exported("*/text-script-*.onnx"))
def test_parameters_of_torchscript_files_are_trained(name, tmp_path):
    """The file does not say which tensors are buffers: they are listed."""
    frozen = ["--freeze", "mask"] if "kept" in name else []
    result = train(name, tmp_path, *frozen)
    assert result.returncode == 0, result.stderr
    if not frozen:
        assert (
            "does not say which tensors are parameters; 11 are trained: 'scale', "
            in result.stderr
        )
    check_step(name, tmp_path, parameters(name))


@pytest.mark.parametrize("version", VERSIONS)
def test_running_statistics_of_torchscript_files_are_buffers(version, tmp_path):
    name = f"{version}/image-script-kept-train.onnx"
    result = train(name, tmp_path)
    assert result.returncode == 0, result.stderr
    assert "6 are trained: 'conv.weight', " in result.stderr
    check_step(
        name,
        tmp_path,
        parameters(name),
        without=["norm.running_mean", "norm.running_var"],
    )
    # The exporter runs the module once, so its file holds the statistics after a batch. The
    # running variance that ONNX defines is that of the population.
    stored = {
        t.name: onnx.numpy_helper.to_array(t)
        for t in onnx.load(FILES / name).graph.initializer
    }
    mean = trained.load_state(tmp_path / "run")["norm.running_mean"]
    expected = (
        0.9 * stored["norm.running_mean"] + values(name, "after/")["norm.running_mean"]
    )
    np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_tensors_that_torchscript_computed_are_reported(version, mode, tmp_path):
    """The exporter folded batch norm into the convolution."""
    result = train(f"{version}/image-script-{mode}.onnx", tmp_path)
    assert result.returncode == 0, result.stderr
    assert "note: the exporter computed 'onnx::Conv_1" in result.stderr
    assert "do_constant_folding=False" in result.stderr


@pytest.mark.parametrize("name", exported("2.[!5]*/image-dynamo-*.onnx"))
def test_folded_parameters_are_an_error(name, tmp_path):
    result = train(name, tmp_path)
    assert result.returncode == 3
    assert (
        "error: 2 of the module's 6 parameters are not in the file: 'norm.weight', "
        "'norm.bias'\n" in result.stderr
    )
    assert "torch.onnx.export(..., optimize=False)" in result.stderr
    assert not (tmp_path / "run").exists()
    accepted = train(name, tmp_path, "--freeze", "norm.*")
    assert accepted.returncode == 0, accepted.stderr


def test_batch_norm_in_inference_form_is_a_warning(tmp_path):
    result = train("2.5/image-dynamo-eval.onnx", tmp_path)
    assert result.returncode == 0
    assert "node 'norm/" in result.stderr
    assert "its running statistics do not change" in result.stderr


@pytest.mark.parametrize("name", exported("*/text-*-train.onnx"))
def test_nodes_are_named_by_modules(name, tmp_path):
    output = onnx.load(FILES / name).graph.output[0].name
    result = binade("explain", FILES / name, "--loss", f"cross_entropy({output}, labels)",
                    "--policy", "bf16-amp", "--format", "json")  # fmt: skip
    assert result.returncode == 0, result.stderr
    for module in ("embedding/", "first/", "blocks.0/", "blocks.1/", "classifier/"):
        assert f'"{module}' in result.stdout, module
    assert "node_" not in result.stdout


def test_train_selects_exactly_what_matches(tmp_path):
    name = "2.14/text-dynamo-train.onnx"
    result = train(name, tmp_path, "--train", "blocks.*")
    assert "trained: 3 of 11 parameters; not trained: 'scale', " in result.stdout
    before, after = values(name, "before/"), trained.load_state(tmp_path / "run")
    changed = {key for key in after if not np.array_equal(before[key], after[key])}
    assert changed == {"blocks.0.weight", "blocks.0.bias", "blocks.1.weight"}
    assert set(parameters(name)) == set(after)


def test_also_train_adds(tmp_path):
    name = "2.14/text-dynamo-train.onnx"
    options = ["--freeze", "*", "--also-train", "scale"]
    assert "trained: 1 of 11 parameters" in train(name, tmp_path, *options).stdout


def test_a_pattern_without_a_match_suggests_names(tmp_path):
    result = train("2.14/text-dynamo-train.onnx", tmp_path, "--train", "block.0.weight")
    assert result.returncode == 3
    assert "did you mean 'blocks.0.weight'?" in result.stderr


def test_trained_models_are_exported_with_the_parameters_of_the_module(tmp_path):
    """`binade export` separates what the import separated."""
    name = "2.14/text-dynamo-train.onnx"
    assert train(name, tmp_path).returncode == 0
    result = binade("export", tmp_path / "run", "-o", tmp_path / "out.onnx")
    assert result.returncode == 0, result.stderr
    graph = onnx.load(tmp_path / "out.onnx").graph
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    for key in parameters(name):
        np.testing.assert_allclose(stored[key], values(name, "after/")[key], atol=1e-6)
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = runtime.InferenceSession(tmp_path / "out.onnx")
    (logits,) = session.run(
        [graph.output[0].name], {graph.input[0].name: values(name)["batch"]}
    )
    assert logits.shape == (3, 5)
