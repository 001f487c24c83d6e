"""A trained model computes the same values in onnxruntime, PyTorch and Binade.

PyTorch exports each small model, and Binade trains it. The exported ONNX file, the
PyTorch module with the trained state, and Binade's held-out loss must agree.
"""

import copy
import json

import numpy as np
import pytest
from support.reference import BF16, binade, safetensors
from support.storage import bits, join

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")

from binade import export, trained
from binade.errors import RejectedError
from onnx import TensorProto
from support import export_models as models
from support.onnx_sessions import run_onnx, session

STEPS, SAVE_EVERY, BATCHES, HELD_OUT = 6, 3, 7, 2
KINDS = {
    "mlp": (models.MLP, models.vectors, models.cross_entropy),
    "gpt": (models.MiniGPT, models.tokens, models.cross_entropy),
    "conv": (models.ConvNet, models.images, models.cross_entropy),
    "dropping": (models.Dropping, models.vectors, models.cross_entropy),
    "own": (models.OwnLoss, models.vectors, None),
    "constants": (models.Constants, models.features, models.distance),
}


class Trained:
    """Exports a model, trains it, and keeps the paths of data and run."""

    def __init__(self, kind, folder, *options, policy="fp32"):
        self.name = kind
        make_model, make_batch, self.loss = KINDS[kind]
        torch.manual_seed(0)
        self.module, batch, self.folder = make_model(), make_batch(), folder
        self.size = len(next(iter(batch.values())))
        draw = np.random.default_rng(0)
        rows = [draw.permutation(self.size) for _ in range(BATCHES)]
        self.data = {
            name: np.concatenate([self.jitter(value.numpy()[r], draw) for r in rows])
            for name, value in batch.items()
        }
        self.model, self.run = folder / "m.onnx", folder / "run"
        export.export_onnx(
            copy.deepcopy(self.module), batch, self.model, loss=self.loss
        )
        safetensors.save(folder / "data.safetensors", self.data)
        done = binade(
            "train", self.model, "--data", folder / "data.safetensors", "--lr", 0.05,
            "--optimizer", "adamw", "--steps", STEPS, "--save-every", SAVE_EVERY,
            "--eval-fraction", HELD_OUT / BATCHES, "--policy", policy,
            "--out", self.run, *options,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        lines = (self.run / "metrics.jsonl").read_text().splitlines()
        self.eval_loss = json.loads(lines[-1])["eval_loss"]

    @staticmethod
    def jitter(array, draw):
        noise = draw.standard_normal(array.shape, np.float32) * 0.1
        return array + noise if array.dtype.kind == "f" else array

    def held_out(self):
        """The batches over which `eval_loss` is the mean."""
        for i in range(BATCHES - HELD_OUT, BATCHES):
            part = slice(i * self.size, (i + 1) * self.size)
            yield {name: array[part] for name, array in self.data.items()}

    def export(self, out, *options, source=None, status=0):
        done = binade(
            "export", source or self.run, "--model", self.model, "-o", out, *options
        )
        assert done.returncode == status, done.stderr
        return done.stderr if status else out

    def trained_module(self):
        module = copy.deepcopy(self.module)
        trained.load(module, self.run)
        return module.eval()


@pytest.fixture(scope="module", params=KINDS)
def kind(request, tmp_path_factory):
    return Trained(request.param, tmp_path_factory.mktemp(request.param))


def predict(model, batch):
    """The prediction of the trained PyTorch module, and its loss."""
    given = {name: torch.tensor(value) for name, value in batch.items()}
    labels = [given.pop(name) for name in ("labels", "y") if name in given]
    with torch.no_grad():
        if model.loss is None:
            found = model.module_now(**given, labels=labels[0])
            return found["logits"], found["loss"]
        prediction = model.module_now(*given.values())
        return prediction, model.loss(prediction, *labels)


def test_onnxruntime_pytorch_and_binade_agree(kind, tmp_path):
    kind.module_now = kind.trained_module()
    initial = {k: v.numpy() for k, v in kind.module.state_dict().items()}
    out = kind.export(tmp_path / "trained.onnx")
    onnx.checker.check_model(out, full_check=True)
    judged = kind.export(tmp_path / "judged.onnx", "--keep-loss")
    assert "loss" not in {value.name for value in session(out).get_outputs()}
    losses, changed = [], False
    for batch in kind.held_out():
        prediction, loss = predict(kind, batch)
        found = run_onnx(out, batch)
        assert len(found) == 1
        (value,) = found.values()
        np.testing.assert_allclose(value, prediction, rtol=1e-5, atol=1e-5)
        with_loss = run_onnx(judged, batch)
        np.testing.assert_allclose(with_loss.pop("loss"), loss, rtol=1e-5)
        assert np.array_equal(*with_loss.values(), value)
        losses.append(loss.item())
    assert np.mean(losses) == pytest.approx(kind.eval_loss, rel=1e-5)
    # It is the trained model, not the one that training started from.
    for name, value in kind.module_now.state_dict().items():
        changed |= not np.array_equal(value.numpy(), initial[name])
    assert changed


def test_pytorch_loads_the_state_strictly(kind):
    """With load_state_dict. The state lacks second names of tied weights, and constants."""
    state = trained.to_torch(trained.load_state(kind.run))
    module = copy.deepcopy(kind.module)
    absent = {"gpt": ["head.weight"], "constants": ["frequency"]}
    if kind.name in absent:
        missing, unexpected = module.load_state_dict(state, strict=False)
        assert (sorted(missing), unexpected) == (sorted(absent[kind.name]), [])
    else:
        module.load_state_dict(state, strict=True)
    expected = kind.trained_module().state_dict()
    for name, value in module.state_dict().items():
        assert torch.equal(value, expected[name]), name


def test_names_shapes_and_metadata_are_kept(kind, tmp_path):
    before = onnx.load(kind.model, load_external_data=False)
    out = kind.export(tmp_path / "trained.onnx")
    after = onnx.load(out, load_external_data=False)
    names = {node.name: node for node in before.graph.node}
    assert after.opset_import == before.opset_import
    assert (after.ir_version, after.producer_name) == (
        before.ir_version, before.producer_name)  # fmt: skip
    assert len(after.graph.node) < len(before.graph.node)
    for node in after.graph.node:
        assert node.op_type == names[node.name].op_type
        assert not [a for a in node.attribute if a.name == "training_mode"]
        assert node.op_type not in ("Dropout", "BatchNormalization") or (
            len(node.output) == 1
        )
    shapes = {tensor.name: list(tensor.dims) for tensor in before.graph.initializer}
    state = trained.load_state(kind.run)
    for tensor in after.graph.initializer:
        assert list(tensor.dims) == shapes[tensor.name]
    values = {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in onnx.load(out).graph.initializer
    }
    for name in set(state) & set(values):
        np.testing.assert_array_equal(values[name], state[name])
    assert set(state) <= set(values)
    metadata = [
        {entry.key: json.loads(entry.value) for entry in proto.metadata_props}
        for proto in (before, after)
    ]
    assert metadata[0] == metadata[1]
    assert not [value for value in after.graph.input if value.name in ("labels", "y")]


def test_running_statistics_are_exported(tmp_path):
    model = Trained("conv", tmp_path)
    state = safetensors.load(model.run / "final.safetensors")
    values = {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in onnx.load(model.export(tmp_path / "t.onnx")).graph.initializer
    }
    for name in ("norm.running_mean", "norm.running_var"):
        np.testing.assert_array_equal(values[name], state[name])
        assert not np.array_equal(values[name], model.module.state_dict()[name].numpy())


def test_training_continues_from_an_exported_graph(tmp_path):
    """Training the exported file equals training the model from the final state."""
    model = Trained("conv", tmp_path)
    again = model.export(tmp_path / "again.onnx", "--training")
    before, after = (
        onnx.load(path, load_external_data=False) for path in (model.model, again)
    )
    assert list(after.graph.node) == list(before.graph.node)
    assert list(after.graph.output) == list(before.graph.output)
    options = ["--data", tmp_path / "data.safetensors", "--lr", 0.05, "--steps", 2,
               "--optimizer", "sgd", "--order", "sequential"]  # fmt: skip
    states = []
    for name, more in (("a", [again]),
                       ("b", [model.model, "--init", model.run / "final.safetensors"])):  # fmt: skip
        done = binade("train", *more, *options, "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
        states.append(trained.load_state(tmp_path / name))
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        np.testing.assert_array_equal(value, states[1][name])


@pytest.mark.parametrize(
    "master",
    ["none", "f32", "split_round", "split_trunc", "split_8bit", "kahan", "residual"],
)
def test_16_bit_parameters_are_exported_as_f32(master, tmp_path):
    policy = tmp_path / "kept.yaml"
    policy.write_text(
        "name: kept\nextends: fp32\nrules:\n- {match: {op: optimizer_update}, "
        f"parameter: bf16, master: {master}}}\n"
    )
    model = Trained("mlp", tmp_path, policy=policy)
    state = safetensors.load(model.run / "final.safetensors")
    companion = {"f32": "master", "split_round": "remainder", "split_trunc": "remainder",
              "split_8bit": "remainder", "kahan": "compensation",
              "residual": "residual"}.get(master)  # fmt: skip
    proto = onnx.load(model.export(tmp_path / "t.onnx"))
    differs = False
    for tensor in proto.graph.initializer:
        if tensor.name not in state:
            continue
        assert tensor.data_type == TensorProto.FLOAT
        stored = state[tensor.name]
        assert stored.dtype == BF16
        if master == "none":
            expected = stored.astype(np.float32)
        elif master == "kahan":  # The compensation is subtracted.
            lost = state[f"state/compensation/{tensor.name}"].astype(np.float32)
            expected = stored.astype(np.float32) - lost
        else:
            kept = {"p": stored, "b": state[f"state/{companion}/{tensor.name}"]}
            expected = join(master, kept)
        value = onnx.numpy_helper.to_array(tensor)
        np.testing.assert_array_equal(bits(value), bits(expected))
        loaded = trained.load_state(model.run)[tensor.name].astype(np.float32)
        np.testing.assert_array_equal(bits(value), bits(loaded))
        differs |= not np.array_equal(value, stored.astype(np.float32))
    assert differs == (master != "none")


def test_checkpoints(tmp_path):
    model = Trained("mlp", tmp_path)
    folder = model.run / "checkpoints" / f"step-{SAVE_EVERY:06}"
    state = trained.load_state(folder / "state.safetensors")
    ways = [[model.run, "--checkpoint", SAVE_EVERY], [model.run, "--checkpoint", folder],
            [folder], [f"{folder}/"], [folder / "state.safetensors"]]  # fmt: skip
    files = set()
    for source, *options in ways:
        out = model.export(
            tmp_path / "t.onnx", "--weights", "inside", *options, source=source
        )
        files.add(out.read_bytes())
    assert len(files) == 1
    for tensor in onnx.load(out).graph.initializer:
        if tensor.name in state:
            value = onnx.numpy_helper.to_array(tensor)
            np.testing.assert_array_equal(value, state[tensor.name])
    error = model.export(out, "--checkpoint", 4, status=3)
    assert "has no checkpoint of step 4" in error and "steps 3, 6" in error
    with open(folder / "state.safetensors", "r+b") as file:
        file.seek(-1, 2)
        file.write(b"?")
    assert "hash" in model.export(out, "--checkpoint", SAVE_EVERY, status=3)
    (model.run / "final.safetensors").unlink()
    assert f"--checkpoint {STEPS} reads" in model.export(out, status=3)
    assert out.read_bytes() in files


def test_load_names_tensors_that_do_not_fit(tmp_path):
    model = Trained("mlp", tmp_path)
    with pytest.raises(
        RejectedError, match=r"the module has no .*'fc1.weight'.*lacks 'fc"
    ):
        trained.load(models.Dropping(), model.run)


def test_load_keeps_what_the_state_lacks_if_asked(tmp_path):
    model = Trained("mlp", tmp_path)
    module = copy.deepcopy(model.module)
    module.unused = torch.nn.Linear(3, 2)
    expected = copy.deepcopy(module.unused.state_dict(prefix="unused."))
    expected |= model.trained_module().state_dict()
    with pytest.raises(
        RejectedError, match=r"lacks 'unused.weight', 'unused.bias' \(strict"
    ):
        trained.load(module, model.run)
    trained.load(module, model.run, strict=False)
    for name, value in module.state_dict().items():
        torch.testing.assert_close(value, expected[name])
