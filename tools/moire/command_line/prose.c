/* SPDX-License-Identifier: Apache-2.0
 * prose.c - see prose.h. */
#include "tools/moire/command_line/prose.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { MOST = 4096, WORD = 32 };

/* --- reading -------------------------------------------------------------------------------------------- */
/* The piece that is being read. */
struct reader {
    mo_prose_taker take;
    void *ctx;
    bool open, commands; /* a piece has begun; "Examples:" has */
    enum mo_prose kind;
    char head[WORD], text[MOST];
    size_t n;
};

static void flush(struct reader *r) {
    if (r->open) r->take(r->ctx, r->kind, r->head, r->text);
    r->open = false;
    r->n = 0;
    *r->head = *r->text = 0;
}

/* A further line of the piece.  Sentences keep their two spaces. */
static void add(struct reader *r, const char *line, size_t n) {
    const char *gap = !r->n ? "" : r->text[r->n - 1] == '.' ? "  " : " ";
    size_t room = sizeof r->text - r->n;
    int put = snprintf(r->text + r->n, room, "%s%.*s", gap, (int)n, line);
    r->n += put < (int)room ? (size_t)put : room - 1;
}

static void begin(struct reader *r, enum mo_prose kind) {
    flush(r);
    r->open = true;
    r->kind = kind;
}

/* The length of "word  " in front of an item's text; 0: the line is none. */
static size_t item_head(const char *line, size_t n, size_t *word) {
    size_t at = 0;
    while (at < n &&
           (islower((unsigned char)line[at]) || isdigit((unsigned char)line[at]) || line[at] == '-'))
        at++;
    *word = at;
    while (at < n && line[at] == ' ')
        at++;
    return *word && *word < WORD && at >= *word + 2 && at < n ? at : 0;
}

static void read_line(struct reader *r, const char *line, size_t n) {
    size_t indent = 0, word, head;
    while (indent < n && line[indent] == ' ')
        indent++;
    if (indent == n) {
        flush(r);
        return;
    }
    head = item_head(line + indent, n - indent, &word);
    if (r->commands && indent) {
        begin(r, MO_PROSE_COMMAND);
        add(r, line + indent, n - indent);
    } else if (line[n - 1] == ':' && !indent && !strncmp(line, "Example", 7)) {
        begin(r, MO_PROSE_HEAD);
        r->commands = true;
        add(r, line, n);
    } else if (head && indent <= 2) {
        begin(r, MO_PROSE_ITEM);
        snprintf(r->head, sizeof r->head, "%.*s", (int)word, line + indent);
        add(r, line + indent + head, n - indent - head);
    } else {
        if (!r->open || (!indent && r->kind != MO_PROSE_TEXT)) begin(r, MO_PROSE_TEXT);
        if (!indent) r->commands = false;
        add(r, line + indent, n - indent);
    }
}

void mo_prose_each(const char *source, mo_prose_taker take, void *ctx) {
    struct reader r = {.take = take, .ctx = ctx};
    for (const char *at = source ? source : ""; *at;) {
        size_t n = strcspn(at, "\n");
        read_line(&r, at, n);
        at += n + (at[n] == '\n');
    }
    flush(&r);
}

/* --- printing ------------------------------------------------------------------------------------------- */
void mo_prose_wrap(FILE *to, const char *text, int at, int indent) {
    while (*text) {
        int n = (int)strcspn(text, " "), gap = (int)strspn(text + n, " ");
        if (at > indent && at + n > MO_PROSE_WIDTH) {
            fprintf(to, "\n%*s", indent, "");
            at = indent;
        }
        fprintf(to, "%.*s", n, text);
        at += n + gap;
        text += n + gap;
        if (*text && at + (int)strcspn(text, " ") <= MO_PROSE_WIDTH) fprintf(to, "%*s", gap, "");
    }
    fputc('\n', to);
}

/* Letters of the next word, and of the value behind it if it is a flag: the two stay on one line. */
static int held_together(const char *command) {
    int n = (int)strcspn(command, " ");
    if (*command == '-' && command[n] && command[n + 1] != '-') n += 1 + (int)strcspn(command + n + 1, " ");
    return n;
}

void mo_prose_command(FILE *to, const char *command, int indent) {
    int at = indent, held = 0; /* letters that need no look at the width any more */
    fprintf(to, "%*s", indent, "");
    for (bool first = true; *command; first = false) {
        int n = (int)strcspn(command, " ");
        if (held <= 0) held = held_together(command);
        /* two columns are for the " \\" of a line that goes on */
        if (!first && at + 1 + held > MO_PROSE_WIDTH - (command[held] ? 2 : 0)) {
            fprintf(to, " \\\n%*s", indent + 4, "");
            at = indent + 4;
        } else if (!first) {
            fputc(' ', to);
            at++;
        }
        fprintf(to, "%.*s", n, command);
        at += n;
        held -= n + 1;
        command += n + (command[n] == ' ');
    }
    fputc('\n', to);
}

struct printer {
    FILE *to;
    int column; /* of the texts of items */
    bool begun;
    enum mo_prose last;
};

static void measure(void *ctx, enum mo_prose kind, const char *head, const char *text) {
    struct printer *p = ctx;
    (void)text;
    if (kind == MO_PROSE_ITEM && (int)strlen(head) + 4 > p->column) p->column = (int)strlen(head) + 4;
}

static void print(void *ctx, enum mo_prose kind, const char *head, const char *text) {
    struct printer *p = ctx;
    const bool goes_on = (kind == MO_PROSE_ITEM && p->last == MO_PROSE_ITEM) || kind == MO_PROSE_COMMAND;
    if (p->begun && !goes_on) fputc('\n', p->to);
    p->begun = true;
    p->last = kind;
    if (kind == MO_PROSE_COMMAND) {
        mo_prose_command(p->to, text, 2);
    } else if (kind == MO_PROSE_ITEM) {
        fprintf(p->to, "  %-*s", p->column - 2, head);
        mo_prose_wrap(p->to, text, p->column, p->column);
    } else {
        mo_prose_wrap(p->to, text, 0, 0);
    }
}

void mo_prose_print(FILE *to, const char *source) {
    struct printer p = {.to = to};
    mo_prose_each(source, measure, &p);
    mo_prose_each(source, print, &p);
}
