/* SPDX-License-Identifier: Apache-2.0
 * contention.c - the rules of contention.h. */
#include "runtime/sim/contention.h"

#include <stdlib.h>
#include <string.h>
#include "runtime/profile/assumed_versions.h"

static const struct {
    const char *name;
    double most; /* largest M; 0 = it takes none */
} kinds[] = {[MO_CONTENTION_MEMORY] = {"memory", 0},
             [MO_CONTENTION_NONE] = {"none", 0},
             [MO_CONTENTION_FACTOR] = {"factor", 100},
             [MO_CONTENTION_VERSIONS] = {"versions", 7}};

bool mo_contention_parse(const char *text, struct mo_contention *out) {
    for (int k = 0; k < (int)(sizeof kinds / sizeof *kinds); k++) {
        size_t n = strlen(kinds[k].name);
        char *end;
        if (strncmp(text, kinds[k].name, n) != 0 || text[n] != (kinds[k].most > 0 ? ':' : 0)) continue;
        *out = (struct mo_contention){.kind = (enum mo_contention_kind)k};
        if (!text[n]) return true;
        out->most = strtod(text + n + 1, &end);
        return end != text + n + 1 && !*end && out->most >= 1 && out->most <= kinds[k].most;
    }
    return false;
}

double mo_contention_pressure(const struct mo_contention *c, double busy) {
    if (!mo_contention_crowds(c)) return 0;
    return c->kind == MO_CONTENTION_VERSIONS ? busy * mo_assumed_pressure(c->most) : busy;
}

double mo_contention_pace(const struct mo_contention *c, double busy, double chosen) {
    if (c->kind == MO_CONTENTION_FACTOR) return 1 + (c->most - 1) * busy;
    if (c->kind != MO_CONTENTION_VERSIONS) return 1;
    int version = mo_assumed_version(c->versions, chosen);
    return mo_assumed_time(version, mo_contention_pressure(c, busy)) / mo_assumed_time(version, 0);
}
