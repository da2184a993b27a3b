/* SPDX-License-Identifier: Apache-2.0
 * csv.c - files of comma-separated values; see csv.h. */
#include "runtime/base/csv.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* --- errors --------------------------------------------------------------------------------------------- */
static int failed(const struct mo_csv *c, const char *cell, const char *format, va_list values) {
    char why[256], column[24] = "";
    vsnprintf(why, sizeof why, format, values);
    if (cell) snprintf(column, sizeof column, "%d:", (int)(cell - c->row) + 1);
    return mo_fail(c->err, MOIRE_EFORMAT, "%s:%d:%s %s", c->path, c->line, column,
                   cell && c->broken ? "a quote that is not closed, or text behind one" : why);
}

int mo_csv_fail(const struct mo_csv *c, const char *format, ...) {
    va_list values;
    va_start(values, format);
    int code = failed(c, NULL, format, values);
    va_end(values);
    return code;
}

int mo_csv_fail_cell(const struct mo_csv *c, const char *format, ...) {
    va_list values;
    va_start(values, format);
    int code = failed(c, c->cell, format, values);
    va_end(values);
    return code;
}

/* --- lines ---------------------------------------------------------------------------------------------- */
size_t mo_csv_lines(const char *text, size_t n) {
    size_t lines = 1;
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    return lines;
}

static bool next_line(struct mo_csv *c) {
    size_t left = (size_t)(c->end - c->next);
    c->line++;
    if (!left) return false;
    const char *end = memchr(c->next, '\n', left);
    c->cut = !end;
    c->row = c->at = c->next;
    c->stop = end ? end : c->end;
    c->next = end ? end + 1 : c->end;
    if (c->stop > c->row && c->stop[-1] == '\r') c->stop--;
    c->cell = NULL;
    c->broken = false;
    c->shown[0] = 0;
    return true;
}

static size_t length(const struct mo_csv *c) {
    return (size_t)(c->stop - c->row);
}

bool mo_csv_is(const struct mo_csv *c, const char *text) {
    size_t n = strlen(text);
    return length(c) == n && !memcmp(c->row, text, n);
}

const char *mo_csv_remark(const struct mo_csv *c, const char *key, size_t *n) {
    size_t k = strlen(key);
    if (length(c) < k + 3 || memcmp(c->row, "# ", 2) != 0 || memcmp(c->row + 2, key, k) != 0 ||
        c->row[2 + k] != ' ')
        return NULL;
    *n = length(c) - k - 3;
    return c->row + k + 3;
}

/* One line of a file; *headed: the header is above it. */
static int read_line(struct mo_csv *c, const struct mo_csv_form *form, bool *headed, int *rows, void *self) {
    if (form->whole && c->cut)
        return mo_csv_fail(c, "the last line is cut off: write or fetch the file again");
    if (c->line == 1)
        return mo_csv_is(c, form->magic)
                   ? MOIRE_OK
                   : mo_csv_fail(c, "not %s: the first line must be '%s'", form->what, form->magic);
    if (c->row < c->stop && *c->row == '#') return form->remark ? form->remark(c, self) : MOIRE_OK;
    if (*headed) {
        ++*rows;
        return form->row(c, self);
    }
    *headed = true;
    return form->header(c, self);
}

int mo_csv_read(const struct mo_csv_form *form, const char *path, const char *text, size_t n, void *self,
                moire_error *err) {
    struct mo_csv c = {.path = path, .err = err, .next = n ? text : "", .line = 0};
    bool headed = false;
    int rows = 0, code = MOIRE_OK;
    c.end = c.next + n;
    if (n && memchr(text, 0, n)) {
        c.line = 1;
        return mo_csv_fail(&c, "not %s: not a text", form->what);
    }
    while (!code && next_line(&c))
        code = read_line(&c, form, &headed, &rows, self);
    if (!code && !rows) code = mo_csv_fail(&c, "the file ends before the first %s", form->unit);
    return code || !form->end ? code : form->end(&c, self);
}

