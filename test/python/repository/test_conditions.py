"""`utils/check_conditions.py --together` runs the tests once for several conditions."""

import collections

from support.sources import load


def test_every_condition_is_in_one_run(tmp_path):
    tool = load("check_conditions")
    conditions = tool.make_conditions(tmp_path / "build", tmp_path)
    about = {one.name: one for one in conditions}
    runs = tool.merge(conditions)
    names = [name for run in runs for name in run.about.split(", ")]
    assert sorted(names) == sorted(about)
    for run in runs:
        parts = [about[name] for name in run.about.split(", ")]
        assert max(collections.Counter(one.subject for one in parts).values()) == 1
        for part in parts:
            assert part.environment.items() <= run.environment.items()
            assert " ".join(part.prefix) in " ".join(run.prefix)
        assert run.busy == sum(part.busy for part in parts)


def test_a_run_applies_all_its_conditions():
    tool = load("check_conditions")
    done = []
    parts = [
        tool.Condition("a", "", "1", before=lambda: done.append("a")),
        tool.Condition("b", "", "2", before=lambda: done.append("b")),
    ]
    (run,) = tool.merge(parts)
    run.before()
    assert sorted(done) == ["a", "b"]
