/* SPDX-License-Identifier: Apache-2.0
 * csv.h - files of comma-separated values, as profiles and measurements are kept in: reading and writing.
 *
 *   # moire-pairs 1                   what the file is
 *   # machine V100                    remarks, "# KEY TEXT", anywhere behind it
 *   a,b,us_a,us_b                     the header: the first line that is no remark
 *   "one, two",resnet50,26.4,34.8     rows
 *
 * A cell that holds a comma or a quote stands in quotes, a quote in it twice, as in RFC 4180; a cell holds no
 * end of a line.  Lines end with LF or CR LF.  Nothing is copied and nothing written to the text; whoever
 * reads takes the cells of a line one by one.  What is refused is MOIRE_EFORMAT and is named by file, line
 * and, where one cell is at fault, column: "p.csv:3:15: ...". */
#ifndef MO_CSV_H
#define MO_CSV_H
#include <stdio.h>
#include "runtime/base/env.h"

enum { MO_CSV_SHOWN = 33 };

struct mo_csv {
    const char *path; /* for messages */
    moire_error *err;
    int line;                 /* the present one, from 1; behind the last one at the end */
    bool cut;                 /* the line has no end: it is the file's last */
    char shown[MO_CSV_SHOWN]; /* the cell taken last, as far as a message shows it */
    /* csv.c's own */
    const char *next, *end;      /* what is left of the text */
    const char *row, *stop, *at; /* the line without its end; the next cell, NULL: there is none */
    const char *cell;            /* the one taken last, NULL: none yet */
    bool broken;                 /* its quotes are */
};

/* What kind of file it is.  The functions return a code; they see `self`, and the line in `csv`. */
struct mo_csv_form {
    const char *magic;                             /* the first line */
    const char *what;                              /* "a profile" */
    const char *unit;                              /* "layer": of which there is at least one */
    bool whole;                                    /* a last line without an end was cut off */
    int (*remark)(struct mo_csv *csv, void *self); /* NULL: remarks say nothing */
    int (*header)(struct mo_csv *csv, void *self);
    int (*row)(struct mo_csv *csv, void *self);
    int (*end)(struct mo_csv *csv, void *self); /* behind the last line; NULL: there is nothing to check */
};

/* Reads n bytes of text by a form. */
int mo_csv_read(const struct mo_csv_form *form, const char *path, const char *text, size_t n, void *self,
                moire_error *err);
/* An upper limit on the lines of a text. */
size_t mo_csv_lines(const char *text, size_t n);

/* --- the present line ----------------------------------------------------------------------------------- */
/* The whole line is `text`. */
bool mo_csv_is(const struct mo_csv *csv, const char *text);
/* The text of a remark with that key, *n bytes; NULL: it has another. */
const char *mo_csv_remark(const struct mo_csv *csv, const char *key, size_t *n);
/* Steps over the cells `text`, if these come next. */
bool mo_csv_skip(struct mo_csv *csv, const char *text);
/* Whether there are more cells. */
bool mo_csv_more(const struct mo_csv *csv);
/* Takes a cell, without its quotes, as far as out[room] holds it and a 0.  Its length; -1: there is none, or
 * its quotes are broken. */
int mo_csv_cell(struct mo_csv *csv, char *out, size_t room);
/* Takes a cell; true when all of it is a number within [min, max], both finite.  A number too large for a
 * double is outside; one too small is the nearest there is. */
bool mo_csv_number(struct mo_csv *csv, double min, double max, double *out);
/* The same of text that is no cell. */
bool mo_csv_is_number(const char *text, size_t n, double min, double max, double *out);

/* MOIRE_EFORMAT: the line is at fault, or the cell taken last. */
int mo_csv_fail(const struct mo_csv *csv, const char *format, ...) __attribute__((format(printf, 2, 3)));
int mo_csv_fail_cell(const struct mo_csv *csv, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- remarks that are kept ------------------------------------------------------------------------------ */
struct mo_csv_label {
    const char *key, **text;
};
/* The remark's text into the region, when one of n labels has its key.  MOIRE_ENOMEM. */
int mo_csv_label(struct mo_csv *csv, const struct mo_csv_label *labels, int n, struct mo_region *region);
/* Those that are neither NULL nor empty, a line each. */
void mo_csv_put_labels(FILE *f, const struct mo_csv_label *labels, int n);
/* A cell, quoted where it must be; what would end the line becomes '_'. */
void mo_csv_put(FILE *f, const char *text);
#endif
