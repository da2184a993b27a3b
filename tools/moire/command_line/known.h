/* SPDX-License-Identifier: Apache-2.0
 * known.h - what a command line can call by its name: models of the zoo, scenarios, machines, policies,
 * planners, sources of pressure, peers.  One table lists them for completion and for the message about a name
 * that stands for nothing, so that both know what is there now. */
#ifndef MO_KNOWN_H
#define MO_KNOWN_H
#include <stdbool.h>
#include <stddef.h>
#include "runtime/base/error.h"

enum mo_known {
    MO_KNOWN_MODELS,
    MO_KNOWN_SCENARIOS,
    MO_KNOWN_MACHINES,
    MO_KNOWN_POLICIES,
    MO_KNOWN_PLANNERS,
    MO_KNOWN_SOURCES,
    MO_KNOWN_PEERS,
    MO_KNOWN_KINDS
};

typedef void (*mo_known_taker)(void *ctx, const char *name);
/* Gives every name of a kind to `take`; a name lives only for the call. */
void mo_known_each(enum mo_known kind, mo_known_taker take, void *ctx);

/* MOIRE_EINVAL: "no scenario 'mxi'; did you mean 'mix'? There are: ...".  flag: what it was given to,
 * "--machine"; NULL for an operand. */
int mo_known_fail(enum mo_known kind, const char *flag, const char *word, moire_error *err);
/* Whether a word is meant as a path: it has a slash or a dot, or a file is called that.  A folder of that
 * name does not hide what the name stands for. */
bool mo_known_is_path(const char *word);

/* A file, or the name of one in bench/FOLDER ("scenarios", "machines") as the repository or an installation
 * keeps them: its path.  MOIRE_EINVAL: there is no such name; MOIRE_EIO: no such file. */
int mo_known_find_data(enum mo_known kind, const char *word, char *path, size_t n, moire_error *err);
#endif
