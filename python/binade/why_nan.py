"""Finds where a step of a run became non-finite, and a policy that keeps it finite:
``binade why-nan RUN``.

The reference implementation recomputes the step op by op. Rules are added to the policy,
and each version is tried on the same step, until the step is finite.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from binade import overrides
from binade.command import run_command
from binade.errors import RejectedError
from binade.overrides import Rule
from binade.parser import Parser
from binade.run import Run, read_run
from binade.tracing import Step, capture_run, name_op, trace

# The search ends without a policy when it has added this many rules.
MOST_RULES = 12
# A loss this many times that of the first step suggests that the parameters have diverged.
DIVERGED = 1e3


def find_bad_steps(run: Run) -> list[int]:
    """Returns the steps that were skipped, or whose loss or gradients were not finite."""
    return [
        s["step"]
        for s in run.steps
        if s["skipped"] or s["loss"] is None or s.get("grad_norm", 0) is None
    ]


# --- Which policy helps -----------------------------------------------------------------


def _counts(value: dict[str, Any], errors: Sequence[dict[str, Any]], key: str) -> bool:
    """Whether the errors of a traced value have a count under ``key`` that is not 0."""
    return any(
        e[key]
        for e in errors
        if all(e[part] == value[part] for part in ("kind", "node", "phase"))
    )


def _find_vanished(
    read: Sequence[dict[str, Any]], errors: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Returns the values with elements that a format rounded to 0, the nearest first. If no
    op rounded its own result to 0, returns the farthest value that inherited such zeros, for
    example from a constant."""
    decided = [value for value in read if value["decision"]]
    lost = [value for value in decided if _counts(value, errors, "underflow")]
    return lost or [v for v in decided if _counts(v, errors, "vanished")][-1:]


def choose_rules(
    origin: dict[str, Any], errors: Sequence[dict[str, Any]]
) -> list[Rule]:
    """Returns rules that keep the ops in f32 which made a traced step non-finite; empty if
    its formats were not the cause."""
    if origin["kind"] == "cast":
        blamed = origin["readers"]
    elif origin["exact"] is not None and origin["exact"] <= origin["limit"]:
        blamed = []  # The exact value is in range, so the format did not overflow.
    elif origin["exact"] is not None:
        blamed = [origin] if origin["decision"] else origin["readers"]
    else:
        # In f64 the op's result is not finite either, so its operands are the cause.
        blamed = _find_vanished([*origin["operands"], *origin["producers"]], errors)
    return [
        overrides.keep_wide(op)
        for op in blamed
        if not op["decision"].startswith("f32") or op["kind"] == "optimizer_update"
    ]


def find_policy(
    step: Step, report: dict[str, Any], extends: str, folder: Path
) -> tuple[list[Rule], dict[str, Any]]:
    """Returns rules to add to policy `extends`, and the trace of the step with them."""
    rules: list[Rule] = []
    place = folder / "policies"
    place.mkdir()
    copied = overrides.copy_policy(extends, place)
    errors = report["errors"]
    with tqdm(desc="policies tried", unit="", leave=False,
              disable=not sys.stderr.isatty()) as bar:  # fmt: skip
        while report["origin"] and len(rules) < MOST_RULES:
            chosen = choose_rules(report["origin"], errors)
            more = [rule for rule in chosen if rule not in rules]
            if not more:
                break
            rules += more
            path = place / "with-rules.yaml"
            path.write_text(overrides.format_policy(path.stem, copied, rules))
            report = trace(step, str(path), compares=False)
            bar.update()
    return overrides.merge_phases(rules), report


# --- Report -----------------------------------------------------------------------------


def _range(value: dict[str, Any]) -> str:
    bad = f", {value['nonfinite']} not finite" if value["nonfinite"] else ""
    if value["largest"] is None:
        return f"none of {value['elements']} is finite"
    zeros = f", {value['zeros']} of {value['elements']} are 0" if value["zeros"] else ""
    return f"{value['smallest']:.3g} to {value['largest']:.3g}{zeros}{bad}"


def describe_origin(report: dict[str, Any]) -> list[str]:
    """Describes the first value that is not finite, as lines of text."""
    origin = report["origin"]
    lines = [
        f"first not finite: {origin['nonfinite']} of {origin['elements']} elements of "
        f"{name_op(origin)}, in {origin['format']}"
    ]
    if origin["decision"]:
        lines.append(f"  decided:    {origin['decision']} <- {origin['rule']}")
    if not origin["operands"]:
        return lines
    if origin["exact"] is None:
        lines.append("  in f64:     not finite either, from the same operands")
    else:
        lines.append(
            f"  in f64:     reaches {origin['exact']:.6g} from the same operands; the "
            f"largest {origin['format']} is {origin['limit']:.6g}"
        )
    named = {"reads:": origin["operands"], "made of:": origin["producers"],
             "read by:": origin["readers"]}  # fmt: skip
    for label, values in named.items():
        for number, value in enumerate(values):
            about = (
                f"{value['decision']} <- {value['rule']}"
                if label == "read by:"
                else f"{value['format']}, {_range(value)}"
            )
            lines.append(f"  {'' if number else label:11} {name_op(value)}: {about}")
    return lines


def _loss(value: float) -> str:
    """Formats a loss, which may be very large in a run that diverges."""
    return f"{value:.4f}" if abs(value) < 1e6 else f"{value:.4g}"


