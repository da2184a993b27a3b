/* SPDX-License-Identifier: Apache-2.0
 * complete.c - `moire help --complete`: what can stand next on a command line; see help.h.
 *
 * Everything is asked of the tables that the command itself works with.  What a value or an operand names
 * follows from the field of the flag and from the words of the help ("SCENARIO", "FILE.onnx|NAME", "DIR"), so
 * a flag or verb that is new and speaks as the others do completes by itself. */
#include <string.h>
#include "tools/moire/command_line/flags.h"
#include "tools/moire/command_line/help.h"
#include "tools/moire/command_line/known.h"

/* The word that is being completed. */
struct spot {
    FILE *to;
    const char *word;
    size_t typed; /* letters of the value before the one at hand: "moire," of "moire,fc" */
};

static void offer(void *ctx, const char *name) {
    const struct spot *s = ctx;
    const char *rest = s->word + s->typed;
    if (!strncmp(name, rest, strlen(rest))) fprintf(s->to, "%.*s%s\n", (int)s->typed, s->word, name);
}

/* --- values --------------------------------------------------------------------------------------------- */
/* Names by the field that a flag sets, and where one field is several things by the help's word for the
 * value. */
static const struct {
    const char *field, *value; /* value NULL: any */
    enum mo_known names;
} fields[] = {{"machine", NULL, MO_KNOWN_MACHINES}, {"machines", NULL, MO_KNOWN_MACHINES},
              {"from", NULL, MO_KNOWN_MACHINES},    {"to", NULL, MO_KNOWN_MACHINES},
              {"gpus", NULL, MO_KNOWN_MACHINES},    {"against", "MACHINE", MO_KNOWN_MACHINES},
              {"against", "P", MO_KNOWN_POLICIES},  {"policies", NULL, MO_KNOWN_POLICIES},
              {"planner", NULL, MO_KNOWN_PLANNERS}, {"planners", NULL, MO_KNOWN_PLANNERS},
              {"pressure", NULL, MO_KNOWN_SOURCES}, {"source", NULL, MO_KNOWN_SOURCES},
              {"peers", NULL, MO_KNOWN_PEERS},      {"ties", NULL, MO_KNOWN_MODELS}};

/* Files or folders, where the help's word for a value speaks of them: "DIR", "FILE", "FILE.json", "TRACE". */
static void offer_paths(const struct spot *s, const char *what) {
    static const char *const files[] = {"FILE", "PATH", "TRACE", "CSV", ".csv", ".json", ".ppm"};
    bool file = !strcmp(what, "CC");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        file |= strstr(what, files[i]) != NULL;
    if (file) fprintf(s->to, ":file\n");
    if (strstr(what, "DIR")) fprintf(s->to, ":folder\n");
}

static void offer_choices(struct spot *s, const char *choices) {
    while (*choices) {
        char one[64];
        size_t n = strcspn(choices, " ");
        snprintf(one, sizeof one, "%.*s", (int)n, choices);
        offer(s, one);
        choices += n + strspn(choices + n, " ");
    }
}

static void offer_value(struct spot *s, const struct mo_flag *f) {
    const char *comma = strrchr(s->word, ',');
    if (f->kind == MO_FLAG_WORDS && !f->repeats && comma) s->typed = (size_t)(comma + 1 - s->word);
    if (f->choices) {
        offer_choices(s, f->choices);
        return;
    }
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!strcmp(fields[i].field, f->field) && (!fields[i].value || !strcmp(fields[i].value, f->value)))
            mo_known_each(fields[i].names, offer, s);
    offer_paths(s, f->value);
}

/* --- operands ------------------------------------------------------------------------------------------- */
static void offer_operand(struct spot *s, const struct mo_verb_command *c, int at) {
    const char *what = c->operands ? c->operands : "", *last = what;
    for (int i = 0; *what && i < at; i++) {
        last = what;
        what += strcspn(what, " ");
        what += strspn(what, " ");
    }
    if (*what && strncmp(what, "...", 3) != 0)
        last = what;
    else if (!strstr(what, "..."))
        return; /* one more than it takes */
    char one[64];
    snprintf(one, sizeof one, "%.*s", (int)strcspn(last, " "), last);
    if (strstr(one, "SCENARIO")) mo_known_each(MO_KNOWN_SCENARIOS, offer, s);
    if (strstr(one, "NAME") || strstr(one, "MODEL")) mo_known_each(MO_KNOWN_MODELS, offer, s);
    if (strstr(one, "|all")) offer(s, "all");
    if (strstr(one, "SCENARIO")) fprintf(s->to, ":file\n");
    offer_paths(s, one);
}

