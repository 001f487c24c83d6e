"""Directories of runs with given losses and times, in the form of ``binade train``."""

import json

MIB = 2**20


def plant(
    path,
    policy,
    seed,
    losses,
    held_out=(),
    ms=10.0,
    mib=64,
    by=(),
    casts=0,
    computation=None,
    eval_samples=8,
    **more,
):
    """Writes a run.

    Args:
      path: The directory.
      losses: The training loss of each step; None for one that is not finite.
      held_out: Held-out losses by step.
      ms: The time of each step, or a list with that of every step.
      by: The implementation of each contraction.
      computation: The hash of the compiled step; by default that of the policy alone.
      more: Settings, such as lr.
    """
    path.mkdir(parents=True)
    about = {
        "model": "planted", "policy": policy, "policy_hash": policy * 4,
        "computation": computation or policy * 4, "seed": seed, "batch": 8, "batches": 4,
        "order": "shuffled", "samples": 32, "eval_samples": eval_samples, "dims": {},
        "settings": more, "schedules": {}, "ops": {"f32": 4},
        "casts": {"bf16": casts}, "arena_bytes": mib * MIB, "ledger": {},
        "invocations": [{
            "files": {"data": {"path": "x", "bytes": 1, "sha256": "0" * 64}},
            "machine": {"cpu": "planted"}, "command": ["train", "planted"],
            "contractions": [{"program": "step", "record": i, "by": one}
                             for i, one in enumerate(by)],
        }],
    }  # fmt: skip
    (path / "run.json").write_text(json.dumps(about))
    held_out = dict(held_out)
    lines = [
        {"step": step, "loss": loss, "ms": ms if isinstance(ms, (int, float)) else ms[step - 1], "skipped": False, "grad_norm": 1.0,
         "loss_scale": None, "lr": 0.1, "eval_loss": held_out.get(step)}
        for step, loss in enumerate(losses, 1)
    ]  # fmt: skip
    (path / "metrics.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    return path
