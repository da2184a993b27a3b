/* SPDX-License-Identifier: Apache-2.0
 * agreement.h - when repeated times of a model alone can be trusted.
 *
 * A series is one system with one number of threads; it is measured in slices, and each leaves its shortest
 * time. Noise only adds to a time.  So the shortest time of all is the result, once another slice has come
 * close to it: two slices are rarely disturbed to the same degree, if some time lies between them; so all
 * models take turns.  What disturbs every slice alike shows otherwise: other programs' use of the processors
 * meanwhile, and more threads that are slower than fewer.
 *
 * The judgement is a pure function of what the slices left.  mo_solo_rounds() reaches runners and clock only
 * through struct mo_solo_source. */
#ifndef MO_TRUST_AGREEMENT_H
#define MO_TRUST_AGREEMENT_H
#include <stdbool.h>
#include "runtime/base/error.h"

enum { MO_SOLO_MAX_SLICES = 16 };

struct mo_solo_slice {
    double least_ms; /* shortest time in it */
    bool busy;       /* other programs used the processors meanwhile */
};

struct mo_solo_series {
    int model; /* those of several models take turns; only those of one are compared */
    const char *system;
    int threads;
    bool lost; /* it failed and is left out */
    bool due;  /* in the round that is running */
    int n;
    struct mo_solo_slice slice[MO_SOLO_MAX_SLICES];
};

struct mo_solo_rule {
    double within;    /* the two shortest differ by at most this share of the shorter */
    int least_rounds; /* so many rounds in any case, at least 2 */
    int most_rounds;  /* up to MO_SOLO_MAX_SLICES */
    double spare_s;   /* for rounds beyond the least; what they take is subtracted */
};

enum mo_solo_verdict {
    MO_SOLO_AGREED,
    MO_SOLO_APART,  /* the two shortest times differ, or there is only one */
    MO_SOLO_SLOWER, /* than the same system with fewer threads */
    MO_SOLO_BUSY,   /* fewer than two slices had the processors to themselves */
};

/* Shortest time, and how much longer the second shortest is, as a share of it; both 0 when there are too few.
 */
double mo_solo_least(const struct mo_solo_series *series);
double mo_solo_spread(const struct mo_solo_series *series);
/* Slices during which no other program ran. */
int mo_solo_quiet(const struct mo_solo_series *series);
/* The series of the same system with fewer threads that is faster by more than the rule allows; -1 = none. */
int mo_solo_faster_with_fewer(const struct mo_solo_series *series, int n, int i,
                              const struct mo_solo_rule *rule);
enum mo_solo_verdict mo_solo_judge(const struct mo_solo_series *series, int n, int i,
                                   const struct mo_solo_rule *rule);

struct mo_solo_source {
    /* Measures one slice of series i; a system that fails sets series[i].lost and is no error. */
    int (*slice)(void *self, int i, struct mo_solo_slice *out, moire_error *err);
    double (*now_s)(void *self);
    void *self;
};

/* Goes round the series, a slice each, until all agree or the rule's rounds or time are used up; after the
 * least rounds only those that do not agree are measured again.  Fills series[].slice. */
int mo_solo_rounds(const struct mo_solo_source *source, struct mo_solo_series *series, int n,
                   struct mo_solo_rule *rule, moire_error *err);
#endif
