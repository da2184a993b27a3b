/* SPDX-License-Identifier: Apache-2.0
 * beside.h - what choosing versions by pressure is worth beside a neighbour of known strength.
 *
 * Each policy that chooses versions serves in turns with itself less that choice, where every layer runs the
 * version that is fastest alone.  The conditions follow one another within a pair of turns, so that what the
 * machine does in the meantime meets all of them: no neighbour, one at each level asked for, one that
 * changes among these and sleep (serve_neighbour.h).  What is compared is as in versus.h; beside it stands
 * what the choosing policy chose: which versions ran at which pressure, and how often a layer's version
 * changed. */
#ifndef MO_BENCH_BESIDE_H
#define MO_BENCH_BESIDE_H
#include "bench/choice/choices.h"
#include "bench/choice/versus.h"

/* The same policy without the choice; NULL: it makes none. */
const char *mo_bench_without_choice(const char *policy);

/* What was chosen in the turns of one condition. */
struct mo_beside_choices {
    int64_t ran[MO_STORE_VERSIONS]; /* layers with a choice, by version; the first is the fastest alone */
    int64_t again, changed;         /* of them, that had run before; in another version then */
    double pressure;                /* sum over `blocks`, for which their versions were chosen */
    int64_t blocks;
    int64_t bin[MO_CHOICE_BINS][MO_STORE_VERSIONS]; /* `ran` by pressure */
    int64_t bin_blocks[MO_CHOICE_BINS];             /* with a choice */
};
/* Adds what mo_choices_json() says of one turn; NULL adds nothing. */
void mo_beside_add(struct mo_beside_choices *sum, const json_t *choices);
/* {"layers": [by version], "again", "changed", "blocks", "pressure": mean or null, "bins": [{"from", "to",
 * "blocks", "layers": [by version]}]} */
json_t *mo_beside_json(const struct mo_beside_choices *choices);

/* At the highest load of the options, at the levels of options->neighbour, with options->pairs pairs of turns
 * a condition.  *out: mo_bench_neighbour_about() with "compared": [{"policy", "against", "load", "seconds",
 * "conditions": [mo_versus_json() with "level", "changing" and "choices": mo_beside_json()]}]. */
int mo_bench_beside(struct mo_bench_session *session, const struct mo_bench_serve_options *options,
                    const struct mo_bench_mix *mix, json_t **out, moire_error *err);
#endif
