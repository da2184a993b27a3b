/* SPDX-License-Identifier: Apache-2.0
 * bench_place.h - a folder in which `moire bench` finds peers made of shell, and a look into its documents.
 */
#ifndef MO_TEST_BENCH_PLACE_H
#define MO_TEST_BENCH_PLACE_H
#include "bench/load/session.h"

struct bench_place {
    struct mo_bench_session session;
    struct mo_env env;
    char folder[64], output[96];
};

/* A program's folder with a peer beside it (its text; NULL = none), a models folder and an environment with a
 * Python of our own. */
void bench_place_open(struct bench_place *place, const char *peer);
void bench_place_close(struct bench_place *place);
/* A program of that text. */
void bench_place_write(const char *path, const char *text);
/* What must be there. */
double bench_place_number(const json_t *row, const char *key);
const char *bench_place_text(const json_t *row, const char *key);
/* The same measurements; numbers in files are rounded. */
void bench_place_same(const json_t *a, const json_t *b);
#endif
