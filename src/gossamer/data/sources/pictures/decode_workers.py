"""Many pictures are decoded by worker processes.

A worker is a fresh Python process on two pipes. It writes nothing to a disk, and ends with its pipe, also when the process that
reads is killed.
"""

import os
import pickle
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from gossamer.errors import DataError, GossamerError

Picture = Path | bytes | Image.Image | DataError
"""The file of a picture, its bytes or what Pillow has opened; or why there is none."""
Source = tuple[str, Picture]
"""A picture's place, for messages, and the picture."""


class Decodes(Protocol):
    """What reads one picture: `image_files.Decoder`."""

    notes: set[str]

    def read(self, source: Picture) -> np.ndarray | DataError:
        """Return the pixels, or the error that says why there are none."""


_ALONE, _SECONDS = 1_024, 1.5
"""Pictures, or time, that are decoded before workers are worth their start."""
_FILES = 64
"""The files that a worker is given at a time."""


def decoded(sources: Iterable[Source], decoder: Decodes) -> Iterator[tuple[str, np.ndarray | DataError]]:
    """Place and pixels of each picture, in order, by as many workers as this process may use processors.

    A picture that cannot be read gives a DataError in place of pixels, and the next follows.
    """
    rest, begun = iter(sources), time.monotonic()
    for where, source in islice(rest, _ALONE):
        yield where, decoder.read(source)
        if time.monotonic() - begun > _SECONDS:
            break
    workers = deque[_Worker]()
    try:
        while batch := [*islice(rest, _FILES)]:
            if len(workers) < _processors():
                workers.append(_Worker(decoder))
            else:  # the first was given its pictures before all others
                yield from workers[0].taken()
                workers.rotate(-1)
            workers[-1].give(batch)
        for worker in workers:
            yield from worker.taken()
    except (OSError, EOFError, pickle.UnpicklingError):
        raise DataError("a process that decodes pictures has ended, perhaps for lack of memory: try again") from None
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """One process."""

    def __init__(self, decoder: Decodes) -> None:
        begin = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"
        self._process = subprocess.Popen([sys.executable, "-c", begin], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        self._decoder, self._given = decoder, list[Source]()

    def give(self, sources: list[Source]) -> None:
        """Give pictures to decode, once the earlier ones have been taken."""
        self._given = sources
        pickle.dump((self._decoder, sources), self._to)
        self._to.flush()

    def taken(self) -> Iterator[tuple[str, np.ndarray | DataError]]:
        """Place and pixels of all given pictures, as `decoded` gives them."""
        for where, _ in self._given:
            answer, notes = pickle.load(self._from)
            if isinstance(answer, GossamerError) and not isinstance(answer, DataError):
                raise answer
            self._decoder.notes.update(notes)
            yield where, answer

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._from.close()
        with suppress(BrokenPipeError):  # what it did not read is lost with it
            self._to.close()


def serve() -> None:
    """Decode what comes in, until the pipe ends. Ctrl-C is for the process that reads."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    try:
        while True:
            decoder, sources = pickle.load(sys.stdin.buffer)
            for _, source in sources:
                try:
                    answer: np.ndarray | GossamerError = decoder.read(source)
                except GossamerError as error:
                    answer = error
                pickle.dump((answer, decoder.notes), answers)
                answers.flush()
    except (EOFError, BrokenPipeError):
        return


def _processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
