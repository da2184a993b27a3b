/* SPDX-License-Identifier: Apache-2.0
 * batch_choose.h - which waiting queries are run next, and together: a pure function.
 *
 * A run of n rows is worth it when it takes clearly less time a row than a query alone, and when nobody who
 * would be in time alone is late by it.  Who cannot be in time any more comes last, and holds up nobody. */
#ifndef MS_BATCH_CHOOSE_H
#define MS_BATCH_CHOOSE_H
#include <stdbool.h>
#include <stdint.h>

/* MS_BATCH_LOOK: so many of those that wait are looked at. */
enum { MS_BATCH_SIZES = 16, MS_BATCH_ROWS = 128, MS_BATCH_LOOK = 256 };
#define MS_NEVER INT64_MAX

struct ms_waiting {
    int64_t arrival_ns, deadline_ns; /* MS_NEVER: it has none */
    int64_t rows;
};

/* Rows that a run can have, and what it is predicted to take. */
struct ms_size {
    int64_t rows;
    int64_t one_ns, least_ns; /* on one core; on the number of cores on which it is fastest */
    bool preferred;
};

struct ms_scene {
    int64_t now_ns;
    const struct ms_waiting *waiting; /* of one shape, in their order: what comes first goes first */
    int n;
    struct ms_size alone; /* the first of those that wait, by itself */
    const struct ms_size *size;
    int n_sizes;           /* rising; those that there are */
    int under_way, window; /* runs of the model; so many keep the cores busy */
    int64_t delay_ns;      /* that a query may be held back for others to come; 0: none is */
    bool turn_of_lost;     /* those who cannot be in time any more come first, lest they wait for ever */
};

struct ms_choice {
    int n;                     /* queries to run now; 0: none */
    int picked[MS_BATCH_ROWS]; /* indices into waiting, rising */
    int size;                  /* index into size; -1: the one query alone */
    int64_t again_ns;          /* ask again then, if nothing happens before; MS_NEVER */
};

/* Some size takes clearly less a row than a query alone. */
bool ms_batch_pays(const struct ms_size *alone, const struct ms_size *size, int n_sizes);
void ms_batch_choose(const struct ms_scene *scene, struct ms_choice *out);
#endif
