/* SPDX-License-Identifier: Apache-2.0
 * flags.h - the flags of all verbs as one table.  A row of flag_rows*.c is all there is to a flag: parser,
 * help page, man page and completion work from it, and tests/unit/tools/test_flags.c holds every row to
 * setting its field. */
#ifndef MO_FLAGS_H
#define MO_FLAGS_H
#include <stddef.h>
#include <stdio.h>
#include "tools/moire/command_line/options.h"
#include "tools/moire/verb.h"

/* How a value is read; follows from the type of the field. */
enum mo_flag_kind {
    MO_FLAG_SWITCH,  /* bool: no value */
    MO_FLAG_INT,     /* whole numbers from least to most */
    MO_FLAG_INT64,   /* the same */
    MO_FLAG_REAL,    /* a number from least to most */
    MO_FLAG_TEXT,    /* any text, or one of the choices */
    MO_FLAG_WORDS,   /* texts with commas between, or one each time that the flag is given (repeats) */
    MO_FLAG_WHOLES,  /* whole numbers with commas between */
    MO_FLAG_NUMBERS, /* numbers with commas between */
    MO_FLAG_SHAPES   /* NAME=d,d,..., one each time that the flag is given */
};

/* What the value names; a verb should not find out at the end of its work that it cannot be written. */
enum mo_flag_names { MO_NAMES_NOTHING, MO_NAMES_OUTPUT, MO_NAMES_OUTPUT_FOLDER };

/* `most` of a whole number that may be as large as an int64_t. */
#define MO_FLAG_UNBOUNDED 9e18

struct mo_flag {
    const char *name, *value; /* "--cores", "N"; value NULL: a switch */
    uint64_t on;              /* commands that take it: bits by enum mo_command */
    enum mo_flag_kind kind;
    size_t to;         /* offset in struct mo_options */
    const char *field; /* its name there */
    const char *help;
    uint64_t needed;     /* commands that cannot do without */
    const char *initial; /* value where it is not given; NULL: the field is zero */
    const char *choices; /* values with a space between; NULL: any */
    double least, most;  /* of every number */
    int room;            /* entries of a list; 0: MO_OPTION_ROOM */
    bool repeats;
    enum mo_flag_names names;
    const char *other; /* another name of it; NULL: none */
};

enum { MO_FLAGS_MOST = 384 };
/* The table: at most MO_FLAGS_MOST rows; no two of a command have the same name or field. */
int mo_n_flags(void);
const struct mo_flag *mo_flag_at(int index); /* from 0 */

/* Reads argv, whose first word is the verb.  MOIRE_EINVAL, with what is wrong: an unknown command or flag,
 * one of another command, a value that is missing or is not of its kind, a needed flag or operand that is
 * missing, operands beyond what the command takes.  Close it also after an error. */
int mo_options_open(const struct mo_env *env, const struct mo_verb *verb, int argc, char **argv,
                    struct mo_options *out, moire_error *err);
void mo_options_close(const struct mo_env *env, struct mo_options *options);
/* How many operands a command takes. */
void mo_operands_count(const struct mo_verb_command *command, int *least, int *most);
/* The flag of a command by its name ("--seed", "-o"); NULL: it takes none of that name. */
const struct mo_flag *mo_flag_find(enum mo_command command, const char *name, size_t length);
/* Whether every output that the options name could be written. */
int mo_options_check_outputs(const struct mo_env *env, const struct mo_options *options, moire_error *err);

/* MOIRE_EINVAL with the flag, its value (may be NULL) and what it should be. */
int mo_flag_bad(moire_error *err, const char *flag, const char *value, const char *wanted);
/* A text as a number from least to most; false: it is missing (NULL), another text or outside. */
bool mo_text_number(const char *text, double least, double most, double *out);
bool mo_text_whole(const char *text, int64_t least, int64_t most, int64_t *out);
/* Parses "NAME=d,d,...", in place: text must live as long as the result. */
bool mo_text_shape(char *text, moire_shape *out);

/* flags_help.c: the page of a verb (`moire help VERB`), or of one of its commands; NULL: all of them. */
void mo_verb_page(FILE *to, const struct mo_verb *verb, const struct mo_verb_command *only);
/* "moire VERB COMMAND OPERANDS [FLAG...]", in out[size]. */
void mo_verb_usage(const struct mo_verb *verb, const struct mo_verb_command *command, char *out, size_t size);
/* Gives every flag of a verb to `take`: "  -o, --output FILE  ", and what it does. */
void mo_verb_each_flag(const struct mo_verb *verb,
                       void (*take)(void *ctx, const char *head, const char *text), void *ctx);
/* The command of a verb by its name, which may be NULL or nobody's; NULL: there is none. */
const struct mo_verb_command *mo_verb_command_find(const struct mo_verb *verb, const char *name);
/* Where the command of a verb that has several is named: the first word behind the verb that is neither a
 * flag nor its value; 0: nowhere. */
int mo_verb_word(const struct mo_verb *verb, int argc, char **argv);
/* For completion, one a line: the commands of the verb, and its flags, with what a value can be behind: the
 * choices, or "VALUE".  With a command (may be NULL) only its flags. */
void mo_verb_words(FILE *to, const struct mo_verb *verb, const char *command);
#endif
