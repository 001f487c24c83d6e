"""Buckets and their ready times, read from plans that are written here."""

from binade.planning.schedule import Bucket
from binade.planning.step import (
    ShardedParameter,
    find_buckets,
    find_gradients,
    read_step,
)


def make_plan(records):
    """Parameters a (3 x 4) and b (5), their gradients, and a workspace."""
    buffers = [
        {"category": "parameter", "offset": 0, "shape": [3, 4], "bytes": 48},
        {"category": "parameter", "offset": 64, "shape": [5], "bytes": 20},
        {"category": "gradient", "offset": 128, "shape": [3, 4], "bytes": 48},
        {"category": "gradient", "offset": 192, "shape": [5], "bytes": 20},
        {"category": "workspace", "offset": 256, "shape": [7], "bytes": 28},
        {"category": "state", "offset": 320, "shape": [5], "bytes": 20},
    ]
    ports = [
        {"role": "parameter", "name": "a", "buffer": 0},
        {"role": "parameter", "name": "b", "buffer": 1},
        {"role": "state", "name": "m/b", "buffer": 5},
    ]
    return {"buffers": buffers, "ports": ports, "records": records,
            "policy": {"name": "fp32"}}  # fmt: skip


def launch(label, *buffers):
    operands = [{"buffer": buffer} for buffer in buffers]
    return {"kind": "launch", "label": label, "segments": [{"operands": operands}]}


def exchange(action, operation="sum", *elements, bucket=0):
    return {"kind": "exchange", "label": "exchange", "action": action, "bucket": bucket,
            "operation": operation, "tensors": [{"buffer": 2}] * len(elements),
            "elements": list(elements)}  # fmt: skip


LAST = [
    launch("gradient_statistics_3 step", 2, 3),
    launch("optimizer_update_4 a", 0, 2),
]
STARTS = [0, 1, 2, 4, 8, 16, 32, 64]  # Of up to seven records.


def test_a_gradient_is_complete_after_the_last_record_with_it():
    """Gradient b is written by record 1, a by record 0 and again by record 2, in a loop."""
    loop = {"kind": "loop", "label": "loop", "body": [launch("x", 4), launch("add", 2)]}
    plan = make_plan([launch("matmul a", 0, 2), launch("sum b", 3, 4), loop, *LAST])
    assert find_gradients(plan) == ([(1, 5), (2, 12)], 3)
    # They are complete when records 2 and 3 start.
    assert find_buckets(plan, STARTS) == ([Bucket(2, 5, 1), Bucket(4, 12, 1)], 0, 3)


def test_the_plan_of_several_micro_batches_has_accumulators():
    """Then gradients in other memory are not exchanged."""
    plan = make_plan([launch("matmul a", 4, 2), launch("add", 2, 3), *LAST])
    plan["ports"].append({"role": "accumulator", "name": "a", "buffer": 3})
    assert find_gradients(plan)[0] == [(1, 5)]


def test_an_exchange_has_its_own_buckets():
    plan = make_plan(
        [launch("b", 3), exchange("start", "sum", 5), launch("a", 2),
         exchange("start", "sum", 12, 30, bucket=1), exchange("start", "max", 2, bucket=2),
         exchange("join", bucket=3), *LAST]
    )  # fmt: skip
    buckets, magnitudes, end = find_buckets(plan, STARTS)
    assert buckets == [Bucket(1, 5, 1), Bucket(4, 42, 2)]
    assert (magnitudes, end) == (2, 5)


def test_a_step_has_the_times_of_its_records():
    plan = make_plan([launch("a", 2), launch("b", 3), *LAST])
    ledger = {"parameter": 68, "exchange": 0}
    report = {
        "sharded": [{"name": "b", "elements": 5, "block": 4, "states": 20}],
        "ledgers": [{"shard": "none", "exchange": "f32", "ledger": ledger}],
        "seconds": {
            "target": "t",
            "step": [1.0, 2.0, 4.0, 8.0],
            "accumulation": [1.0, 0.5],
            "sharded": 7.0,
        },
    }
    step = read_step(plan, report)
    assert (
        step.buckets == (Bucket(1.0, 12, 1), Bucket(3.0, 5, 1)) and step.elements == 17
    )
    assert step.min_bucket_bytes == 25 * 2**20
    assert (step.backward_end, step.seconds, step.earlier) == (3.0, 15.0, 1.5)
    assert step.ledgers == {("none", "f32"): ledger} and step.states == 20
    assert step.update == 7.0
    assert step.sharded == (ShardedParameter(5, 4, 20, 20),)
    assert (step.exchange, step.batches) == ("", 1)
