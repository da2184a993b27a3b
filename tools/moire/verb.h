/* SPDX-License-Identifier: Apache-2.0
 * verb.h - the verbs of the `moire` command: one file verb_<name>.c each, one row in main.c. */
#ifndef MO_VERB_H
#define MO_VERB_H
#include <stdbool.h>
#include "runtime/base/env.h"

/* Exit codes of the command; documented in `moire --help` and the man page. */
enum mo_exit {
    MO_EXIT_OK = 0,
    MO_EXIT_USAGE = 2,  /* bad flags or arguments */
    MO_EXIT_INPUT = 3,  /* a file is malformed, unsupported or does not fit */
    MO_EXIT_SYSTEM = 4, /* file system, memory, compiler, threads */
    MO_EXIT_FAILED = 5, /* ran, but a check or a goal was not met */
    MO_EXIT_INTERRUPTED = 130
};

struct mo_verb {
    const char *name;
    const char *summary; /* one line */
    const char *usage;   /* flags, one a line, and examples; shown by --help and turned into the man page */
    /* flags that name a file, or a folder of files, which it writes: looked at before it runs */
    const char *outputs[5], *folders[2];
    /* argv[0] is the verb; returns an exit code */
    int (*run)(const struct mo_env *env, int argc, char **argv);
};

extern const struct mo_verb mo_verb_zoo, mo_verb_compile, mo_verb_tune, mo_verb_front, mo_verb_run,
    mo_verb_inspect, mo_verb_bench, mo_verb_sim, mo_verb_profile, mo_verb_extend, mo_verb_tables,
    mo_verb_whatif, mo_verb_capacity, mo_verb_plan, mo_verb_check_model, mo_verb_ocr, mo_verb_stress,
    mo_verb_fidelity, mo_verb_proxy, mo_verb_store, mo_verb_interference, mo_verb_shares, mo_verb_devices,
    mo_verb_check_device;

/* Prints "moire VERB: message" and what to do to stderr; returns the exit code that suits the error. */
int mo_verb_fail(const char *verb, const moire_error *err);

/* Prints "moire VERB: text detail" and where the help is to stderr; detail may be NULL.  MO_EXIT_USAGE. */
int mo_verb_usage(const char *verb, const char *text, const char *detail);

/* Whether every output that the arguments of `verb` name could be written: a verb that computes for hours
 * should not find out at its end. */
int mo_verb_check_outputs(const struct mo_env *env, const struct mo_verb *verb, int argc, char **argv,
                          moire_error *err);

/* Command-line scanning shared by the verbs (args.c).  Flags are "--name value" or "--name=value". */
struct mo_args {
    int argc, at;
    char **argv;
    const char *value; /* of the last flag that takes one */
};
/* If argv[at] is flag `name`, consumes it (and its value into args->value when takes_value) and returns true.
 * A missing value sets value = NULL and returns true. */
bool mo_args_flag(struct mo_args *args, const char *name, bool takes_value);
/* A flag's value as a number from least to most; false: it is missing (text NULL), another text or outside.
 */
bool mo_args_number(const char *text, double least, double most, double *out);
bool mo_args_whole(const char *text, int64_t least, int64_t most, int64_t *out);
/* Parses "NAME=d,d,..." for --shape, in place: text must live as long as the result. */
bool mo_args_shape(const char *text, moire_shape *out);
#endif
