/* SPDX-License-Identifier: Apache-2.0
 * dag.h - applications: a query of one runs several models, some of them on what others found, with one
 * target from its arrival to the last answer.
 *
 * The target is divided among the levels of the graph (a stage's level is the longest way to it from a stage
 * that waits for nothing), for what all stages of one level may take together is the longest of them.  The
 * division is the one that takes the fewest GPU-seconds, by dynamic programming over steps of the target with
 * share-seconds per query (mo_share_cost) as the price; a stage's batches may take half of its part, the
 * other half is for waiting.  Where every stage of a level leads to all of the next this is the best
 * division.
 *
 * As a query runs, what its earlier stages left over goes to the later ones in proportion (mo_dag_part). */
#ifndef MO_DAG_H
#define MO_DAG_H
#include "runtime/profile/share_profile.h"

enum { MO_DAG_STAGES = 16 };

struct mo_dag_stage {
    const char *name;
    int count;   /* queries of the model a query of the application makes, at once */
    int n_after; /* stages that must be answered first */
    int after[MO_DAG_STAGES];
};

struct mo_dag {
    const char *name;
    int n;
    struct mo_dag_stage stage[MO_DAG_STAGES];
    /* by mo_dag_finish(): */
    int n_levels, level[MO_DAG_STAGES];
};

/* Levels.  MOIRE_EINVAL names the application and what is wrong: no stages, a stage that waits for one that
 * is not there or for itself, a circle. */
int mo_dag_finish(struct mo_dag *dag, moire_error *err);

/* Divides the target: out[level], which adds up to it.  Each stage may run on `kinds` profiles (NULL among
 * them: not on that kind), profile[stage][kind].  MOIRE_EINVAL: no division serves; the message has the least
 * target that would, and out[] the target in proportion to the levels' shortest times, if every stage has a
 * profile. */
int mo_dag_split(const struct mo_dag *dag, const struct mo_share_profile *const *const *profile, int kinds,
                 int64_t target_ns, int64_t *out, moire_error *err);

/* How long the stages of `level` may take when `left` ns are left for it and all later ones. */
int64_t mo_dag_part(const struct mo_dag *dag, const int64_t *split, int level, int64_t left_ns);
#endif
