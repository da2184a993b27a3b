/* SPDX-License-Identifier: Apache-2.0
 * flags.c - command lines read by the table of flags; see flags.h.
 *
 * A value that a flag has when it is not given is read like one that was given, before all others.  Words are
 * copied before lists in them are cut up, so that argv still says what was typed. */
#define _GNU_SOURCE
#include "tools/moire/command_line/flags.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/error.h"
#include "runtime/base/nearest.h"
#include "runtime/base/output.h"

/* --- texts ---------------------------------------------------------------------------------------------- */
bool mo_text_number(const char *text, double least, double most, double *out) {
    char *end = NULL;
    double v = text ? strtod(text, &end) : 0;
    if (!text || end == text || *end || !(v >= least && v <= most)) return false;
    *out = v;
    return true;
}

bool mo_text_whole(const char *text, int64_t least, int64_t most, int64_t *out) {
    char *end = NULL;
    errno = 0;
    long long v = text ? strtoll(text, &end, 10) : 0;
    if (!text || end == text || *end || errno || v < least || v > most) return false;
    *out = v;
    return true;
}

bool mo_text_shape(char *text, moire_shape *out) {
    char *at = text ? strrchr(text, '=') : NULL;
    if (!at || at == text) return false;
    *at++ = 0;
    out->input = text;
    for (out->rank = 0; out->rank < MOIRE_MAX_RANK;) {
        char *end;
        errno = 0;
        long long d = strtoll(at, &end, 10);
        if (end == at || d < 1 || errno) return false;
        out->shape[out->rank++] = d;
        if (!*end) return true;
        if (*end != ',') return false;
        at = end + 1;
    }
    return false;
}

int mo_flag_bad(moire_error *err, const char *flag, const char *value, const char *wanted) {
    return mo_fail(err, MOIRE_EINVAL, "%s%s%s: %s", flag, value ? " " : "", value ? value : "", wanted);
}

