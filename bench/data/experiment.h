/* SPDX-License-Identifier: Apache-2.0
 * experiment.h - the block that every result carries: machine, build, command, load of the machine.
 *
 * The build is named by its commit and by digests of its code: "sources" of all that measured times depend
 * on, "simulator" of what simulations do (tools/make/commit.mk).  They stay the same where a commit changes
 * neither, and differ where code was changed and not committed. */
#ifndef MO_BENCH_EXPERIMENT_H
#define MO_BENCH_EXPERIMENT_H
#include <jansson.h>
#include "runtime/base/env.h"

/* A new object; NULL when out of memory.  `command` is the command line as typed. */
json_t *mo_bench_experiment(const char *command, int cores);
/* "moire VERB ARGUMENT ...", to be freed by mo_free(); NULL when out of memory. */
char *mo_bench_command(const struct mo_env *env, int argc, char **argv);
/* Adds that block to the entries that the document's "experiment" has already. */
int mo_bench_describe(const struct mo_env *env, json_t *document, int argc, char **argv, moire_error *err);
#endif
