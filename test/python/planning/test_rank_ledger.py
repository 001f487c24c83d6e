"""The memory of a rank (`binade fit --ranks`, `binade inspect --ledger=ranks`), counted by hand."""

import json
import math

import binade as binade_package
import numpy as np
import pytest
from support.paths import ROOT
from support.reference import binade

onnx = pytest.importorskip("onnx")

# 10 x 4 and 3 elements: with AdamW, two states of f32 for each.
GRAPH = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[8, 4] x, int64[8] labels) => (float loss)
  <float[10, 4] weight = {%s}, float[3] bias = {0.5, -1.0, 0.25}, float[10, 3] head = {%s}> {
  inner = Gemm<transB = 1>(x, weight)
  scores = MatMul(inner, head)
  logits = Add(scores, bias)
  loss = SoftmaxCrossEntropyLoss(logits, labels)
}
"""
ELEMENTS = 10 * 4 + 3 + 10 * 3


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("ranks") / "model.onnx"
    values = [", ".join(["0.125"] * count) for count in (40, 30)]
    model = onnx.parser.parse_model(GRAPH % tuple(values))
    names = ["weight", "bias", "head"]
    model.metadata_props.add(key="binade.trainable", value=json.dumps(names))
    onnx.save(model, path)
    return path


def run(*words):
    done = binade(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def list_ledgers(model, ranks, *words):
    report = json.loads(
        run("inspect", model, "--ledger=ranks", "--ranks", ranks, "--json", *words)
    )
    assert report["ranks"] == ranks
    for one in report["ledgers"]:
        assert one["bytes"] == sum(one["ledger"].values())
    return {(one["shard"], one["exchange"]): one["ledger"] for one in report["ledgers"]}


def fit(model, *words):
    words = ["--memory", "1GiB", "--policy", "fp32", "--states", "f32", *words]
    [variant] = json.loads(run("fit", model, "--format", "json", *words))["variants"]
    assert variant["bytes"] == sum(variant["ledger"].values())
    return variant["ledger"]


@pytest.mark.parametrize("ranks", [2, 4, 7, 64])
def test_a_block_of_states_has_one_rank(small, ranks):
    """All parameters are smaller than a block: the fullest rank has the largest of 40."""
    for ledger in (
        list_ledgers(small, ranks)["zero1", "f32"],
        fit(small, "--ranks", ranks, "--shard", "zero1"),
    ):
        assert ledger["state"] == 2 * 4 * 40
        assert ledger["exchange"] == 0  # In place.
        # What all ranks send, in multiples of 64 bytes.
        assert ledger["gather"] == ranks * 192


@pytest.mark.parametrize(
    "exchange, taken",
    [
        ("f32", 0),  # In place.
        # Codes of four parts are sent and received, then the own sums and those of all.
        ("bf16", 2 * 4 * 2 * 128 + 4 * 128 + 4 * 4 * 128),
        # With a scale of four bytes for 128 elements.
        ("e4m3", 2 * 4 * (128 + 4) + 4 * 128 + 4 * 4 * 128),
        # The maximum of a block, and integers of 64 bits.
        ("exact", 4 + 8 * ELEMENTS),
    ],
)
def test_exchanges_take_buffers(small, exchange, taken):
    """73 elements: the part of each of four ranks is a whole block of 128."""
    ledger = list_ledgers(small, 4)["none", exchange]
    assert (ledger["exchange"], ledger["gather"]) == (taken, 0)
    assert list_ledgers(small, 4)["zero1", exchange]["exchange"] == taken
    assert ledger["state"] == 2 * 4 * ELEMENTS
    assert fit(small, "--ranks", 4, "--exchange", exchange)["exchange"] == taken


def test_one_rank_has_the_memory_of_the_plan(small):
    plan = json.loads(run("inspect", small, "--json"))
    for ledger in list_ledgers(small, 1).values():
        assert ledger == plan["ledger"] | {"exchange": 0, "gather": 0}
    assert fit(small) == fit(small, "--ranks", 1, "--shard", "zero1")


def test_micro_batches_of_each_rank_accumulate(small):
    """Several ranks accumulate: a plan with an exchange counts the batches of all."""
    assert fit(small, "--ranks", 4)["gradient"] >= 4 * ELEMENTS
    assert fit(small, "--ranks", 4) == fit(small, "--ranks", 4, "--accumulate", 3)


def cut(sizes, states, ranks, block=16384):
    """Where ranks begin in the elements of all parameters: at the block that is nearest to the
    element with their share of the bytes of states before it."""
    total, blocks, elements = sum(states), [], []
    start = 0
    for size, own in zip(sizes, states):
        blocks += range(start, start + size, block)
        elements += [(start + i, own / size) for i in range(size)]
        start += size
    blocks.append(start)
    before = np.cumsum([0] + [weight for _, weight in elements])
    wanted = [
        np.searchsorted(before, total * r // ranks, "right") - 1 for r in range(ranks)
    ]
    return [min(blocks, key=lambda b: abs(b - w)) for w in wanted] + [start]


def test_quantized_states_are_divided_with_their_scales():
    """Codes and scales of the elements that the fullest rank has, of each state."""
    mini = ROOT / "examples/char-gpt/mini.onnx"
    plan = json.loads(run("inspect", mini, "--states", "dyn8", "--json"))
    sizes, states = {}, {}
    for port in plan["ports"]:
        buffer = plan["buffers"][port["buffer"]]
        if port["role"] == "parameter":
            sizes[port["name"]] = math.prod(buffer["shape"])
        elif port["role"] == "state":
            name = port["name"].partition("/")[2].removesuffix(".scale")
            states[name] = states.get(name, 0) + buffer["bytes"]
    for ranks in (2, 5, 40):
        cuts = cut([*sizes.values()], [states[name] for name in sizes], ranks)
        found = []
        for begin, end in zip(cuts, cuts[1:]):
            own, start = 0, 0
            for name, size in sizes.items():
                part = max(0, min(end, start + size) - max(begin, start))
                own += -(-states.get(name, 0) * part // size)  # Rounded up.
                start += size
            found.append(own)
        ledgers = list_ledgers(mini, ranks, "--states", "dyn8")
        assert ledgers["zero1", "f32"]["state"] == max(found)


@pytest.mark.parametrize("optimizer", ["adamw", "muon", "adafactor", "sgd"])
def test_states_are_those_of_steps_that_shard_them(optimizer):
    """The momentum of Muon and the factors of Adafactor are whole in every rank."""
    mini, ranks = ROOT / "examples/char-gpt/mini.onnx", 3
    step = binade_package.compile(
        mini, optimizer=optimizer, accumulate=ranks, exchange="f32", threads=1
    )
    shards = [step._program.shard_states(rank, ranks) for rank in range(ranks)]
    own = max(shard.state_bytes()[0] for shard in shards)
    assert (
        list_ledgers(mini, ranks, "--optimizer", optimizer)["zero1", "f32"]["state"]
        == own
    )
    words = ["--ranks", ranks, "--shard", "zero1", "--optimizer", optimizer]
    assert fit(mini, *words)["state"] == own


def test_tables_name_the_columns(small):
    text = run("fit", small, "--memory", "1GiB", "--ranks", "64", "--shard", "zero1")
    assert ", in the fullest of 64 ranks\n" in text and " exchange " in text
    text = run("inspect", small, "--ledger=ranks", "--ranks", "64")
    assert text.startswith("memory of the fullest of 64 ranks\n\nshard  exchange ")
    assert len(text.splitlines()) == 2 + 1 + 8


def test_a_bundle_has_the_ledger_of_its_model(small, tmp_path):
    run("compile", small, "-o", tmp_path / "step.bnd")
    assert list_ledgers(tmp_path / "step.bnd", 8) == list_ledgers(small, 8)


@pytest.mark.parametrize(
    "words, text",
    [
        (["--ranks", "0"], "--ranks"),
        (["--ranks", "many"], "--ranks"),
        (["--ranks", "1e9"], "--ranks"),
        (["--ranks", "99999999999"], "--ranks"),
        (["--shard", "zero3"], "--shard: expected one of none, zero1, got 'zero3'"),
        (["--exchange", "f8"], "--exchange: expected one of f32, bf16, e4m3, exact"),
    ],
)
def test_wrong_options_are_named(small, words, text):
    done = binade("fit", small, "--memory", "1GiB", *words)
    assert done.returncode == 2 and text in done.stderr


def test_options_of_ranks_need_their_ledger(small):
    done = binade("inspect", small, "--ranks", "8")
    assert done.returncode == 2 and "need --ledger=ranks" in done.stderr
