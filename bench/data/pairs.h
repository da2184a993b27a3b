/* SPDX-License-Identifier: Apache-2.0
 * pairs.h - measured pairs of models side by side on one GPU, and the interference model fitted to them.
 *
 * A file of pairs: "# moire-pairs 1", remarks as in profiles, a header, and one line a pair:
 *
 *   a,b,batch_a,batch_b,share_a,share_b,us_a,us_b
 *   alexnet,resnet50,2,2,200,800,2639.84,3447.82
 *
 * A name with a comma stands in quotes (runtime/base/csv.h).  us: microseconds on the GPU of each while the
 * other runs without a pause.  Refused, with file and line: missing or extra cells, numbers out of range,
 * shares that exceed the GPU together.
 *
 * Each pair gives two samples, one a side: the slowdown against the solo profile (the files MODEL.csv in the
 * same folder), and the use of L2 and memory of both sides alone.  What was measured and the profiles stay
 * with the pairs, for models of their own. */
#ifndef MO_BENCH_PAIRS_H
#define MO_BENCH_PAIRS_H
#include "runtime/planner/interference.h"
#include "runtime/profile/share_table.h"

enum {
    MO_PAIR_MODELS = 64,
    MO_PAIR_NAME = 128 /* as many and as long as `moire profile --pairs` writes */
};

struct mo_pair_sample {
    struct mo_share_use self, other;
    double slowdown;
};

/* One side of a pair as the file has it. */
struct mo_pair_side {
    int model; /* index into mo_pairs.model */
    int batch, share;
    double us;
};

struct mo_pair_model {
    char name[MO_PAIR_NAME];
    struct mo_share_table table;
};

struct mo_pairs {
    const struct mo_env *env;
    int n;                         /* samples; pair i has 2 i and 2 i + 1 */
    struct mo_pair_sample *sample; /* owned */
    struct mo_pair_side *side;     /* [n], owned; NULL for pairs that no file has */
    int n_models;
    struct mo_pair_model *model; /* owned, in the order in which the file names them */
};

/* Reads the pairs at `path` and the profiles beside it; free with mo_pairs_free(). */
int mo_pairs_load(const struct mo_env *env, const char *path, struct mo_pairs *out, moire_error *err);
/* The same from memory; `path` names the file and its folder. */
int mo_pairs_parse(const struct mo_env *env, const char *path, const char *text, size_t n,
                   struct mo_pairs *out, moire_error *err);
void mo_pairs_free(struct mo_pairs *pairs);

/* Marks half of the pairs, drawn with the seed: chosen[i] for pair i, n / 2 of them. */
void mo_pairs_split(const struct mo_pairs *pairs, uint64_t seed, bool *chosen);
/* Least squares over the samples of pairs with chosen[i] == want (chosen NULL: all).  What the others use
 * never speeds up: a term of theirs that comes out negative is left out, and the rest fitted again.  So is a
 * use that never changes, as one that was not measured (zeroes).  MOIRE_EINVAL: fewer samples than terms, or
 * uses that say the same. */
int mo_pairs_fit(const struct mo_pairs *pairs, const bool *chosen, bool want, struct mo_interference *out,
                 moire_error *err);
/* Relative errors of the predicted time of those samples, rising, into error[pairs->n]; how many. */
int mo_pairs_errors(const struct mo_pairs *pairs, const bool *chosen, bool want,
                    const struct mo_interference *model, double *error);
#endif
