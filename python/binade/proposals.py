"""Proposes candidates of a search by Optuna's tree-structured Parzen estimator (Bergstra et
al., 2011; multivariate, as in BOHB, Falkner et al., 2018)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binade.candidates import Choice, Space
from binade.errors import RejectedError

if TYPE_CHECKING:
    import optuna


class Proposals:
    """Proposes choices, each based on the results reported before.

    The estimator is deterministic: the same results lead to the same proposals, so that an
    interrupted search that reads its finished trainings again continues where it stopped.
    """

    def __init__(self, space: Space) -> None:
        try:
            import optuna
        except ModuleNotFoundError as error:
            raise RejectedError(
                f"the search needs the Python package '{error.name}', which is not installed"
            ) from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._states = optuna.trial.TrialState
        self._space = space
        self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
        for choice in space.list_first():
            self._study.enqueue_trial(choice.as_dict())

    def ask(self) -> tuple[Choice, optuna.Trial]:
        """Returns a choice, and the trial to pass to ``tell`` with its result."""
        trial = self._study.ask()
        axes = self._space.axes().items()
        return Choice(
            **{name: trial.suggest_categorical(name, values) for name, values in axes}
        ), trial

    def tell(
        self,
        trial: optuna.Trial,
        excess: float,
        gap: float | None = None,
        steps: int = 0,
        is_whole: bool = False,
    ) -> None:
        """Reports the result of a choice.

        Args:
          trial: The trial that ``ask`` returned.
          excess: Relative excess over the budget; 0 or less if it is within.
          gap: The loss to minimize; None if it was not measured.
          steps: The number of steps after which the gap was measured.
          is_whole: Whether the choice was trained for all steps.
        """
        trial.set_constraint("budget", excess)
        if gap is not None:
            trial.report(gap, steps)
        if is_whole:
            self._study.tell(trial, gap)
        else:
            self._study.tell(trial, state=self._states.PRUNED)
