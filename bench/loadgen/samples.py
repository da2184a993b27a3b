# SPDX-License-Identifier: Apache-2.0
"""samples.py - the samples that LoadGen draws from: inputs of a model, each made from its own number.

Every system gets the same ones.  What a network computes costs the same whatever it is given, so they are drawn:
floats from a normal distribution, integers and truth values 0 or 1, which is within every vocabulary.
"""

import numpy


class Port:
    """An input: its name, numpy's type, and its shape for one sample; `open` is whether its first dimension is."""

    def __init__(self, name, dtype, shape, bound):
        self.name, self.dtype = name, numpy.dtype(dtype)
        wanted = bound.get(name)
        dims = list(wanted if wanted else shape)
        self.open = not wanted and bool(dims) and not isinstance(dims[0], int)
        if self.open:
            dims[0] = 1
        if not all(isinstance(n, int) for n in dims):
            raise ValueError(f"input '{name}' needs a shape: --shape {name}=d,d,...")
        self.shape = tuple(dims)


class Samples:
    """The library of samples; those that LoadGen asks for are kept in memory, also as queries that a system prepares."""

    def __init__(self, ports, prepare):
        self.ports, self.prepare, self.loaded, self.ready = ports, prepare, {}, {}

    def load(self, indices):
        for index in indices:
            self.loaded[index] = {port.name: self.draw(port, index) for port in self.ports}
            self.ready[index] = self.prepare(self.loaded[index])

    def unload(self, indices):
        for index in indices:
            self.loaded.pop(index, None)
            self.ready.pop(index, None)

    @staticmethod
    def draw(port, index):
        random = numpy.random.default_rng(index)
        if port.dtype.kind == "f":
            return random.standard_normal(port.shape, numpy.float32).astype(port.dtype)
        return random.integers(0, 2, port.shape).astype(port.dtype)

    def query(self, indices):
        """A query: of a sample, or of several along the first dimension."""
        if len(indices) == 1:
            return self.ready[indices[0]]
        parts = [self.loaded[index] for index in indices]
        return self.prepare({name: numpy.concatenate([part[name] for part in parts]) for name in parts[0]})
