/* SPDX-License-Identifier: Apache-2.0
 * tolerance.c - see tolerance.h. */
#include "tools/moire/tolerance.h"

#include <stdio.h>

int mo_settle_check(const struct mo_options *o, moire_error *err) {
    if (!(o->tolerance > 0) || mo_precision_of(o->precision) == MOIRE_PRECISION_AUTO) return MOIRE_OK;
    return mo_fail(err, MOIRE_EINVAL, "--tolerance goes with --precision auto: %s is used as it is",
                   o->precision);
}

void mo_settle_precision(const struct mo_env *env, const struct mo_options *o, const char *path,
                         const struct mo_plan_options *planning, struct mo_frontend_options *front) {
    const struct mo_precision_ask ask = {
        .env = env, .path = path, .front = front, .planning = planning, .tolerance = o->tolerance};
    const struct mo_precision_settled settled = mo_precision_settle(&ask);
    front->precision = settled.precision;
    if (settled.said[0]) fprintf(stderr, "moire %s: %s: auto: %s\n", o->argv[0], path, settled.said);
}
