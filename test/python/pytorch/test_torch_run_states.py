"""A PyTorch loop becomes a run of ``binade train``, and a run becomes a PyTorch loop, with all
states."""

import subprocess

import numpy as np
import pytest
import torch

pytest.importorskip("onnxscript", reason="the exporter of PyTorch needs onnxscript")

import binade.torch  # noqa: E402
from binade import safetensors  # noqa: E402
from binade.errors import RejectedError, UsageError  # noqa: E402
from support import reference  # noqa: E402

RATE, BATCH, STEPS = 1e-3, 16, 3
WIDTH = 256  # A multiple of the elements that share a scale.
FORMATS = {
    "f32": {},
    "dyn8": {"states": "dyn8"},
    "e4m3": {"states": "e4m3"},
    "stochastic": {"states": "dyn8:stochastic"},
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("states")
    draw = np.random.default_rng(0)
    x = draw.standard_normal((BATCH * 2 * STEPS, WIDTH)).astype(np.float32)
    safetensors.save(
        folder / "data.safetensors", {"x": x, "labels": np.argmax(x[:, :4], 1)}
    )
    torch.onnx.export(
        make_module(), (torch.zeros(BATCH, WIDTH),), folder / "model.onnx", dynamo=True,
        input_names=["x"], output_names=["prediction"], verbose=False,
    )  # fmt: skip
    return folder


def make_module():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(WIDTH, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4)
    )