static bool is_choice(const char *choices, const char *word) {
    size_t n = strlen(word);
    for (const char *at = choices; at && (at = strstr(at, word)); at += n)
        if (n && (at == choices || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
    return !choices;
}

/* --- values --------------------------------------------------------------------------------------------- */
static bool is_whole(enum mo_flag_kind kind) {
    return kind == MO_FLAG_INT || kind == MO_FLAG_INT64 || kind == MO_FLAG_WHOLES;
}

static int bad_number(const struct mo_flag *f, const char *text, moire_error *err) {
    char wanted[120];
    const char *what = is_whole(f->kind) ? "must be a whole number" : "must be a number";
    if (f->most >= MO_FLAG_UNBOUNDED)
        snprintf(wanted, sizeof wanted, "%s from %.15g on", what, f->least);
    else
        snprintf(wanted, sizeof wanted, "%s from %.15g to %.15g", what, f->least, f->most);
    return mo_flag_bad(err, f->name, text, wanted);
}

static bool read_whole(const struct mo_flag *f, const char *text, int64_t *out) {
    int64_t most = f->most >= MO_FLAG_UNBOUNDED ? INT64_MAX : (int64_t)f->most;
    return mo_text_whole(text, (int64_t)f->least, most, out);
}

/* One number, into field i of a list or into the field. */
static int put_number(const struct mo_flag *f, const char *text, void *to, int i, moire_error *err) {
    double real = 0;
    int64_t whole = 0;
    if (!(is_whole(f->kind) ? read_whole(f, text, &whole) : mo_text_number(text, f->least, f->most, &real)))
        return bad_number(f, text, err);
    if (f->kind == MO_FLAG_INT)
        *(int *)to = (int)whole;
    else if (is_whole(f->kind))
        ((int64_t *)to)[i] = whole;
    else
        ((double *)to)[i] = real;
    return MOIRE_OK;
}

static int put_word(const struct mo_flag *f, const char *text, const char **to, moire_error *err) {
    char wanted[200];
    *to = text;
    if (is_choice(f->choices, text)) return MOIRE_OK;
    snprintf(wanted, sizeof wanted, "must be one of %s", f->choices);
    return mo_flag_bad(err, f->name, text, wanted);
}

/* One entry of a list, at its end. */
static int append(const struct mo_flag *f, const char *text, void *to, moire_error *err) {
    const int room = f->room ? f->room : MO_OPTION_ROOM;
    struct mo_words *words = to;
    struct mo_wholes *wholes = to;
    struct mo_numbers *numbers = to;
    int *n = f->kind == MO_FLAG_WORDS ? &words->n : f->kind == MO_FLAG_WHOLES ? &wholes->n : &numbers->n;
    if (*n == room) return mo_flag_bad(err, f->name, NULL, "has more values than there is room for");
    int at = (*n)++;
    if (f->kind == MO_FLAG_WORDS) return put_word(f, text, &words->word[at], err);
    return put_number(f, text, f->kind == MO_FLAG_WHOLES ? (void *)wholes->value : numbers->value, at, err);
}

/* What stands between commas, in place of what the field held; or one more entry. */
static int put_list(const struct mo_flag *f, char *text, void *to, size_t size, moire_error *err) {
    if (f->repeats) return append(f, text, to, err);
    char *save = NULL, *part = strtok_r(text, ",", &save);
    int code = MOIRE_OK;
    if (!part) return mo_flag_bad(err, f->name, NULL, "needs values with commas between");
    memset(to, 0, size);
    for (; !code && part; part = strtok_r(NULL, ",", &save))
        code = append(f, part, to, err);
    return code;
}

static int put_shape(const struct mo_flag *f, char *text, struct mo_shapes *to, moire_error *err) {
    if (to->n == (f->room ? f->room : MO_OPTION_ROOM))
        return mo_flag_bad(err, f->name, text, "one shape more than there is room for");
    if (!mo_text_shape(text, &to->shape[to->n]))
        return mo_flag_bad(err, f->name, text, "must look like NAME=1,3,224,224");
    to->n++;
    return MOIRE_OK;
}

static int put(const struct mo_flag *f, char *text, struct mo_options *o, moire_error *err) {
    void *to = (char *)o + f->to;
    switch (f->kind) {
    case MO_FLAG_SWITCH:
        *(bool *)to = true;
        return MOIRE_OK;
    case MO_FLAG_INT:
    case MO_FLAG_INT64:
    case MO_FLAG_REAL:
        return put_number(f, text, to, 0, err);
    case MO_FLAG_TEXT:
        return put_word(f, text, to, err);
    case MO_FLAG_SHAPES:
        return put_shape(f, text, to, err);
    case MO_FLAG_WORDS:
        return put_list(f, text, to, sizeof(struct mo_words), err);
    case MO_FLAG_WHOLES:
        return put_list(f, text, to, sizeof(struct mo_wholes), err);
    case MO_FLAG_NUMBERS:
        return put_list(f, text, to, sizeof(struct mo_numbers), err);
    }
    return MOIRE_EINTERNAL;
}

/* --- the line ------------------------------------------------------------------------------------------- */
/* A line as it is read. */
struct line {
    const struct mo_verb *verb;
    const struct mo_verb_command *command;
    struct mo_options *options;
    char *free;                /* of options->text */
    int at, named_at;          /* the word that is read; the one that names the command, 0: none */
    bool given[MO_FLAGS_MOST]; /* by index */
};

static bool is_on(const struct mo_flag *f, enum mo_command command) {
    return f->on >> command & 1;
}

static bool has_name(const struct mo_flag *f, const char *name, size_t n) {
    return (strlen(f->name) == n && !strncmp(f->name, name, n)) ||
           (f->other && strlen(f->other) == n && !strncmp(f->other, name, n));
}

const struct mo_flag *mo_flag_find(enum mo_command command, const char *name, size_t length) {
    const int n = mo_n_flags();
    for (int i = 0; i < n; i++)
        if (is_on(mo_flag_at(i), command) && has_name(mo_flag_at(i), name, length)) return mo_flag_at(i);
    return NULL;
}

static char *copy(struct line *l, const char *text) {
    size_t n = strlen(text) + 1;
    char *to = memcpy(l->free, text, n);
    l->free += n;
    return to;
}

/* A command that takes the flag: of this verb if there is one; NULL: none of any verb does. */
static const struct mo_verb_command *taker_of(const struct line *l, const char *word, size_t length,
                                              const struct mo_verb **verb) {
    for (int v = -1; v < 0 || mo_verbs[v]; v++) {
        *verb = v < 0 ? l->verb : mo_verbs[v];
        for (const struct mo_verb_command *c = (*verb)->commands; c->command; c++)
            if (!c->hidden && mo_flag_find(c->command, word, length)) return c;
    }
    return NULL;
}

/* What comes nearest among the flags of the command, else who takes it. */
static int unknown_flag(const struct line *l, const char *word, size_t length, moire_error *err) {
    const int n = mo_n_flags();
    const struct mo_verb *verb;
    char name[64], hint[100];
    snprintf(name, sizeof name, "%.*s", (int)length, word);
    struct mo_nearest nearest = {.word = name};
    for (int i = 0; i < n; i++)
        if (is_on(mo_flag_at(i), l->options->command)) mo_nearest_offer(&nearest, mo_flag_at(i)->name);
    const struct mo_verb_command *taker = taker_of(l, word, length, &verb);
    mo_nearest_text(&nearest, hint, sizeof hint);
    if (!nearest.name && taker)
        snprintf(hint, sizeof hint, "; `moire %s%s%s` has", verb->name, taker->name ? " " : "",
                 taker->name ? taker->name : "");
    else if (!nearest.name)
        snprintf(hint, sizeof hint, "; `moire help %s` lists them", l->verb->name);
    return mo_fail(err, MOIRE_EINVAL, "no flag '%s' of `moire %s%s%s`%s", name, l->verb->name,
                   l->command->name ? " " : "", l->command->name ? l->command->name : "", hint);
}

static int take_flag(struct line *l, moire_error *err) {
    struct mo_options *o = l->options;
    const char *word = o->argv[l->at++];
    size_t length = strcspn(word, "=");
    const struct mo_flag *f = mo_flag_find(o->command, word, length);
    if (!f) return unknown_flag(l, word, length, err);
    for (int i = 0; i < mo_n_flags(); i++)
        l->given[i] |= mo_flag_at(i) == f;
    const char *value = word[length] ? word + length + 1 : NULL;
    if (!f->value) return value ? mo_flag_bad(err, f->name, value, "takes no value") : put(f, NULL, o, err);
    if (!value && l->at < o->argc) value = o->argv[l->at++];
    return value ? put(f, copy(l, value), o, err) : mo_flag_bad(err, f->name, NULL, "needs a value");
}

void mo_operands_count(const struct mo_verb_command *command, int *least, int *most) {
    *least = *most = 0;
    for (const char *at = command->operands; at && *at; at += strcspn(at, " "), at += strspn(at, " ")) {
        if (!strncmp(at, "...", 3)) {
            *most = MO_OPTION_ROOM;
            continue;
        }
        ++*most;
        *least += *at != '[';
    }
}

static int take_operand(struct line *l, moire_error *err) {
    const struct mo_verb_command *c = l->command;
    struct mo_options *o = l->options;
    const char *word = o->argv[l->at++];
    int least, most;
    mo_operands_count(c, &least, &most);
    if (!c->operands) return mo_fail(err, MOIRE_EINVAL, "'%s': takes flags only", word);
    if (o->operands.n == most)
        return mo_fail(err, MOIRE_EINVAL, "'%s' is one too many: takes %s", word, c->operands);
    o->operands.word[o->operands.n++] = copy(l, word);
    return MOIRE_OK;
}

/* What stands where nothing is given; then all words; then what is missing. */
static int read_line(struct line *l, moire_error *err) {
    struct mo_options *o = l->options;
    int least, most, code = MOIRE_OK;
    const int n = mo_n_flags();
    for (int i = 0; i < n && !code; i++)
        if (mo_flag_at(i)->initial && is_on(mo_flag_at(i), o->command))
            code = put(mo_flag_at(i), copy(l, mo_flag_at(i)->initial), o, err);
    while (!code && l->at < o->argc) {
        /* a lone "-" is no file of ours either */
        if (l->at == l->named_at && ++l->at == o->argc) break;
        code = o->argv[l->at][0] == '-' ? take_flag(l, err) : take_operand(l, err);
    }
    if (code) return code;
    mo_operands_count(l->command, &least, &most);
    if (o->operands.n < least)
        return mo_fail(err, MOIRE_EINVAL, "needs %s; see moire help %s", l->command->operands, l->verb->name);
    for (int i = 0; i < n; i++)
        if (mo_flag_at(i)->needed >> o->command & 1 && !l->given[i])
            return mo_fail(err, MOIRE_EINVAL, "needs %s %s; see moire help %s", mo_flag_at(i)->name,
                           mo_flag_at(i)->value, l->verb->name);
    return MOIRE_OK;
}

const struct mo_verb_command *mo_verb_command_find(const struct mo_verb *verb, const char *name) {
    const struct mo_verb_command *c = verb->commands;
    while (name && c->name && strcmp(c->name, name) != 0)
        c++;
    return name && c->name ? c : NULL;
}

int mo_verb_word(const struct mo_verb *verb, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const struct mo_flag *f = NULL;
        size_t length = strcspn(argv[i], "=");
        if (argv[i][0] != '-') return i;
        for (const struct mo_verb_command *c = verb->commands; c->command && !f; c++)
            f = mo_flag_find(c->command, argv[i], length);
        if (f && f->value && !argv[i][length]) i++;
    }
    return 0;
}

static int find_command(struct line *l, int argc, char **argv, moire_error *err) {
    const struct mo_verb_command *c = l->verb->commands;
    char names[200] = "", hint[100];
    size_t used = 0;
    l->command = c;
    if (!c->name) return MOIRE_OK;
    l->named_at = mo_verb_word(l->verb, argc, argv);
    struct mo_nearest nearest = {.word = l->named_at ? argv[l->named_at] : ""};
    if (!l->named_at && l->verb->first_is_default) return MOIRE_OK;
    for (; c->name; c++) {
        l->command = c;
        if (l->named_at && !strcmp(argv[l->named_at], c->name)) return MOIRE_OK;
        const char *between = !used ? "" : c[1].name && !c[1].hidden ? ", " : " or ";
        if (!c->hidden) used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", between, c->name);
        if (!c->hidden) mo_nearest_offer(&nearest, c->name);
    }
    if (!l->named_at) return mo_fail(err, MOIRE_EINVAL, "needs %s; see moire help %s", names, l->verb->name);
    mo_nearest_text(&nearest, hint, sizeof hint);
    return mo_fail(err, MOIRE_EINVAL, "no command '%.60s' of `moire %s`%s%s %s", argv[l->named_at],
                   l->verb->name, hint, *hint ? "  There are:" : "; there are:", names);
}

int mo_options_open(const struct mo_env *env, const struct mo_verb *verb, int argc, char **argv,
                    struct mo_options *out, moire_error *err) {
    struct line l = {.verb = verb, .options = out, .at = 1};
    size_t bytes = 1;
    const int n = mo_n_flags();
    *out = (struct mo_options){.argc = argc, .argv = argv};
    int code = find_command(&l, argc, argv, err);
    if (code) return code;
    out->command = l.command->command;
    for (int i = 0; i < argc; i++)
        bytes += strlen(argv[i]) + 1;
    for (int i = 0; i < n; i++)
        bytes += mo_flag_at(i)->initial ? strlen(mo_flag_at(i)->initial) + 1 : 0;
    l.free = out->text = mo_alloc(env, bytes);
    return out->text ? read_line(&l, err) : mo_fail(err, MOIRE_ENOMEM, "out of memory");
}

void mo_options_close(const struct mo_env *env, struct mo_options *o) {
    mo_free(env, o->text);
    o->text = NULL;
}

/* --- outputs -------------------------------------------------------------------------------------------- */
/* A folder that is missing is made by the verbs that can, in the one above. */
static int check_folder(const struct mo_env *env, const char *folder, moire_error *err) {
    char inside[MO_OUTPUT_PATH];
    if (snprintf(inside, sizeof inside, "%s/.", folder) >= (int)sizeof inside)
        return mo_fail(err, MOIRE_EINVAL, "%.80s...: path too long", folder);
    int rc = env->sys->may_write(env->sys->self, inside, true);
    if (rc == -ENOENT) return mo_output_check(env, folder, err);
    return rc ? mo_fail(err, MOIRE_EIO, "cannot write into the folder '%.300s': %s", folder, strerror(-rc))
              : MOIRE_OK;
}

int mo_options_check_outputs(const struct mo_env *env, const struct mo_options *o, moire_error *err) {
    int code = MOIRE_OK;
    const int n = mo_n_flags();
    for (int i = 0; i < n && !code; i++) {
        if (!is_on(mo_flag_at(i), o->command) || mo_flag_at(i)->names == MO_NAMES_NOTHING) continue;
        const char *path = *(const char *const *)((const char *)o + mo_flag_at(i)->to);
        if (path && mo_flag_at(i)->names == MO_NAMES_OUTPUT) code = mo_output_check(env, path, err);
        if (path && mo_flag_at(i)->names == MO_NAMES_OUTPUT_FOLDER) code = check_folder(env, path, err);
    }
    return code;
}
