/* SPDX-License-Identifier: Apache-2.0
 * bench_common.h - what the verbs have in common that serve or simulate a scenario: their options as
 * bench/ wants them, data files found by name, and the outputs. */
#ifndef MO_BENCH_COMMON_H
#define MO_BENCH_COMMON_H
#include "bench/sim/replay.h"
#include "tools/moire/command_line/failure.h"
#include "tools/moire/command_line/flags.h"
#include "tools/moire/command_line/known.h"
#include "tools/moire/paths.h"

/* What a session points to. */
struct mo_bench_paths {
    char store[MO_PATH_CAP], cache[1024];
};
/* Opens the session of a command line, with what its flags say of kernels, GPUs and folders; paths must live
 * as long.  MOIRE_EIO: --store names no folder.  Nothing is to be closed after an error. */
int mo_bench_open(const struct mo_env *env, const struct mo_options *options,
                  struct mo_bench_session *session, struct mo_bench_paths *paths, moire_error *err);

/* How a scenario is to be served, but for the scenario.  simulated: the clairvoyant "bound" and "offline" are
 * policies too.  MOIRE_EINVAL: an unknown policy or process of arrivals, --seeds beside --seed. */
int mo_bench_serve_options(const struct mo_options *options, bool simulated,
                           struct mo_bench_serve_options *out, moire_error *err);
/* A grid of loads that a search can hold. */
int mo_bench_check_grid(const struct mo_bench_serve_options *serve, moire_error *err);
/* That, and a policy or a peer. */
int mo_bench_check_serve(const struct mo_bench_serve_options *serve, moire_error *err);
/* Policies in place of what `out` has; "none" is none.  MOIRE_EINVAL names those that there are. */
int mo_bench_policies(const struct mo_words *names, bool simulated, const char **out, int *n,
                      moire_error *err);
/* --weights without a policy that learned is MOIRE_EINVAL. */
int mo_bench_check_weights(const struct mo_options *options, const struct mo_bench_serve_options *serve,
                           moire_error *err);
/* --measured, --costs and --speed as MO_REPLAY_... */
unsigned mo_bench_replay_pieces(const struct mo_options *options);

/* The files that were asked for, and the document as table or JSON on standard output, in part too: where
 * `err` says what ended the command early, with that in it.  A document may be NULL.  The exit code. */
int mo_bench_conclude(struct mo_bench_session *session, const struct mo_options *options, json_t *document,
                      moire_error *err);

/* bench_shown.c: the document of a simulated experiment of its own kind, told as it wants it. */
struct mo_bench_shown {
    json_t *(*headline)(const json_t *document); /* a new list of sentences */
    void (*print)(const json_t *document);
    int (*report)(const struct mo_env *env, const json_t *document, const char *path, moire_error *err);
};
/* Writes the files that were asked for, and the table or JSON to standard output; frees the document (NULL is
 * fine).  code: of making it; with an error a part of it is written and shown, but is not the answer in JSON,
 * which is the error.  The code, or why writing failed. */
int mo_bench_show(const struct mo_env *env, const struct mo_options *options,
                  const struct mo_bench_shown *shown, json_t *document, int code, moire_error *err);

/* bench_plans.c: `moire bench plans`. */
int mo_bench_run_plans(struct mo_bench_session *session, const struct mo_options *options, json_t **document,
                       moire_error *err);
/* bench_inss.c: `moire bench inss`. */
int mo_bench_run_inss(struct mo_bench_session *session, const struct mo_options *options, json_t **document,
                      moire_error *err);
/* bench_wattwiser.c: `moire bench wattwiser`. */
int mo_bench_run_wattwiser(struct mo_bench_session *session, const struct mo_options *options,
                           json_t **document, moire_error *err);
/* bench_flexy.c: `moire bench flexy`. */
int mo_bench_run_flexy(struct mo_bench_session *session, const struct mo_options *options, json_t **document,
                       moire_error *err);
/* bench_survey.c: `moire bench survey`. */
int mo_bench_run_survey(struct mo_bench_session *session, const struct mo_options *options, json_t **document,
                        moire_error *err);
/* bench_loadgen.c: `moire bench loadgen`. */
int mo_bench_run_loadgen(struct mo_bench_session *session, const struct mo_options *options,
                         json_t **document, moire_error *err);
/* bench_alone.c: the peers of --peers, and the counts of --threads (room for 8), or `by_default`. */
int mo_bench_pick_families(const struct mo_options *options, struct mo_words *out, moire_error *err);
int mo_bench_pick_threads(const struct mo_bench_session *session, const struct mo_options *options,
                          int by_default, int *out, int *n, moire_error *err);
/* Its commands, which run one thing at a time. */
int mo_bench_run_latency(struct mo_bench_session *session, const struct mo_options *options,
                         json_t **document, moire_error *err);
int mo_bench_run_kernels(struct mo_bench_session *session, const struct mo_options *options,
                         json_t **document, moire_error *err);
int mo_bench_run_cold(struct mo_bench_session *session, const struct mo_options *options, json_t **document,
                      moire_error *err);
int mo_bench_run_machine(struct mo_bench_session *session, const struct mo_options *options,
                         json_t **document, moire_error *err);
#endif
