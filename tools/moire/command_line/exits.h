/* SPDX-License-Identifier: Apache-2.0
 * exits.h - the exit codes of the command: one table from what went wrong (enum moire_code) to the number
 * that a script sees, so that the same fault ends every verb with the same code.
 *
 * A verb that fails calls mo_verb_fail() (verb.h), which asks mo_exit_of().  MO_EXIT_FAILED without an error
 * is for verbs whose result says what failed.  `moire help exit-codes` and the man pages print the table. */
#ifndef MO_EXITS_H
#define MO_EXITS_H
#include <stdio.h>

enum mo_exit {
    MO_EXIT_OK = 0,
    MO_EXIT_USAGE = 2,
    MO_EXIT_INPUT = 3,
    MO_EXIT_SYSTEM = 4,
    MO_EXIT_FAILED = 5,
    MO_EXIT_INTERRUPTED = 130
};

struct mo_exit_row {
    enum mo_exit code;
    const char *name, *meaning; /* a word or two; a sentence */
};

/* All of them, rising; NULL at the end. */
const struct mo_exit_row *mo_exits(void);
/* The exit code of an error's code.  MOIRE_OK is MO_EXIT_OK, what is no code MO_EXIT_SYSTEM. */
enum mo_exit mo_exit_of(int code);
#endif