def describe_divergence(run: Run, loss: float) -> str | None:
    """Returns a line if the loss of a step that a policy makes finite is much larger than the
    first one of the run: then its formats may not be the cause."""
    first = next((s["loss"] for s in run.steps if s["loss"] is not None), None)
    if not first or abs(loss) <= DIVERGED * abs(first):
        return None
    return (
        f"this loss is {abs(loss / first):.2g} times the first one of the run: unless the batch "
        "is unusual, the\nparameters had diverged before; try a smaller --lr, --warmup or --clip"
    )


def describe_policy(
    rules: Sequence[Rule], report: dict[str, Any], first: dict[str, Any]
) -> str:
    if not rules:
        why = (
            "in f64 the loss of the step is not finite either"
            if first["exact_loss"] is None
            else "what is not finite is in a wide format, or in what the step was given"
        )
        return (
            f"no policy helps: {why}; look at the learning rate, --clip and the data "
            "(binade replay RUN --step K --stats ... shows more)"
        )
    if report["origin"]:
        return (
            f"with rules about {len(rules)} ops the step is not finite yet, now for "
            f"{name_op(report['origin'])}; a narrow format of more range, as bf16 is, "
            "may help"
        )
    return f"with this policy the step is finite (tried: loss {_loss(report['loss'])}):"


def _describe_step(run: Run, step: int, bad: Sequence[int]) -> str:
    metrics = run.steps[step - 1]
    loss = "not finite" if metrics["loss"] is None else f"{metrics['loss']:.4f}"
    text = f"step {step}: loss {loss}"
    if metrics.get("loss_scale") is not None:
        text += f", loss scale {metrics['loss_scale']:g}"
    if metrics["skipped"]:
        text += ", skipped"
    others = [str(number) for number in bad if number != step]
    if others:
        shown = ", ".join(others[:5]) + (", ..." if len(others) > 5 else "")
        steps = "step was" if len(others) == 1 else "steps were"
        text += (
            f"; {len(others)} other {steps} skipped or not finite, of "
            f"{len(run.steps)}: {shown}"
        )
    return text


def explain(run: Run, number: int, bad: Sequence[int], out: Path | None,
            as_json: bool) -> None:  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        step = capture_run(run, number, folder)
        first = trace(step)
        extends = overrides.locate(step.policy, step.directory)
        if out:
            overrides.check_place(out, extends)
        rules, last = [], first
        if first["origin"] and first["exact_loss"] is not None:
            rules, last = find_policy(step, first, extends, folder)
    helps = bool(rules) and not last["origin"]
    if as_json:
        report = {"step": number, "other_steps": [b for b in bad if b != number],
                  "origin": first["origin"], "loss": first["loss"],
                  "exact_loss": first["exact_loss"], "rules": rules,
                  "finite": last["origin"] is None}  # fmt: skip
        print(json.dumps(report, indent=1))
    else:
        print(_describe_step(run, number, bad))
        if not first["origin"]:
            print("every value of the step is finite, as the reference computes it")
            return
        print(*describe_origin(first), sep="\n")
        print(describe_policy(rules, last, first))
        if helps and (line := describe_divergence(run, last["loss"])):
            print("", line, sep="\n")
        if helps:
            print("", overrides.format_policy("finite", step.policy, rules), sep="\n")
        scale = run.steps[number - 1].get("loss_scale")
        if first["origin"]["phase"] == "backward" and scale not in (None, 1):
            print("occasional skipped steps are part of dynamic loss scaling, which halves "
                  "the scale after each")  # fmt: skip
    if out and not helps:
        raise RejectedError(f"{out}: not written, for no policy that helps was found")
    if out:
        why = f"Step {number} of {run.path} is finite with it."
        overrides.write_policy(out, extends, rules, why)
        if not as_json:
            print(f"written to {out}")


# --- The command ------------------------------------------------------------------------


def make_parser() -> Parser:
    """Returns the parser of ``binade why-nan``."""
    parser = Parser(
        "binade why-nan",
        description="Find the first value in a step of a run that is not finite.\n"
        "Prints the op that computes it, its operands, its format, the rule that chose\n"
        "the format, and a policy that avoids the problem.",
        epilog="Examples:\n"
        "  binade why-nan run\n"
        "  binade why-nan run --step 3000 -o fixed.yaml\n"
        "The step is recomputed from the newest checkpoint before it.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="directory of the run")
    parser.add_argument(
        "--step", type=int, metavar="K",
        help="step to examine, from 1 (default: the first step that was skipped or "
        "has a loss or gradient that is not finite)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="FILE.yaml",
        help="policy file to write, with a rule that avoids the problem",
    )
    return parser


def _main(arguments: Sequence[str] | None) -> None:
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.out and options.out.suffix != ".yaml":
        parser.error(f"-o {options.out}: a policy's file ends in .yaml")
    run = read_run(options.run)
    bad = find_bad_steps(run)
    if options.step is None and not bad:
        raise RejectedError(
            f"{run.path}: all {len(run.steps)} steps are finite and none was skipped; "
            "--step K looks at one of them"
        )
    explain(run, options.step or bad[0], bad, options.out, options.json)


def main() -> int:
    """Runs the command; returns its exit code."""
    return run_command("binade why-nan", _main)


if __name__ == "__main__":
    sys.exit(main())
