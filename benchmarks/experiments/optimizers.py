"""Tiger beside other rules, each with its best rate of three: losses, and what they keep."""

from __future__ import annotations

from training import COURSE, MODEL, Runs, describe, find_text, get_memory, table

STEPS = 150
# Rules with rates to choose from.
RATES = {
    "adamw": ["1e-3", "2e-3", "4e-3"],
    "lion": ["4e-4", "8e-4", "1.6e-3"],
    "tiger": ["2e-2", "4e-2", "8e-2"],
    "lamb": ["5e-3", "1e-2", "2e-2"],
    "muon": ["5e-3", "1e-2", "2e-2"],
    "sgd": ["0.1", "0.3", "1"],
}
MORE = {"sgd": ["--set", "momentum=0.9"]}


def run(runs: Runs, seeds: int) -> None:
    def command(rule: str, rate: str, seed: int) -> list[str]:
        return [*find_text(runs.out), *COURSE, "--policy", "bf16-amp", "--optimizer", rule,
                *MORE.get(rule, []), "--lr", rate, "--steps", str(STEPS),
                "--seed", str(seed)]  # fmt: skip

    cells = [(rule, rate) for rule, rates in RATES.items() for rate in rates]
    searched = runs.train(MODEL, [command(*cell, 0) for cell in cells])
    found = {cell: record["loss"] for cell, record in zip(cells, searched)}
    best = {rule: min(rates, key=lambda rate: found[rule, rate])
            for rule, rates in RATES.items()}  # fmt: skip
    trained = runs.train(MODEL, [command(rule, rate, seed)
                                 for rule, rate in best.items() for seed in range(seeds)])  # fmt: skip
    rows = []
    for i, (rule, rate) in enumerate(best.items()):
        losses = [record["loss"] for record in trained[i * seeds : (i + 1) * seeds]]
        others = " ".join(f"{found[rule, x]:.3f}" for x in RATES[rule])
        options = ["--policy", "bf16-amp", "--optimizer", rule, *MORE.get(rule, [])]
        one = get_memory(runs.out, *options)
        four = get_memory(runs.out, *options, "--accumulate", "4")
        rows.append([
            f"`{rule}`", rate, others, describe(losses), f"{one['state']:.1f}",
            f"{four['state'] + four['gradient']:.1f}",
        ])  # fmt: skip
    rows.sort(key=lambda row: float(row[3].split()[0]))
    print(table(["optimizer", "rate", "loss of each rate", "held-out loss", "spread",
                 "states MiB", "states and sums of 4 batches MiB"], rows))  # fmt: skip
