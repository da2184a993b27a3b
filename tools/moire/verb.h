/* SPDX-License-Identifier: Apache-2.0
 * verb.h - the verbs of the `moire` command: one file verb_<name>.c each, one row in verb.c.  Their flags are
 * in flag_rows.c. */
#ifndef MO_VERB_H
#define MO_VERB_H
#include "tools/moire/command_line/exits.h"
#include "tools/moire/command_line/failure.h"
#include "tools/moire/command_line/options.h"

struct mo_verb_command {
    const char *name; /* the word behind the verb; NULL: the verb has this command only */
    enum mo_command command;
    /* As the help shows them: a word each, "[WORD]" for one that may be missing, "..." for more of the last;
     * NULL: none. */
    const char *operands;
    bool hidden; /* the program's own use */
};

enum { MO_VERB_COMMANDS = 15 }; /* one more than any verb has */

/* Where `moire help` lists a verb; the first one is for those that name none. */
enum mo_verb_group {
    MO_GROUP_MODELS,
    MO_GROUP_KERNELS,
    MO_GROUP_MEASURE,
    MO_GROUP_SIMULATE,
    MO_GROUP_MACHINE,
    MO_GROUPS
};

struct mo_verb {
    const char *name;
    enum mo_verb_group group;
    const char *summary;                               /* one line */
    const char *about;                                 /* shown above the flags */
    const char *notes;                                 /* shown below them: exit codes, examples */
    struct mo_verb_command commands[MO_VERB_COMMANDS]; /* MO_DO_NOTHING ends them */
    bool first_is_default;                             /* the first command where none is named */
    /* Returns an exit code. */
    int (*run)(const struct mo_env *env, const struct mo_options *options);
};

extern const struct mo_verb mo_verb_serve, mo_verb_top, mo_verb_quantize, mo_verb_scale;
extern const struct mo_verb mo_verb_zoo, mo_verb_compile, mo_verb_tune, mo_verb_front, mo_verb_run,
    mo_verb_inspect, mo_verb_bench, mo_verb_sim, mo_verb_profile, mo_verb_extend, mo_verb_tables,
    mo_verb_grid, mo_verb_whatif, mo_verb_capacity, mo_verb_plan, mo_verb_train, mo_verb_check_model,
    mo_verb_ocr, mo_verb_stress, mo_verb_fidelity, mo_verb_proxy, mo_verb_store, mo_verb_interference,
    mo_verb_shares, mo_verb_devices, mo_verb_check_device, mo_verb_limits, mo_verb_blocks;

/* What `moire compile` and `moire tune` do. */
int mo_verb_compile_run(const struct mo_env *env, const struct mo_options *options);

/* All of them, NULL at the end. */
extern const struct mo_verb *const mo_verbs[];
const struct mo_verb *mo_verb_find(const char *name);
/* Reads the words (argv[0] is the verb), looks whether what they name can be written, and runs the verb; its
 * exit code. */
int mo_verb_call(const struct mo_env *env, const struct mo_verb *verb, int argc, char **argv);
#endif
