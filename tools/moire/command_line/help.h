/* SPDX-License-Identifier: Apache-2.0
 * help.h - `moire help`: the list of verbs, a verb's page, topics that concern all verbs, man pages, and what
 * can stand next on a command line.  All of it is made from the tables of verbs, flags, names and exit codes,
 * so a new verb or flag needs no word here. */
#ifndef MO_HELP_H
#define MO_HELP_H
#include <stdio.h>
#include "tools/moire/verb.h"

/* A page that is no verb's. */
struct mo_topic {
    const char *name, *summary;
    const char *man; /* the section of the man page: "EXIT STATUS" */
    void (*each)(void (*take)(void *ctx, const char *head, const char *text), void *ctx); /* its entries */
};
/* All of them; name NULL at the end. */
const struct mo_topic *mo_topics(void);

/* `moire help [WORD...]`; words[0] is "help".  The exit code. */
int mo_help(int argc, char **argv);
/* The list of verbs. */
void mo_help_print(FILE *to);
/* man.c: moire(1), or with a verb moire-VERB(1), for man. */
void mo_man_page(FILE *to, const struct mo_verb *verb);
/* complete.c: what can stand in the place of the last of n words ("" for nothing yet), which follow "moire";
 * one a line.  ":file" and ":folder" stand for names of files and folders. */
void mo_complete(FILE *to, int n, char **words);
#endif
