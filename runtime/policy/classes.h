/* SPDX-License-Identifier: Apache-2.0
 * classes.h - options of moire-classes (classes.c). */
#ifndef MO_POLICY_CLASSES_H
#define MO_POLICY_CLASSES_H
#include "runtime/sched/policy.h"

struct mo_classes_options {
    int units;    /* cores of a device; 0 = 1 */
    int kept;     /* units of the first device that best-effort tasks do not get */
    double share; /* of all devices' time, that best-effort tasks have at least while one of them waits; and
                     those that are too late, likewise */
};
#endif
