"""Steps of a group: ranks are threads, and end each step with the same bits."""

import json

import numpy as np
import onnx
import pytest
from support.exchanged_steps import (
    BATCHES,
    STEPS,
    compile_bundle,
    draw_batches,
    hash_state,
    load,
    make_model,
    read_state,
    run_step,
    train,
)
from support.rank_threads import Group, divide, run_ranks
from support.reference import binade as run_binade

import binade
from binade.batches import fill
from binade.errors import RejectedError, UsageError


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Returns the bundle of a step with the given options, compiled once."""
    folder, made = tmp_path_factory.mktemp("exchange"), {}

    def make(exchange=None, **options):
        key = repr((exchange, sorted(options.items())))
        if key not in made:
            made[key] = folder / f"{len(made)}.bnd"
            compile_bundle(made[key], exchange, **options)
        return made[key]

    return make


FORMATS = {
    "f32": {},
    "dyn8, stochastic": {"states": ["dyn8:stochastic"]},
    "e4m3": {"policy": "bf16-amp", "states": ["e4m3"]},
    "fp16-amp": {"policy": "fp16-amp", "clip": 0.5},
}


@pytest.mark.parametrize("name", FORMATS)
def test_exact_sums_give_one_result_for_any_number_of_ranks(name, bundles):
    bundle = bundles("exact", **FORMATS[name])
    found = [set(train(bundle, size)[0]) for size in (1, 2, 3, 4, 5, 12)]
    assert len(set.union(*found)) == 1


def test_a_group_of_one_computes_the_bits_of_a_step_without_exchange(bundles):
    hashes = {
        train(bundles(), transport="none")[0][0],
        train(bundles("f32"), transport="none")[0][0],
        train(bundles("f32"), transport=lambda *given: None)[0][0],
        train(bundles("f32"))[0][0],
    }
    assert len(hashes) == 1


@pytest.mark.parametrize("ranks", [1, 3, BATCHES])
@pytest.mark.parametrize(
    ("exchange", "least", "most"),
    [("f32", 0, 2e-6), ("exact", 0, 2e-6), ("bf16", 5e-4, 2e-3), ("e4m3", 5e-3, 3e-2)],
)
def test_ranks_agree_and_their_sums_have_the_error_of_the_format(
    exchange, least, most, ranks, bundles
):
    """The states of SGD with momentum after one step are the mean gradients."""
    options = {"optimizer": "sgd", "settings": {"momentum": 0.9}}
    _, (alone,), _ = train(bundles(**options), steps=1, transport="none")
    hashes, steps, _ = train(bundles(exchange, **options), ranks, steps=1)
    assert len(set(hashes)) == 1
    difference = total = 0.0
    for name, value in alone.states.items():
        found = np.asarray(steps[0].states[name], np.float64)
        difference += np.sum((found - np.asarray(value)) ** 2)
        total += np.sum(np.asarray(value, np.float64) ** 2)
    assert 0 < total
    assert least <= (difference / total) ** 0.5 <= most


def test_buckets_start_in_order_before_the_join(bundles):
    _, (step, _), group = train(bundles("exact"), 2, steps=1)
    plan = step._program.exchange()
    count = len(plan["buckets"])
    assert count >= 4
    assert (plan["format"], plan["batches"]) == ("exact", BATCHES)
    expected = [("start", index) for index in range(count)] + [("join", count)]
    assert group.events == [expected, expected]
    ready = [bucket["ready"] for bucket in plan["buckets"]]
    assert ready == sorted(ready)
    assert ready[0] < 0.75
    assert 0 < ready[-1] <= 1


@pytest.mark.parametrize("bad", [0, 1])
@pytest.mark.parametrize("exchange", ["f32", "exact", "e4m3"])
def test_all_ranks_skip_if_gradients_of_one_are_not_finite(exchange, bad, bundles):
    bundle, group = bundles(exchange, policy="fp16-amp"), Group(2)

    def work(rank):
        step = load(bundle)
        step._program.set_exchange(rank, 2, group.transport(rank))
        before = read_state(step)
        batches = divide(draw_batches(step), rank, 2)
        for batch in batches[:-1]:
            fill(step.batch, batch)
            step._program.accumulate()
        weight = np.asarray(next(iter(step.parameters.values())))
        kept = weight.copy()
        if rank == bad:
            weight[...] = np.nan  # So the last batch of this rank has no gradients.
        fill(step.batch, batches[-1])
        step._program.run()
        assert step._program.scalar("metric", "found_inf") == 1
        weight[...] = kept
        after = read_state(step)
        return after, {key for key in after if after[key] != before[key]}

    (first, changed), (second, _) = run_ranks(2, work)
    assert first == second
    assert ("scaler", "scale") in changed
    assert {role for role, _ in changed} <= {"scaler", "rng"}


class Broken(Exception):
    pass


@pytest.mark.parametrize("event", ["start", "join"])
@pytest.mark.parametrize("exchange", ["f32", "exact"])
def test_a_failed_exchange_changes_nothing_and_the_step_can_be_repeated(
    exchange, event, bundles
):
    bundle = bundles(exchange, states=["dyn8:stochastic"])
    expected = train(bundle)[0]
    step = load(bundle)
    events, fails = [], True

    def transport(given, what, bucket, stream):
        events.append(what)
        if fails and what == event:
            raise Broken("the network is down")

    step._program.set_exchange(0, 1, transport)
    batches = draw_batches(step)
    before = read_state(step)
    with pytest.raises(Broken, match="network is down"):
        run_step(step, batches)
    assert events.count("join") == 1
    assert read_state(step) == before
    fails = False
    for _ in range(STEPS):
        run_step(step, batches)
    assert [hash_state(step)] == expected


def test_a_bucket_that_is_not_exchanged_is_an_error(bundles):
    step = load(bundles("f32"))
    step._program.set_exchange(0, 2, lambda *given: None)
    batches = divide(draw_batches(step), 0, 2)
    with pytest.raises(UsageError, match="bucket 0 of [0-9]+ was not exchanged"):
        run_step(step, batches)


def test_transfers_out_of_order_are_errors(bundles):
    step = load(bundles("exact"))
    found = []

    def transport(exchange, event, bucket, stream):
        if event == "join":
            return
        for call in (
            lambda: exchange.transfer(bucket, 1),
            lambda: exchange.finish(bucket),
            lambda: exchange.transfer(bucket + 1, 0),
        ):
            with pytest.raises(UsageError) as caught:
                call()
            found.append(str(caught.value))

    step._program.set_exchange(0, 1, transport)
    run_step(step, draw_batches(step))
    assert "not the next of its 2" in found[0]
    assert "before its transfers" in found[1]
    assert "has not been started" in found[2]


def test_groups_that_a_program_cannot_join(bundles):
    program = load(bundles("f32"))._program
    for rank, size, text in (
        (2, 2, "rank 2 of a group of 2"),
        (0, BATCHES + 1, "a larger --accumulate"),
    ):
        with pytest.raises(UsageError, match=text):
            program.set_exchange(rank, size, print)
    plain = load(bundles())._program
    assert plain.exchange() is None
    with pytest.raises(UsageError, match="compile it with --exchange"):
        plain.set_exchange(0, 1, print)


def test_a_rank_executes_its_share_of_the_batches(bundles):
    step = load(bundles("f32"))
    step._program.set_exchange(0, 4, print)
    batches = draw_batches(step)
    fill(step.batch, batches[0])
    with pytest.raises(
        UsageError, match="executes 3 of the 12 batches.*run was called after 0"
    ):
        step._program.run()
    for _ in range(2):
        step._program.accumulate()
    with pytest.raises(UsageError, match="accumulate was called after 2"):
        step._program.accumulate()


def compile_plan(**options):
    step = binade.compile(
        make_model(), loss="mse(y, t)", train=["w*", "b*"], accumulate=2, **options
    )
    return json.loads(step._program.plan())


def test_a_policy_without_a_group_changes_nothing(tmp_path):
    """Records, buffers and everything else but the text of the policy are the same."""
    policy = tmp_path / "p.yaml"
    policy.write_text("name: bf16-amp\nextends: bf16-amp\nexchange: exact\n")
    plain, asked = compile_plan(policy="bf16-amp"), compile_plan(policy=str(policy))
    kinds = {record["kind"] for record in plain["records"] + plain["accumulation"]}
    assert "exchange" not in kinds
    for plan in (plain, asked):
        for key in ("policy", "policy_hash", "policies"):
            plan.pop(key, None)
    assert asked == plain


def test_the_policy_chooses_the_format(tmp_path):
    policy = tmp_path / "p.yaml"
    policy.write_text("name: p\nextends: bf16-amp\nexchange: e4m3\n")
    plans = {
        "e4m3": compile_plan(policy=str(policy), exchange="policy"),
        "exact": compile_plan(policy=str(policy), exchange="exact"),
        "f32": compile_plan(policy="bf16-amp", exchange="policy"),
    }
    for format, plan in plans.items():
        exchanges = [r for r in plan["records"] if r["kind"] == "exchange"]
        assert {r["format"] for r in exchanges if r["action"] == "start"} == {format}
        assert exchanges[-1]["action"] == "join"


@pytest.mark.parametrize("options", [
    {"exchange": "f16"}, {"exchange": "f32", "accumulate_in_momentum": True, "optimizer": "sgd"},
])  # fmt: skip
def test_options_that_exchanges_do_not_support(options):
    with pytest.raises(RejectedError):
        compile_plan(**options)


def test_scales_that_one_rank_would_choose_are_rejected(tmp_path):
    policy = tmp_path / "p.yaml"
    policy.write_text("name: p\nextends: fp16-amp\nloss_scale: {underflow: 0.01}\n")
    with pytest.raises(RejectedError, match="would differ between the ranks"):
        compile_plan(policy=str(policy), exchange="f32")


@pytest.mark.parametrize("exchange", ["f32", "exact", "bf16", "e4m3"])
def test_verify_accepts_a_step_that_exchanges(exchange, bundles):
    done = run_binade("verify", bundles(exchange))
    assert done.returncode == 0, done.stderr
    assert "records have equal bits" in done.stdout


def test_inspect_and_explain_show_the_buckets(tmp_path):
    onnx.save(make_model(), tmp_path / "net.onnx")
    for command, *more in (("inspect",), ("explain", "--summary")):
        done = run_binade(
            command, tmp_path / "net.onnx", *more, "--loss", "mse(y, t)", "--train", "w*",
            "--accumulate", 4, "--exchange", "exact",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert (
            "exchange exact, 4 batches of all ranks; rounding error 6e-8" in done.stdout
        )
        table = done.stdout.split("bucket  operation")[1].splitlines()
        assert [line.split()[:2] for line in table[1:4]] == [
            ["0", "sum"], ["1", "sum"], ["2", "sum"],
        ]  # fmt: skip
