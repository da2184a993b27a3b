/* SPDX-License-Identifier: Apache-2.0
 * man.c - the man pages, in man(7)'s macros: moire(1) and a page for each verb; see help.h.
 *
 * A verb's page is made of what its help page is made of, in the sections that readers of man pages look for.
 * SEE ALSO is the verbs that its texts name. */
#define _GNU_SOURCE
#include <string.h>
#include "tools/moire/command_line/flags.h"
#include "tools/moire/command_line/help.h"
#include "tools/moire/command_line/prose.h"

/* A text in which nothing is taken for a macro; `quoted` words are bold. */
static void put(FILE *to, const char *text) {
    bool bold = false;
    if (*text == '.' || *text == '\'') fputs("\\&", to);
    for (; *text; text++) {
        if (*text == '`') {
            fputs(bold ? "\\fR" : "\\fB", to);
            bold = !bold;
        } else if (*text == '\\') {
            fputs("\\e", to);
        } else if (*text == '-') {
            fputs("\\-", to);
        } else if (*text == '\n' && (text[1] == '.' || text[1] == '\'')) {
            fputs("\n\\&", to);
        } else {
            fputc(*text, to);
        }
    }
    fputs(bold ? "\\fR\n" : "\n", to);
}

static void section(FILE *to, const char *name) {
    fprintf(to, ".SH %s\n", name);
}

static void put_entry(void *ctx, const char *head, const char *text) {
    FILE *to = ctx;
    char bare[100];
    head += strspn(head, " ");
    snprintf(bare, sizeof bare, "%s", head);
    for (size_t n = strlen(bare); n && bare[n - 1] == ' '; n--)
        bare[n - 1] = 0;
    fputs(".TP\n.B ", to);
    put(to, bare);
    put(to, text);
}

/* --- a verb --------------------------------------------------------------------------------------------- */
struct pieces {
    FILE *to;
    bool examples; /* what is to be put: the commands below "Examples:", or all else */
    bool any;
};

static void put_command(FILE *to, const char *command) {
    char lines[1024] = "";
    FILE *text = fmemopen(lines, sizeof lines - 1, "w");
    if (!text) return;
    mo_prose_command(text, command, 0);
    fclose(text);
    size_t n = strlen(lines);
    if (n) lines[n - 1] = 0;
    put(to, lines);
}

static void put_piece(void *ctx, enum mo_prose kind, const char *head, const char *text) {
    struct pieces *p = ctx;
    if (p->examples != (kind == MO_PROSE_COMMAND) || kind == MO_PROSE_HEAD) return;
    if (kind == MO_PROSE_COMMAND) {
        put_command(p->to, text);
    } else if (kind == MO_PROSE_ITEM) {
        put_entry(p->to, head, text);
    } else {
        fputs(".PP\n", p->to);
        put(p->to, text);
    }
    p->any = true;
}

static bool names_verb(const struct mo_verb *verb, const char *other) {
    char mention[64];
    const char *const texts[] = {verb->about, verb->notes};
    snprintf(mention, sizeof mention, "moire %s", other);
    for (size_t i = 0; i < 2; i++)
        for (const char *at = texts[i]; at && (at = strstr(at, mention)); at++)
            if (!strchr("abcdefghijklmnopqrstuvwxyz-", at[strlen(mention)]) || !at[strlen(mention)])
                return true;
    return false;
}

static void put_see_also(FILE *to, const struct mo_verb *verb) {
    section(to, "SEE ALSO");
    fputs(".BR moire (1)", to);
    for (int i = 0; mo_verbs[i]; i++)
        if (verb ? mo_verbs[i] != verb && names_verb(verb, mo_verbs[i]->name) : true)
            fprintf(to, ",\n.BR moire\\-%s (1)", mo_verbs[i]->name);
    fputc('\n', to);
}

static void put_topics(FILE *to) {
    for (const struct mo_topic *t = mo_topics(); t->name; t++) {
        section(to, t->man);
        t->each(put_entry, to);
    }
}

static void put_verb(FILE *to, const struct mo_verb *verb) {
    struct pieces text = {.to = to}, examples = {.to = to, .examples = true};
    fprintf(to, ".SH NAME\nmoire\\-%s \\- ", verb->name);
    put(to, verb->summary);
    section(to, "SYNOPSIS");
    for (const struct mo_verb_command *c = verb->commands; c->command; c++) {
        char line[300];
        if (c->hidden) continue;
        mo_verb_usage(verb, c, line, sizeof line);
        if (c != verb->commands) fputs(".br\n", to);
        put(to, line);
    }
    section(to, "DESCRIPTION");
    mo_prose_each(verb->about, put_piece, &text);
    mo_prose_each(verb->notes, put_piece, &text);
    if (!text.any) {
        fprintf(to, "moire %s ", verb->name);
        put(to, verb->summary);
    }
    section(to, "OPTIONS");
    mo_verb_each_flag(verb, put_entry, to);
    put_topics(to);
    section(to, "EXAMPLES");
    fputs(".EX\n", to);
    mo_prose_each(verb->notes, put_piece, &examples);
    fputs(".EE\n", to);
    put_see_also(to, verb);
}

/* --- moire(1) ------------------------------------------------------------------------------------------- */
static const char description[] =
    "moire runs many neural networks on one machine, each within its own latency target.  It takes ONNX "
    "models, "
    "generates C kernels for their layers, and schedules their queries block by block on pinned cores, so "
    "that a model "
    "of 2 ms does not wait behind one of 150 ms.\n"
    "\n"
    "This command runs, compiles, measures and simulates models.  A program serves models through the "
    "library, "
    "libmoire, whose calls are in moire.h (`pkg-config moire`).\n"
    "\n"
    "A model is an ONNX file, or the name of one of `moire zoo list`, which is built at its first use.\n";

static const char examples[] = "Examples:\n"
                               "  moire run resnet50.onnx --input data=image.npy --output-dir out\n"
                               "  moire compile resnet50.onnx\n"
                               "  moire bench latency resnet50.onnx --threads 1,2\n"
                               "  moire bench serve mix --policy moire,fcfs --load 0.5 --report report.html\n"
                               "  moire sim mix --machine cores64 --find-max 0.95 --json\n";

static void put_command_page(FILE *to) {
    struct pieces text = {.to = to}, commands = {.to = to, .examples = true};
    fputs(".SH NAME\nmoire \\- multi\\-tenant DNN inference runtime\n.SH SYNOPSIS\n.B moire\n.I verb\n"
          "[\\fIargument\\fR...]\n.br\n.B moire help\n[\\fIverb\\fR]\n",
          to);
    section(to, "DESCRIPTION");
    mo_prose_each(description, put_piece, &text);
    section(to, "VERBS");
    for (int i = 0; mo_verbs[i]; i++) {
        fprintf(to, ".TP\n.BR moire\\-%s (1)\n", mo_verbs[i]->name);
        put(to, mo_verbs[i]->summary);
    }
    put_topics(to);
    section(to, "EXAMPLES");
    fputs(".EX\n", to);
    mo_prose_each(examples, put_piece, &commands);
    fputs(".EE\n", to);
    put_see_also(to, NULL);
}

void mo_man_page(FILE *to, const struct mo_verb *verb) {
    char name[80];
    snprintf(name, sizeof name, "MOIRE%s%s", verb ? "-" : "", verb ? verb->name : "");
    for (char *c = name; *c; c++)
        *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    fprintf(to, ".TH %s 1 \"\" \"moire %s\" \"User Commands\"\n.nh\n", name, moire_version());
    if (verb)
        put_verb(to, verb);
    else
        put_command_page(to);
}
