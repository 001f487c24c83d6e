"""The tensors and hyper-parameters of a compiled step, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping

import numpy as np

from binade import _core, arrays
from binade.errors import UsageError


class Ports(Mapping[str, np.ndarray]):
    """The tensors of a step that have one role, by name.

    Each is a numpy array that shares the step's memory: writing to it changes the step's
    tensor, and the next step overwrites it.
    """

    def __init__(self, program: _core.Program, role: str) -> None:
        self._program = program
        self._role = role
        self._kinds = {
            name: (dtype, shape)
            for port_role, name, dtype, shape in program.ports()
            if port_role == role
        }

    def __getitem__(self, name: str) -> np.ndarray:
        dtype, shape = self._kinds[name]
        memory = self._program.tensor(self._role, name)
        return arrays.from_bytes(memory, dtype, shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def set(self, name: str, values: object) -> None:
        """Writes all elements of a tensor from an array or any object with DLPack.

        Raises:
          UsageError: If there is no such tensor, or type or shape differ.
          RejectedError: If an index is out of range.
        """
        if name not in self._kinds:
            raise UsageError(
                f"there is no {self._role} '{name}'; there are {', '.join(self) or '-'}"
            )
        dtype, shape = self._kinds[name]
        place = f"{self._role} '{name}'"
        self._program.set(
            self._role, name, arrays.as_bytes(values, dtype, shape, place)
        )

    def __repr__(self) -> str:
        return f"Ports({self._role}: {', '.join(self)})"


class Settings(MutableMapping[str, float]):
    """The hyper-parameters of a step by name; those of a group end in ``@`` and its
    number."""

    def __init__(self, program: _core.Program) -> None:
        self._ports = Ports(program, "hyper")

    def __getitem__(self, name: str) -> float:
        return float(self._ports[name])

    def __setitem__(self, name: str, value: float) -> None:
        try:
            number = float(value)
        except (TypeError, ValueError) as error:
            raise UsageError(f"setting '{name}' is a number, got {value!r}") from error
        self._ports.set(name, np.float64(number))

    def __delitem__(self, name: str) -> None:
        raise UsageError("a step keeps all of its settings")

    def __iter__(self) -> Iterator[str]:
        return iter(self._ports)

    def __len__(self) -> int:
        return len(self._ports)

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{k}={v:g}' for k, v in self.items())})"
