/* SPDX-License-Identifier: Apache-2.0
 * prose.h - the texts that verbs say of themselves (mo_verb.about, mo_verb.notes), as pieces that help pages
 * and man pages set in their own ways, so that both come from one source.
 *
 * Lines may be broken anywhere; they are joined again.  An empty line ends a paragraph.  A line that begins
 * with one word and two spaces at least is an item of a list ("serve   open-loop arrivals ..."), and lines
 * behind it that are indented go on with it.  "Examples:" begins commands, one on each indented line. */
#ifndef MO_PROSE_H
#define MO_PROSE_H
#include <stdio.h>

enum { MO_PROSE_WIDTH = 80 };

enum mo_prose {
    MO_PROSE_TEXT,    /* a paragraph */
    MO_PROSE_ITEM,    /* `head` is the word */
    MO_PROSE_HEAD,    /* "Examples:" */
    MO_PROSE_COMMAND, /* below it */
};
/* Texts live for the call. */
typedef void (*mo_prose_taker)(void *ctx, enum mo_prose kind, const char *head, const char *text);
/* source: NULL is empty. */
void mo_prose_each(const char *source, mo_prose_taker take, void *ctx);

/* Words from the column `at` on, further lines indented, none longer than MO_PROSE_WIDTH unless a word is;
 * ends the line. */
void mo_prose_wrap(FILE *to, const char *text, int at, int indent);
/* A command in lines that a shell joins again. */
void mo_prose_command(FILE *to, const char *command, int indent);
/* All of it as a help page shows it. */
void mo_prose_print(FILE *to, const char *source);
#endif