/* --- the line ------------------------------------------------------------------------------------------- */
static const struct mo_flag *flag_of(const struct mo_verb *verb, const struct mo_verb_command *c,
                                     const char *word) {
    const struct mo_flag *f = NULL;
    for (const struct mo_verb_command *k = verb->commands; k->command && !f; k++)
        if (!c || c == k) f = mo_flag_find(k->command, word, strlen(word));
    return f;
}

/* Whether the command, or without one any of the verb, takes the flag. */
static bool is_taken(const struct mo_verb *verb, const struct mo_verb_command *c, const struct mo_flag *f) {
    for (const struct mo_verb_command *k = verb->commands; k->command; k++)
        if ((!c || c == k) && !k->hidden && (f->on >> k->command & 1)) return true;
    return false;
}

static void offer_flags(struct spot *s, const struct mo_verb *verb, const struct mo_verb_command *c) {
    const int n = mo_n_flags();
    for (int i = 0; i < n; i++) {
        bool offered = !is_taken(verb, c, mo_flag_at(i));
        for (int k = 0; k < i && !offered;
             k++) /* one that means different things to commands has several rows */
            offered = !strcmp(mo_flag_at(k)->name, mo_flag_at(i)->name) && is_taken(verb, c, mo_flag_at(k));
        if (!offered) offer(s, mo_flag_at(i)->name);
    }
    offer(s, "--help");
}

static const struct mo_verb_command *command_of(const struct mo_verb *verb, int n, char **words) {
    if (!verb->commands->name) return verb->commands;
    int at = mo_verb_word(verb, n, words);
    return mo_verb_command_find(verb, at ? words[at] : NULL);
}

/* Operands before the last word. */
static int operands_before(const struct mo_verb *verb, const struct mo_verb_command *c, int n, char **words) {
    int count = 0;
    for (int i = 1; i < n - 1; i++) {
        const struct mo_flag *f = words[i][0] == '-' ? flag_of(verb, c, words[i]) : NULL;
        if (f && f->value) i += i + 1 < n && !strcmp(words[i + 1], "=") ? 2 : 1;
        count += words[i][0] != '-' && !f;
    }
    return count - (c->name != NULL);
}

static void offer_commands(struct spot *s, const struct mo_verb *verb) {
    for (const struct mo_verb_command *c = verb->commands; c->name; c++)
        if (!c->hidden) offer(s, c->name);
}

static void complete_verb(struct spot *s, const struct mo_verb *verb, int n, char **words) {
    const struct mo_verb_command *c = command_of(verb, n - 1, words);
    /* shells cut "--flag=value" at its sign */
    const char *before = n > 1 && !strcmp(words[n - 2], "=") ? words[n - 3 > 0 ? n - 3 : 0] : words[n - 2];
    if (!strcmp(s->word, "=")) s->word = "";
    const struct mo_flag *f = before[0] == '-' ? flag_of(verb, c, before) : NULL;
    if (f && f->value) {
        offer_value(s, f);
    } else if (s->word[0] == '-') {
        offer_flags(s, verb, c);
    } else if (!c) {
        offer_commands(s, verb);
    } else {
        offer_operand(s, c, operands_before(verb, c, n, words));
    }
}

void mo_complete(FILE *to, int n, char **words) {
    struct spot s = {.to = to, .word = n ? words[n - 1] : ""};
    const bool help = n > 1 && !strcmp(words[0], "help");
    const struct mo_verb *verb = n > 1 && !help ? mo_verb_find(words[0]) : NULL;
    const struct mo_verb *explained = n == 3 && help ? mo_verb_find(words[1]) : NULL;
    if (verb) complete_verb(&s, verb, n, words);
    if (explained) offer_commands(&s, explained);
    if (n > 2 || verb || (n > 1 && !help)) return;
    for (int i = 0; mo_verbs[i]; i++)
        offer(&s, mo_verbs[i]->name);
    if (help)
        for (const struct mo_topic *t = mo_topics(); t->name; t++)
            offer(&s, t->name);
    else
        offer_choices(&s, "help --help --version");
}