def loop(folder, module, optimizer, begin):
    data = safetensors.load(folder / "data.safetensors")
    for step in range(begin, begin + STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        logits = module(torch.from_numpy(data["x"][rows]))
        labels = torch.from_numpy(data["labels"][rows])
        torch.nn.functional.cross_entropy(logits, labels).backward()
        optimizer.step()


def train(folder, out, states, *, init=None, begin=0):
    data = safetensors.load(folder / "data.safetensors")
    part = folder / f"part{begin}.safetensors"
    rows = slice(begin * BATCH, (begin + STEPS) * BATCH)
    safetensors.save(part, {name: value[rows] for name, value in data.items()})
    done = subprocess.run(
        [reference.BUILD / "bin/binade", "train", folder / "model.onnx",
         "--train", "*", "--loss", "cross_entropy(prediction, labels)", "--data", part,
         "--order", "sequential", "--lr", str(RATE), "--optimizer", "adamw",
         "--steps", str(STEPS), "--out", out, "--seed", "0",
         *(["--states", states] if states else []), *(["--init", init] if init else [])],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return safetensors.load(out / "final.safetensors")


def assert_close(module, optimizer, final):
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(
            parameter.detach().numpy(), final[name], rtol=1e-3, atol=1e-4
        )
        assert int(optimizer.state[parameter]["step"]) == int(final["step"])


@pytest.mark.parametrize("formats", FORMATS)
def test_a_loop_becomes_a_run(formats, files, tmp_path):
    settings = FORMATS[formats]
    module = make_module()
    optimizer = binade.torch.AdamW(module.parameters(), lr=RATE, **settings)
    loop(files, module, optimizer, 0)
    saved = tmp_path / "state.safetensors"
    binade.torch.save_state(saved, module, optimizer)
    stored = safetensors.load(saved)
    weight = module[0].weight
    assert np.array_equal(stored["0.weight"], weight.detach().numpy())
    codes = optimizer.state[weight]["exp_avg"]
    assert stored["state/exp_avg/0.weight"].tobytes() == codes.view(torch.uint8).numpy().tobytes()  # fmt: skip
    final = train(
        files, tmp_path / "run", settings.get("states"), init=saved, begin=STEPS
    )
    assert int(final["step"]) == 2 * STEPS
    loop(files, module, optimizer, STEPS)
    assert_close(module, optimizer, final)


@pytest.mark.parametrize("formats", FORMATS)
def test_a_run_becomes_a_loop(formats, files, tmp_path):
    settings = FORMATS[formats]
    before = train(files, tmp_path / "run", settings.get("states"))
    module = make_module()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    optimizer = binade.torch.AdamW(module.parameters(), lr=RATE, **settings)
    binade.torch.load_state(tmp_path / "run", module, optimizer)
    for name, parameter in module.named_parameters():
        assert np.array_equal(parameter.detach().numpy(), before[name])
        for key, value in optimizer.state[parameter].items():
            if key.startswith("exp_avg"):
                state, _, part = key.partition(".")
                stored = before[f"state/{state}/{name}{'.' if part else ''}{part}"]
                assert value.contiguous().view(torch.uint8).numpy().tobytes() == stored.tobytes()  # fmt: skip
    loop(files, module, optimizer, STEPS)
    final = train(
        files, tmp_path / "more", settings.get("states"),
        init=tmp_path / "run/final.safetensors", begin=STEPS,
    )  # fmt: skip
    assert_close(module, optimizer, final)


def test_states_that_do_not_fit(files, tmp_path):
    train(files, tmp_path / "run", "dyn8")
    module = make_module()
    with pytest.raises(RejectedError, match="state/exp_avg/0.weight is .*dynamic-signed.*, and the optimizer has f32; choose"):  # fmt: skip
        binade.torch.load_state(
            tmp_path / "run", module, binade.torch.AdamW(module.parameters())
        )
    lion = binade.torch.Lion(module.parameters(), states="dyn8")
    with pytest.raises(RejectedError, match="exp_avg_sq/0.weight is"):
        binade.torch.load_state(tmp_path / "run", module, lion)
    narrow = torch.nn.Sequential(torch.nn.Linear(96, 64))
    optimizer = binade.torch.AdamW(narrow.parameters(), states="dyn8")
    with pytest.raises(RejectedError, match="per_group<256>.*has .*per_group<32>"):
        binade.torch.load_state(tmp_path / "run", narrow, optimizer)
    other = torch.nn.Sequential(torch.nn.Linear(WIDTH, 64), torch.nn.Linear(64, 4))
    with pytest.raises(RejectedError, match="1.weight"):
        binade.torch.load_state(
            tmp_path / "run",
            other,
            binade.torch.AdamW(other.parameters(), states="dyn8"),
        )


class Model(torch.nn.Module):
    """A norm with buffers, and a parameter that two layers share."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm = torch.nn.BatchNorm1d(WIDTH)
        self.head = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x):
        return self.head(self.norm(self.table(x)))


def make_trained(**settings):
    torch.manual_seed(0)
    module = Model()
    optimizer = binade.torch.AdamW(module.parameters(), lr=RATE, **settings)
    module(torch.randn(8, WIDTH)).square().mean().backward()
    optimizer.step()
    return module, optimizer


@pytest.mark.parametrize("settings", [
    {}, {"states": "dyn8"}, {"percentile_clipping": 5},
    {"master": "f32"}, {"master": "kahan"}, {"master": "split_round"},
    {"master": "split_8bit", "states": "softsign8"},
])  # fmt: skip
@pytest.mark.parametrize("wraps", [False, True])
def test_buffers_shared_parameters_and_wrapped_modules(settings, wraps, tmp_path):
    module, optimizer = make_trained(**settings)
    if "master" in settings:
        module = module.bfloat16()
        optimizer.step()
    path = tmp_path / "state.safetensors"
    binade.torch.save_state(path, torch.compile(module) if wraps else module, optimizer)
    names = set(safetensors.load(path))
    assert {"table.weight", "norm.running_mean", "state/exp_avg/table.weight"} <= names
    assert not [name for name in names if "_orig_mod" in name or "gnorm" in name]
    other = Model().to(module.table.weight.dtype)
    theirs = binade.torch.AdamW(other.parameters(), lr=RATE, **settings)
    binade.torch.load_state(path, torch.compile(other) if wraps else other, theirs)
    for key, value in module.state_dict().items():
        assert torch.equal(other.state_dict()[key], value), key
    for a, b in zip(module.parameters(), other.parameters()):
        for key, value in optimizer.state[a].items():
            if key != "gnorm_vec":
                assert torch.equal(theirs.state[b][key], value), key


def test_an_error_leaves_all_unchanged(tmp_path):
    module, optimizer = make_trained()
    path = tmp_path / "state.safetensors"
    binade.torch.save_state(path, module, optimizer)
    stored = safetensors.load(path)
    del stored["norm.running_var"]
    stored["norm.running_mean"] = stored["norm.running_mean"].reshape(2, -1)
    safetensors.save(path, stored)
    other = Model()
    before = {key: value.clone() for key, value in other.state_dict().items()}
    theirs = binade.torch.AdamW(other.parameters(), lr=RATE)
    with pytest.raises(RejectedError, match=r"lacks 'norm.running_var'; 'norm.running_mean' is \[2, 128\], in the module \[256\]"):  # fmt: skip
        binade.torch.load_state(path, other, theirs)
    for key, value in other.state_dict().items():
        assert torch.equal(before[key], value)
    assert int(theirs.state[other.table.weight]["step"]) == 0
    with pytest.raises(UsageError, match="a parameter that the module lacks"):
        binade.torch.save_state(path, module.norm, optimizer)
