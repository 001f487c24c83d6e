"""``binade.torch``'s optimizers in the trainers of Lightning and transformers, and in a loop like
torchtitan's. The same trainer with PyTorch's AdamW gives the expected values.
"""

import pytest
import torch
from support.torch_loops import (
    OURS,
    RATE,
    THEIRS,
    make_batch,
    make_module,
    train,
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
@pytest.mark.parametrize("way", ["optimizers", "optimizer_cls_and_kwargs"])
def test_the_trainer_of_transformers(precision, way, monkeypatch, tmp_path):
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
        optimizer = {
            "optimizers": (make(model.parameters(), lr=RATE), None),
            # The trainer makes the groups.
            "optimizer_cls_and_kwargs": (make, {"lr": RATE}),
        }[way]
        trainer = transformers.Trainer(
            model, arguments, train_dataset=data, **{way: optimizer}
        )
        trainer.train()
        losses[make] = [
            row["loss"] for row in trainer.state.log_history if "loss" in row
        ]
    assert len(losses[OURS]) == 6
    # In bf16, a difference in the last place of a parameter may change a rounding.
    bound = 1e-4 if precision else 1e-5
    assert losses[OURS] == pytest.approx(losses[THEIRS], rel=bound)


class Optimizers:
    """An optimizer for each part of a model, as torchtitan has them: one flat state for
    all, by the names of parameters."""

    def __init__(self, parts, make):
        self.parts = parts
        self.optimizers = [make(part) for part in parts]

    def step(self):
        for optimizer in self.optimizers:
            optimizer.step()

    def zero_grad(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def state_dict(self):
        from torch.distributed.checkpoint import state_dict as states

        flat = states.StateDictOptions(flatten_optimizer_state_dict=True)
        found = {}
        for part, optimizer in zip(self.parts, self.optimizers):
            found |= states.get_optimizer_state_dict(part, optimizer, options=flat)
        return found

    def load_state_dict(self, state):
        from torch.distributed.checkpoint import state_dict as states

        flat = states.StateDictOptions(flatten_optimizer_state_dict=True)
        for part, optimizer in zip(self.parts, self.optimizers):
            states.set_optimizer_state_dict(part, optimizer, state, options=flat)


@pytest.mark.parametrize("states", [(), "dyn8:stochastic"])
def test_the_loop_of_torchtitan(states, tmp_path):
    import torch.distributed.checkpoint as dcp

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = make_module(width=1024), torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.second(self.first(x))

    def make(rate):
        torch.manual_seed(1)
        model = Model()
        # As of a pipeline stage: a module with some of the parameters, by their names.
        parts = [
            torch.nn.ModuleDict({name: part}) for name, part in model.named_children()
        ]

        def make_one(part):
            bare, others = [], []
            for parameter in part.parameters():
                (bare if parameter.dim() == 1 else others).append(parameter)
            groups = [{"params": bare, "weight_decay": 0.0}, {"params": others}]
            return OURS(groups, lr=rate, states=states)

        return model, Optimizers(parts, make_one)

    model, optimizers = make(RATE)
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(one, lambda step: 1 / (1 + step))
        for one in optimizers.optimizers
    ]
    train(model, optimizers, 2)
    for schedule in schedules:
        schedule.step()
    saved = {"model": model.state_dict(), "optimizers": optimizers.state_dict()}
    dcp.save(saved, checkpoint_id=tmp_path, no_dist=True)
    again, others = make(1.0)
    state = {"model": again.state_dict(), "optimizers": others.state_dict()}
    dcp.load(state, checkpoint_id=tmp_path, no_dist=True)
    again.load_state_dict(state["model"])
    others.load_state_dict(state["optimizers"])
    rates = [[g["lr"] for g in one.param_groups] for one in others.optimizers]
    assert rates == [[RATE / 2] * 2] * 2
    assert train(again, others) == train(model, optimizers)
