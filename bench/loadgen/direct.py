# SPDX-License-Identifier: Apache-2.0
"""direct.py - queries of a moire.Runtime by the library's own calls, as a program in C makes them.

LoadGen counts as latency whatever lies between it and the library.  The package's futures, made for programs, put 0.3 ms
there: arrays are looked at for each query, and answers go over a thread that has to find a core beside the workers.
Here tensors are made when a sample is loaded, a query is one call that copies them, and the thread of the runtime that
has the answer tells it.

Invariants: done() is called once for each query that was started.  A tenant is leased once for its shapes and stays.
"""

import threading

from moire._native import failure, ffi, lib, text
from moire._tensors import tensors


class Prepared:
    """The tensors of a query; `kept` is the memory that they point at."""

    def __init__(self, tenant, arrays, ports):
        self.tenant, self.n = tenant, len(arrays)
        self.tensors, self.kept = tensors(arrays, ports)


class Direct:
    def __init__(self, model):
        self.model, self.tenants, self.users = model, {}, {}
        self.submit, self.callback = lib.moire_submit, ffi.callback("moire_callback", answered)

    def prepare(self, feed):
        """A query of these inputs, to be started any number of times."""
        arrays = self.model.arrays(feed)
        shapes = tuple(array.shape for array in arrays)
        if shapes not in self.tenants:
            self.tenants[shapes] = tenant = self.model.lease(arrays)
            self.model.left(tenant)
        return Prepared(self.tenants[shapes].handle, arrays, self.model.inputs)

    def start(self, query, done):
        """What is called is remembered: it is cheapest for one that is given again and again."""
        user = self.users.get(done)
        if user is None:
            user = self.users[done] = ffi.new_handle(done)
        code = self.submit(query.tenant, query.tensors, query.n, 0, self.callback, user, ffi.NULL, ffi.NULL)
        if code:
            raise failure(code, "")

    def run(self, query):
        """Starts it and waits."""
        wrongs, over = [], threading.Event()

        def done(wrong):
            wrongs.append(wrong)
            over.set()

        self.start(query, done)
        over.wait()
        if wrongs[0]:
            raise wrongs[0]


def answered(user, answer):
    """On a thread of the runtime."""
    done = ffi.from_handle(user)
    done(failure(answer.code, text(answer.message)) if answer.code else None)
