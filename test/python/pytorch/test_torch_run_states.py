"""A PyTorch loop becomes a run of ``binade train``, and a run becomes a PyTorch loop, with all
states."""

import subprocess

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="the exporter of PyTorch needs onnxscript")

from support import reference  # noqa: E402

if not (reference.BUILD / "python" / "binade").exists():
    pytest.skip("the extension is not built", allow_module_level=True)

import binade.torch  # noqa: E402
from binade import safetensors  # noqa: E402
from binade.errors import RejectedError  # noqa: E402

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
