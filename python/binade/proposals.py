"""What a search tries next, by Optuna's tree-structured Parzen estimator (Bergstra et al.,
2011; of several axes together, as in BOHB, Falkner et al., 2018)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binade.candidates import Choice, Space
from binade.errors import RejectedError

if TYPE_CHECKING:
    import optuna


class Proposals:
    """Choices, each made with the results of those before.

    The same answers lead to the same questions, so that a search which reads its trainings
    again continues where it was.
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
        """A choice, and its result, which is reported later."""
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
        """What came of a choice.

        Args:
          trial: As asked.
          excess: By which part it is above the budget; 0 or less where it is within.
          gap: The loss to be made small; None if it was not measured.
          steps: After how many it was measured.
          is_whole: Whether these were all.
        """
        trial.set_constraint("budget", excess)
        if gap is not None:
            trial.report(gap, steps)
        if is_whole:
            self._study.tell(trial, gap)
        else:
            self._study.tell(trial, state=self._states.PRUNED)
