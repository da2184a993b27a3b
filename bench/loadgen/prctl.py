# SPDX-License-Identifier: Apache-2.0
"""prctl.py - a process that ends when the one that started it does, however that ends."""

import ctypes
import signal

PR_SET_PDEATHSIG, PR_SET_TIMERSLACK = 1, 29
_library = ctypes.CDLL(None)


def die_with_parent():
    _library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def wake_on_time():
    """Sleeps of the calling thread, and of those that it starts, end when they are to."""
    _library.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
