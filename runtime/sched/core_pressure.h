/* SPDX-License-Identifier: Apache-2.0
 * core_pressure.h - how much the neighbours load what cores share: a number from 0 (alone) to 1 (the
 * strongest neighbour that `moire tune` measured under).
 *
 * It comes from a source.  The one that is always there is the observed slowdown: every tuned model knows how
 * much slower it is at each level of pressure, and the blocks that ended say how much slower it was.  It
 * moves along the curve only once the mean of these has moved by more than its own uncertainty: on a curve
 * with a step every other block would send it to the other end.  Another source, counters for instance, may
 * be handed to the core; once it says that it has no value any more, the slowdown takes its place for good,
 * with one line in the log and no query touched.
 *
 * A block that no other ran beside tells what comes from outside the runtime; that is the pressure where
 * nothing runs, else a runtime on one core would never see a neighbour.
 *
 * Blocks with at most a tenth of their time left are left out (VELTAIR, section 4.3): what begins now will
 * hardly meet them. */
#ifndef MO_PRESSURE_H
#define MO_PRESSURE_H
#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/cores.h"

enum { MO_PRESSURE_LEVELS = 6 };

struct mo_pressure_source {
    const char *name;
    /* The pressure now, 0 to 1, without the blocks on the cores of `ending` where the source can tell what is
     * theirs; false: there is none any more.  Called with the core's lock held, so it must not wait. */
    bool (*read)(void *self, int64_t now, const struct mo_cores *ending, double *pressure);
    void *self;
};

/* Where an observed slowdown lies on a model's curve: slowdown at pressure 0, 1/5, ... 1, rising from 1.  A
 * curve that does not rise by 2 % in all tells nothing: 0. */
double mo_pressure_of(const double curve[MO_PRESSURE_LEVELS], double observed);
#endif
