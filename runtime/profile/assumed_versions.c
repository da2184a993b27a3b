/* SPDX-License-Identifier: Apache-2.0
 * assumed_versions.c - the family of assumed_versions.h, and profiles that have it.
 *
 * Two neighbours k - 1 and k are equally fast at p = k / V: d = (slope(k - 1) - slope(k)) (k / V)^3.  The
 * sum of these differences of slopes is slope(0), which gives d. */
#include "runtime/profile/assumed_versions.h"

#include <math.h>
#include "runtime/profile/profile_versions.h"

static const double HIGHEST = 7; /* times: the fastest version alone, at pressure 1 */

static double cube(double x) {
    return x * x * x;
}

/* What the slope falls by from version k - 1 to version k, in units of d. */
static double fall(int k) {
    return cube((double)MO_ASSUMED_VERSIONS / k);
}

double mo_assumed_time(int version, double pressure) {
    double all = 0, before = 0;
    for (int k = 1; k < MO_ASSUMED_VERSIONS; k++)
        all += fall(k);
    for (int k = 1; k <= version; k++)
        before += fall(k);
    double step = (HIGHEST - 1) / all;
    return 1 + version * step + step * (all - before) * cube(pressure);
}

int mo_assumed_choice(int most, double pressure) {
    int best = 0;
    for (int i = 1; i < mo_version_count(MO_ASSUMED_VERSIONS, most); i++) {
        int version = mo_version_kept(MO_ASSUMED_VERSIONS, most, i);
        if (mo_assumed_time(version, pressure) < mo_assumed_time(best, pressure)) best = version;
    }
    return best;
}

double mo_assumed_pressure(double times) {
    double t = times < 1 ? 1 : times > HIGHEST ? HIGHEST : times;
    return cbrt((t - 1) / (HIGHEST - 1));
}

static double pressure_of(int level) {
    return (double)level / (MO_PROFILE_LEVELS - 1);
}

int mo_assumed_version(int most, double pressure) {
    return mo_assumed_choice(most, pressure_of(mo_profile_level_of(pressure)));
}

static void fill(struct mo_profile *p, int level, int cores, int most, unsigned *used) {
    struct mo_profile_does *sum = mo_profile_level(p, level, cores);
    int version = mo_assumed_choice(most, pressure_of(level));
    double alone = mo_assumed_time(version, 0), under = mo_assumed_time(version, pressure_of(level));
    for (int l = 0; l < p->n_layers; l++) {
        double time = (double)mo_profile_time(p, cores, l, l + 1);
        sum[l + 1] = (struct mo_profile_does){.solo = sum[l].solo + (int64_t)(alone * time + 0.5),
                                              .under = sum[l].under + (int64_t)(under * time + 0.5)};
    }
    *used |= 1u << version;
}

int mo_profile_assume_versions(struct mo_profile *p, int most) {
    size_t cells = ((size_t)p->max_cores + 1) * ((size_t)p->n_layers + 1);
    p->level = mo_alloc(p->env, MO_PROFILE_LEVELS * cells * sizeof *p->level);
    bool *some = mo_alloc(p->env, (size_t)p->n_layers * sizeof *some);
    unsigned used = 0;
    bool ok = p->level && some;
    for (int level = 0; ok && level < MO_PROFILE_LEVELS; level++)
        for (int c = 1; c <= p->max_cores; c++)
            fill(p, level, c, most, &used);
    for (int l = 0; ok && l < p->n_layers; l++)
        some[l] = used & (used - 1);
    p->needed[__builtin_popcount(used)] += ok ? p->n_layers : 0;
    ok = ok && !mo_profile_choices(p, some);
    mo_free(p->env, some);
    return ok ? MOIRE_OK : MOIRE_ENOMEM;
}