/* --- cells ---------------------------------------------------------------------------------------------- */
bool mo_csv_more(const struct mo_csv *c) {
    return c->at != NULL;
}

bool mo_csv_skip(struct mo_csv *c, const char *text) {
    size_t n = strlen(text);
    if (!c->at || (size_t)(c->stop - c->at) < n || memcmp(c->at, text, n) != 0) return false;
    if (c->at + n < c->stop && c->at[n] != ',') return false;
    c->at = c->at + n < c->stop ? c->at + n + 1 : NULL;
    return true;
}

static int end_cell(char *out, size_t room, size_t n) {
    out[n < room ? n : room - 1] = 0;
    return (int)n;
}

static int plain_cell(const struct mo_csv *c, const char **at, char *out, size_t room) {
    size_t n = 0;
    for (; *at < c->stop && **at != ','; ++*at, n++)
        if (n + 1 < room) out[n] = **at;
    return end_cell(out, room, n);
}

/* *at is behind the first quote, and comes to be behind the last; -1: there is none. */
static int quoted_cell(const struct mo_csv *c, const char **at, char *out, size_t room) {
    for (size_t n = 0; *at < c->stop; ++*at, n++) {
        if (**at == '"' && (++*at == c->stop || **at != '"')) return end_cell(out, room, n);
        if (n + 1 < room) out[n] = **at;
    }
    return -1;
}

int mo_csv_cell(struct mo_csv *c, char *out, size_t room) {
    const char *at = c->at;
    c->cell = at ? at : c->stop;
    snprintf(c->shown, sizeof c->shown, "%.*s", at ? (int)(c->stop - at) : 0, at ? at : "");
    c->shown[strcspn(c->shown, ",")] = 0;
    out[0] = 0;
    if (!at) return -1;
    int n =
        at < c->stop && *at == '"' ? (at++, quoted_cell(c, &at, out, room)) : plain_cell(c, &at, out, room);
    c->broken = n < 0 || (at < c->stop && *at != ',');
    c->at = at < c->stop && !c->broken ? at + 1 : NULL;
    return c->broken ? -1 : n;
}

bool mo_csv_is_number(const char *text, size_t n, double min, double max, double *out) {
    char copy[64], *end;
    if (!n || n >= sizeof copy) return false;
    memcpy(copy, text, n);
    copy[n] = 0;
    *out = strtod(copy, &end);
    return end == copy + n && *out >= min && *out <= max;
}

bool mo_csv_number(struct mo_csv *c, double min, double max, double *out) {
    char cell[64];
    int n = mo_csv_cell(c, cell, sizeof cell);
    return n > 0 && mo_csv_is_number(cell, (size_t)n, min, max, out);
}

/* --- remarks that are kept, writing --------------------------------------------------------------------- */
int mo_csv_label(struct mo_csv *c, const struct mo_csv_label *labels, int n, struct mo_region *region) {
    for (int i = 0; i < n; i++) {
        size_t bytes;
        const char *text = mo_csv_remark(c, labels[i].key, &bytes);
        if (!text) continue;
        const char *copy = mo_region_string(region, text, bytes);
        if (!copy) return mo_fail(c->err, MOIRE_ENOMEM, "%s: out of memory", c->path);
        *labels[i].text = copy;
    }
    return MOIRE_OK;
}

static void put(FILE *f, char c) {
    fputc((unsigned char)c < ' ' ? '_' : c, f);
}

void mo_csv_put_labels(FILE *f, const struct mo_csv_label *labels, int n) {
    for (int i = 0; i < n; i++) {
        const char *text = *labels[i].text;
        if (!text || !*text) continue;
        fprintf(f, "# %s ", labels[i].key);
        while (*text)
            put(f, *text++);
        fputc('\n', f);
    }
}

void mo_csv_put(FILE *f, const char *text) {
    const bool quoted = *text == '#' || strpbrk(text, ",\"");
    if (quoted) fputc('"', f);
    for (; *text; text++) {
        if (*text == '"') fputc('"', f);
        put(f, *text);
    }
    if (quoted) fputc('"', f);
}
