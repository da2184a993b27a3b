"""A runtime of the library with the thread that takes its answers: what Session and Runtime own.

Invariants: `calls` counts threads that are inside of a call with the runtime or about to make one,
so that the end waits for them.  The thread that takes answers holds the queue and the dictionary
of futures, but not the object that the user holds: dropping that ends the runtime.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from typing import Any, Callable, Optional

from . import errors
from ._native import check, ffi, lib, path_bytes, text

_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


def filled(struct: Any, values: dict[str, Any]) -> list[Any]:
    """Sets fields of a config; strings go into memory that the returned list keeps."""
    kept = []
    for name, value in values.items():
        if value is None:
            continue
        field = value
        if isinstance(value, (str, bytes)) or hasattr(value, "__fspath__"):
            field = ffi.new("char[]", path_bytes(value))
            kept.append(field)
        try:
            setattr(struct, name, field)
        except (TypeError, OverflowError):
            raise errors.InvalidArgument(f"{name} cannot be {value!r}") from None
    return kept


def _limits(config: Any, limits: dict[str, int]) -> list[Any]:
    rows = ffi.new("moire_limit_setting[]", len(limits) or 1)
    kept = [rows]
    for row, (name, value) in zip(rows, limits.items()):
        if not isinstance(name, str) or not isinstance(value, int):
            raise errors.InvalidArgument(f"limits: {name!r} cannot be {value!r}")
        kept += filled(row, {"name": name, "value": value})
    config.limits, config.n_limits = rows, len(limits)
    return kept


class Core:
    """A native runtime until close()."""

    def __init__(self, limits: Optional[dict[str, int]] = None, **fields: Any):
        config, err = ffi.new("moire_config *"), ffi.new("moire_error *")
        lib.moire_config_init(config)
        kept = filled(config, fields) + _limits(config, limits or {})
        queue = lib.moire_answers_create()
        if not queue:
            raise errors.OutOfMemory("out of memory for a queue of answers")
        config.log, config.log_user = lib.moire_answers_log, queue
        out = ffi.new("moire_runtime **")
        code = lib.moire_runtime_create(config, out, err)
        del kept
        if code:
            lib.moire_answers_destroy(queue)
            check(code, err)
        self.queue, self.handle, self.process = queue, out[0], os.getpid()
        self.lock = threading.Condition()  # reentrant: a collection may end a runtime anywhere
        self.calls, self.closing, self.ending = 0, False, False
        self.tokens = itertools.count(1)
        self.waiting: dict[int, Callable[[Any], None]] = {}
        self.thread = threading.Thread(
            target=_deliver, args=(queue, self.waiting), name="moire-answers", daemon=True
        )
        self.thread.start()

    def __enter__(self) -> Any:
        """Begins calls with the native runtime, which it returns."""
        with self.lock:
            if self.closing:
                raise errors.Closed("it is closed: make a new one")
            self.calls += 1
        return self.handle

    def __exit__(self, *_: Any) -> None:
        with self.lock:
            self.calls -= 1
            if self.closing and not self.calls:
                self.lock.notify_all()

    def close(self, drain: bool = True) -> None:
        """Ends the runtime when nobody is inside of a call, and returns when all answers are told.

        Again, or in a second thread, it waits for the first, except on the thread that tells
        answers.  The child of a fork() has no part in the runtime.
        """
        if os.getpid() != self.process:
            return
        with self.lock:
            self.closing = True
            self.lock.wait_for(lambda: not self.calls)
            first, self.ending = not self.ending, True
        if first:
            try:
                lib.moire_runtime_destroy(self.handle, drain)  # every callback has returned
            finally:
                lib.moire_answers_close(self.queue)
        if threading.current_thread() is not self.thread:
            self.thread.join()


def _deliver(queue: Any, waiting: dict[int, Callable[[Any], None]]) -> None:
    """Takes answers and lines of the log until the queue is closed; then frees it."""
    log = logging.getLogger("moire")
    while node := lib.moire_answers_wait(queue):
        while node:
            try:
                if node.token:
                    waiting.pop(node.token)(node)
                else:
                    log.log(_LEVELS[node.code], "%s", text(node.text))
            except Exception:  # whatever it is, the other answers come
                log.exception("an answer could not be delivered")
            done, node = node, node.next
            lib.moire_answered_free(done)
    lib.moire_answers_destroy(queue)
