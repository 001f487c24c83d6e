"""Ends a run on all ranks after a signal to one of them."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class SignalWatch:
    """A context in which SIGTERM and SIGINT are noted, instead of ending the process.

    The process ends at the latest `grace` seconds after a signal, also if it waits for
    another rank inside of a library. A second signal has its usual effect. Signals are
    noted by the main thread only.

    Attributes:
      received: The number of the signal; 0 without one.
    """

    def __init__(self, grace: float) -> None:
        self.received = 0
        self._grace = grace
        self._isOver = threading.Event()
        self._earlier: dict[int, object] = {}

    def __enter__(self) -> SignalWatch:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._earlier[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._isOver.set()
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._earlier = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()
        threading.Thread(target=self._end_late, daemon=True).start()

    def _end_late(self) -> None:
        if not self._isOver.wait(self._grace):
            os._exit(128 + self.received)
