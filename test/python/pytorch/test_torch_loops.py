"""``binade.torch``'s optimizers replace PyTorch's in the loops that people use:
``torch.amp.GradScaler``, distributed checkpoints, compiled models, Lightning's and Hugging
Face's trainers.

The same loop with PyTorch's AdamW gives the expected values.
"""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from support import reference  # noqa: E402

if not (reference.BUILD / "python" / "binade").exists():
    pytest.skip("the extension is not built", allow_module_level=True)

import binade.torch  # noqa: E402

RATE = 1e-2
OURS, THEIRS = binade.torch.AdamW, torch.optim.AdamW


def make_module(dtype=torch.float32, width=16):
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, width), torch.nn.GELU(), torch.nn.Linear(width, 3)
    ).to(dtype)


def make_batch(step, dtype=torch.float32):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(32, 8, generator=generator).to(dtype)
    return x, torch.randint(0, 3, (32,), generator=generator)


def train(module, optimizer, steps=4, compute=None):
    """The plain loop."""
    losses = []
    for step in range(steps):
        x, y = make_batch(step, next(module.parameters()).dtype)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy((compute or module)(x).float(), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_scaled(module, optimizer, *, clips=False, overflows=()):
    """The loop with a gradient scaler. Returns losses and scales."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
    seen = []
    for step in range(6):
        x, y = make_batch(step)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x), y)
        scaler.scale(loss).backward()
        if step in overflows:
            module[0].weight.grad[0, 0] = float("inf")
        if clips:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(module.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        seen.append((loss.item(), scaler.get_scale()))
    return seen


@pytest.mark.parametrize("overflows", [(), (2,), (0, 1, 4)])
@pytest.mark.parametrize("clips", [False, True])
def test_gradient_scalers(clips, overflows):
    ours, theirs = make_module(), make_module()
    mine = OURS(ours.parameters(), lr=RATE)
    other = THEIRS(theirs.parameters(), lr=RATE, fused=True)
    found = train_scaled(ours, mine, clips=clips, overflows=overflows)
    expected = train_scaled(theirs, other, clips=clips, overflows=overflows)
    assert [scale for _, scale in found] == [scale for _, scale in expected]
    assert [loss for loss, _ in found] == pytest.approx(
        [loss for loss, _ in expected], rel=1e-5
    )
    assert int(mine.state[ours[0].weight]["step"]) == 6 - len(overflows)
    for a, b in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_states_are_kept_when_a_scaler_begins(dtype):
    """The update is compiled again then."""
    plain, scaled = make_module(dtype, width=1024), make_module(dtype, width=1024)
    given = {"lr": RATE, "states": "dyn8:stochastic", "master": "none"}
    one, other = (OURS(module.parameters(), **given) for module in (plain, scaled))
    for step in range(4):
        for module, optimizer in ((plain, one), (scaled, other)):
            generator = torch.Generator().manual_seed(step)
            for p in module.parameters():
                p.grad = torch.randn(p.shape, generator=generator).to(dtype)
        if step >= 2:
            other.grad_scale, other.found_inf = torch.tensor(4.0), torch.tensor(0.0)
            for p in scaled.parameters():
                p.grad *= 4
        one.step()
        other.step()
    for a, b in zip(plain.parameters(), scaled.parameters()):
        assert torch.equal(a, b)
        for name, state in one.state[a].items():
            assert torch.equal(state, other.state[b][name]), name


@pytest.mark.parametrize("on_nonfinite", ["skip", "continue"])
def test_the_scaler_decides_about_steps(on_nonfinite):
    """It may have found an overflow that the gradients do not show, on another rank."""
    module = make_module()
    options = {"on_nonfinite": on_nonfinite}
    optimizer = OURS(module.parameters(), lr=RATE, options=options)
    for parameter in module.parameters():
        parameter.grad = torch.ones_like(parameter)

    def list_tensors():
        return [*module.parameters(), *optimizer.state[module[0].weight].values()]

    before = [tensor.clone() for tensor in list_tensors()]
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(2.0), torch.tensor(1.0)
    optimizer.step()
    assert optimizer.skipped
    for tensor, value in zip(list_tensors(), before, strict=True):
        assert torch.equal(tensor, value)
    optimizer.found_inf = torch.tensor([0.0])
    optimizer.step()
    assert not optimizer.skipped
    assert optimizer.state[module[0].weight]["exp_avg"].unique().item() == (
        pytest.approx(0.05)
    )


@pytest.mark.parametrize("states", [(), "dyn8:stochastic", "e4m3"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_distributed_checkpoints(states, dtype, tmp_path):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    def make(rate):
        module = make_module(dtype, width=1024)
        given = {"states": states, "master": "f32"}
        optimizer = OURS(module.parameters(), lr=rate, **given)
        isWide = optimizer.state[module[0].weight]["exp_avg"].dtype == torch.float32
        assert isWide == (not states)
        return module, optimizer

    module, optimizer = make(RATE)
    train(module, optimizer)
    model, optim = get_state_dict(module, optimizer)
    assert set(optim["state"]) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    dcp.save({"model": model, "optim": optim}, checkpoint_id=tmp_path, no_dist=True)
    again, other = make(1.0)
    model, optim = get_state_dict(again, other)
    dcp.load({"model": model, "optim": optim}, checkpoint_id=tmp_path, no_dist=True)
    set_state_dict(again, other, model_state_dict=model, optim_state_dict=optim)
    assert other.param_groups[0]["lr"] == RATE
    assert train(again, other) == train(module, optimizer)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compiled_models(dtype):
    pytest.importorskip("torch._inductor")
    plain, compiled = make_module(dtype), make_module(dtype)
    expected = train(plain, OURS(plain.parameters(), lr=RATE, master="kahan"))
    optimizer = OURS(compiled.parameters(), lr=RATE, master="kahan")
    found = train(compiled, optimizer, compute=torch.compile(compiled))
    assert found == pytest.approx(
        expected, rel=1e-2 if dtype != torch.float32 else 1e-5
    )


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "bf16-true"])
def test_lightning(precision):
    lightning = pytest.importorskip("lightning", reason="Lightning is not installed")
    losses = {}

    class Module(lightning.LightningModule):
        def __init__(self, make):
            super().__init__()
            self.make, self.module, self.losses = make, make_module(), []

        def training_step(self, batch, _):
            loss = torch.nn.functional.cross_entropy(self.module(batch[0]), batch[1])
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self):
            return self.make(self.parameters(), lr=RATE)

    x, y = zip(*(make_batch(step) for step in range(4)))
    data = torch.utils.data.TensorDataset(torch.cat(x), torch.cat(y))
    for make in (OURS, THEIRS):
        module = Module(make)
        trainer = lightning.Trainer(
            max_epochs=2, accelerator="cpu", precision=precision, logger=False,
            enable_progress_bar=False, enable_checkpointing=False,
            enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(module, torch.utils.data.DataLoader(data, 32))
        losses[make] = module.losses
    assert len(losses[OURS]) == 8
    assert losses[OURS] == pytest.approx(
        losses[THEIRS], rel=1e-2 if precision == "bf16-true" else 1e-5
    )


@pytest.mark.parametrize("precision", [{}, {"bf16": True}])
def test_the_trainer_of_transformers(precision, monkeypatch, tmp_path):
    transformers = pytest.importorskip(
        "transformers", reason="transformers is not installed"
    )
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    samples = torch.randint(0, 50, (64, 16), generator=torch.Generator().manual_seed(0))
    data = [{"input_ids": sample, "labels": sample} for sample in samples]
    losses = {}
    for make in (OURS, THEIRS):
        torch.manual_seed(0)
        model = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=50,
                n_positions=16,
                n_embd=32,
                n_layer=2,
                n_head=2,
                resid_pdrop=0,
                embd_pdrop=0,
                attn_pdrop=0,
                bos_token_id=0,
                eos_token_id=0,
            )  # fmt: skip
        )
        arguments = transformers.TrainingArguments(
            tmp_path, max_steps=6, per_device_train_batch_size=8, use_cpu=True,
            report_to=[], logging_steps=1, disable_tqdm=True, save_strategy="no", **precision,
        )  # fmt: skip
        trainer = transformers.Trainer(
            model, arguments, train_dataset=data,
            optimizers=(make(model.parameters(), lr=RATE), None),
        )  # fmt: skip
        trainer.train()
        losses[make] = [
            row["loss"] for row in trainer.state.log_history if "loss" in row
        ]
    assert len(losses[OURS]) == 6
    assert losses[OURS] == pytest.approx(losses[THEIRS], rel=1e-5)
