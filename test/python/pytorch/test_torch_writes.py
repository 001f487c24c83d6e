"""Parameters of 16 bits that the user writes to between steps of ``binade.torch``: what
preserves lost updates follows."""

import binade.torch
import pytest
import torch

KINDS = {
    "kahan": "compensation", "split_round": "remainder", "split_trunc": "remainder",
    "split_8bit": "remainder", "residual": "residual",
}  # fmt: skip


def make(master, dtype, count=2):
    parameters = [
        torch.nn.Parameter(torch.ones(300, dtype=dtype)) for _ in range(count)
    ]
    optimizer = binade.torch.SGD(parameters, lr=1.0, master=master)
    return parameters, optimizer


def step(parameters, optimizer, size=2.0**-13):
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, size)
    optimizer.step()


@pytest.mark.parametrize("master, dtype", [
    ("kahan", torch.bfloat16), ("kahan", torch.float16), ("split_round", torch.bfloat16),
    ("split_trunc", torch.bfloat16), ("split_8bit", torch.bfloat16),
    ("residual", torch.bfloat16), ("residual", torch.float16),
])  # fmt: skip
def test_a_written_value_counts(master, dtype):
    written = torch.linspace(0.5, 3.0, 300).to(dtype)
    (a, b), optimizer = make(master, dtype)
    for _ in range(3):
        step((a, b), optimizer)
    kept = optimizer.state[b][KINDS[master]].clone()
    assert kept.count_nonzero()
    with torch.no_grad():
        a.copy_(written)
    (fresh,), other = make(master, dtype, count=1)
    with torch.no_grad():
        fresh.copy_(written)
    a.grad, b.grad = torch.zeros_like(a), None
    optimizer.step()  # Of gradients that are 0.
    step((fresh,), other, 0.0)
    assert torch.equal(a, written)
    found, expected = (
        one.state[p][KINDS[master]] for one, p in ((optimizer, a), (other, fresh))
    )
    assert torch.equal(found, expected)
    assert not found.count_nonzero()
    assert torch.equal(optimizer.state[b][KINDS[master]], kept)
    for _ in range(40):
        step((a, b), optimizer)
        step((fresh,), other)
    assert torch.equal(a, fresh)
    assert not torch.equal(a, written)


@pytest.mark.parametrize("master", ["kahan", "residual", "split_round", "split_8bit"])
def test_states_that_are_loaded_with_a_parameter_are_kept(master, tmp_path):
    parameters, optimizer = make(master, torch.bfloat16)
    module, others = (
        torch.nn.ParameterList(p) for p in (parameters, make(master, torch.bfloat16)[0])
    )
    other = binade.torch.SGD(others, lr=1.0, master=master)
    for _ in range(3):
        step(parameters, optimizer)
        step(others, other, 0.25)
    binade.torch.save_state(tmp_path / "state", module, optimizer)

    def load_file():
        binade.torch.load_state(tmp_path / "state", others, other)

    def load_dictionaries():
        others.load_state_dict(module.state_dict())
        other.load_state_dict(optimizer.state_dict())

    for load in (load_file, load_dictionaries):
        load()
        step(parameters, optimizer)
        step(others, other)
        for a, b in zip(parameters, others, strict=True):
            assert torch.equal(a, b)
            found, expected = other.state[b], optimizer.state[a]
            assert expected[KINDS[master]].count_nonzero()
            assert torch.equal(found[KINDS[master]], expected[KINDS[master]])


def test_a_compiled_step_keeps_compensations():
    pytest.importorskip("torch._inductor")
    parameters, optimizer = make("kahan", torch.bfloat16)
    others, other = make("kahan", torch.bfloat16)
    compiled = torch.compile(optimizer.step, backend="aot_eager")
    for _ in range(40):
        for parameter in (*parameters, *others):
            parameter.grad = torch.full_like(parameter, 2.0**-13)
        compiled()
        other.step()
    for a, b in zip(parameters, others, strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, torch.ones_like(a))
