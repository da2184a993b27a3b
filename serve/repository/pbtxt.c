/* SPDX-License-Identifier: Apache-2.0
 * pbtxt.c - protocol buffers' text format to JSON; see pbtxt.h. */
#include "serve/repository/pbtxt.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "serve/protocol/bytes.h"
#include "serve/protocol/fault.h"

struct reader {
    const char *at, *end;
    int line, depth;
    moire_error *err;
};

static const char *const repeated[] = {"input",        "output",      "dims",
                                       "shape",        "step",        "instance_group",
                                       "model_warmup", "versions",    "preferred_batch_size",
                                       "gpus",         "profile",     "resources",
                                       "batch_input",  "batch_output"};
static const char *const maps[] = {
    "parameters",  "input_map",         "output_map", "inputs", "priority_queue_policy",
    "metric_tags", "cc_model_filenames"};

static bool among(const char *const *names, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

static int fault(struct reader *r, const char *what) {
    return ms_fail(r->err, MOIRE_EFORMAT, "line %d: %s", r->line, what);
}

static void skip(struct reader *r) {
    while (r->at < r->end) {
        if (*r->at == '#') {
            while (r->at < r->end && *r->at != '\n')
                r->at++;
        } else if (isspace((unsigned char)*r->at)) {
            r->line += *r->at++ == '\n';
        } else {
            return;
        }
    }
}

static bool take(struct reader *r, char c) {
    skip(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static bool word_char(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '+' || c == '-';
}

static int read_word(struct reader *r, char *word, size_t room) {
    size_t n = 0;
    skip(r);
    while (r->at < r->end && word_char(*r->at)) {
        if (n + 1 >= room) return fault(r, "a word is too long");
        word[n++] = *r->at++;
    }
    word[n] = 0;
    return n ? MOIRE_OK
             : fault(r, r->at < r->end ? "a name or a value is missing" : "the file ends too early");
}

/* What stands behind a backslash. */
static int read_escape(struct reader *r, struct ms_bytes *to) {
    static const char from[] = "ntr\"'\\", is[] = "\n\t\r\"'\\";
    const char *known = r->at < r->end && *r->at ? strchr(from, *r->at) : NULL;
    if (!known) return fault(r, "an escape that is not known (\\n, \\t, \\r, \\\", \\', \\\\ are)");
    ms_bytes_put(to, &is[known - from], 1);
    r->at++;
    return MOIRE_OK;
}

static int read_quoted(struct reader *r, struct ms_bytes *to) {
    const char quote = *r->at++;
    while (r->at < r->end && *r->at != quote && *r->at != '\n') {
        int rc = MOIRE_OK;
        if (*r->at == '\\') {
            r->at++;
            rc = read_escape(r, to);
        } else {
            ms_bytes_put(to, r->at++, 1);
        }
        if (rc) return rc;
    }
    if (r->at == r->end || *r->at != quote) return fault(r, "a string does not end");
    r->at++;
    return MOIRE_OK;
}

static bool at_quote(struct reader *r) {
    skip(r);
    return r->at < r->end && (*r->at == '"' || *r->at == '\'');
}

static int read_string(struct reader *r, json_t **out) {
    struct ms_bytes text = {0};
    int rc = MOIRE_OK;
    while (!rc && at_quote(r)) /* strings side by side are one */
        rc = read_quoted(r, &text);
    if (!rc && text.failed) rc = ms_fail(r->err, MOIRE_ENOMEM, "out of memory");
    if (!rc) {
        *out = json_stringn(text.at ? text.at : "", text.n);
        if (!*out) rc = fault(r, "a string is not UTF-8");
    }
    ms_bytes_free(&text);
    return rc;
}

static int read_scalar(struct reader *r, json_t **out) {
    char word[256], *end;
    int rc = read_word(r, word, sizeof word);
    if (rc) return rc;
    errno = 0;
    const long long whole = strtoll(word, &end, 0);
    if (!*end && !errno) {
        *out = json_integer(whole);
    } else if (!strcmp(word, "true") || !strcmp(word, "false")) {
        *out = json_boolean(word[0] == 't');
    } else if (isdigit((unsigned char)word[0]) || word[0] == '-' || word[0] == '.') {
        const double real = strtod(word, &end);
        if (*end || !isfinite(real)) return fault(r, "a number is malformed or out of range");
        *out = json_real(real);
    } else {
        *out = json_string(word); /* a name of an enum */
    }
    return *out ? MOIRE_OK : ms_fail(r->err, MOIRE_ENOMEM, "out of memory");
}

static int read_fields(struct reader *r, json_t *object, char closing);

static int read_value(struct reader *r, json_t **out) {
    *out = NULL;
    if (at_quote(r)) return read_string(r, out);
    if (!take(r, '{')) return read_scalar(r, out);
    if (++r->depth > MS_PBTXT_DEPTH)
        return ms_fail(r->err, MOIRE_ELIMIT, "line %d: nested deeper than %d", r->line, MS_PBTXT_DEPTH);
    *out = json_object();
    const int rc = read_fields(r, *out, '}');
    r->depth--;
    return rc;
}

/* Gives `value` to the field; it is the object's from now on. */
static int put(struct reader *r, json_t *object, const char *name, json_t *value) {
    if (among(maps, sizeof maps / sizeof *maps, name) && json_is_object(value)) {
        const json_t *named = json_object_get(value, "key");
        char number[24];
        const char *key = json_is_integer(named) ? number : json_string_value(named);
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(named));
        json_t *of_key = json_object_get(value, "value"), *map = json_object_get(object, name);
        if (!map) {
            map = json_object();
            json_object_set_new(object, name, map);
        }
        const bool fits = key && of_key && json_is_object(map) && !json_object_get(map, key);
        if (fits) json_object_set(map, key, of_key);
        json_decref(value);
        return fits ? MOIRE_OK : fault(r, "an entry of a map needs one key of its own and a value");
    }
    json_t *there = json_object_get(object, name);
    if (!among(repeated, sizeof repeated / sizeof *repeated, name)) {
        if (there) {
            json_decref(value);
            return ms_fail(r->err, MOIRE_EFORMAT, "line %d: the field '%.60s' stands twice", r->line, name);
        }
        return json_object_set_new(object, name, value) ? ms_fail(r->err, MOIRE_ENOMEM, "out of memory")
                                                        : MOIRE_OK;
    }
    if (!there) {
        there = json_array();
        json_object_set_new(object, name, there);
    }
    return json_array_append_new(there, value) ? ms_fail(r->err, MOIRE_ENOMEM, "out of memory") : MOIRE_OK;
}

static int read_one(struct reader *r, json_t *object, const char *name) {
    json_t *value;
    const int rc = read_value(r, &value);
    if (!rc) return put(r, object, name, value);
    json_decref(value);
    return rc;
}

static int read_list(struct reader *r, json_t *object, const char *name) {
    if (!json_object_get(object, name) && among(repeated, sizeof repeated / sizeof *repeated, name))
        json_object_set_new(object, name, json_array());
    if (take(r, ']')) return MOIRE_OK;
    do {
        const int rc = read_one(r, object, name);
        if (rc) return rc;
    } while (take(r, ','));
    return take(r, ']') ? MOIRE_OK : fault(r, "a list lacks its ']'");
}

/* `closing`: the brace that ends the fields; 0: the file's end does. */
static int read_fields(struct reader *r, json_t *object, char closing) {
    for (;;) {
        char name[128];
        skip(r);
        if (closing ? take(r, closing) : r->at == r->end) return MOIRE_OK;
        int rc = read_word(r, name, sizeof name);
        if (rc) return rc;
        const bool colon = take(r, ':');
        skip(r);
        if (!colon && (r->at == r->end || (*r->at != '{' && *r->at != '[')))
            return ms_fail(r->err, MOIRE_EFORMAT, "line %d: ':' or '{' is missing behind '%.60s'", r->line,
                           name);
        rc = take(r, '[') ? read_list(r, object, name) : read_one(r, object, name);
        if (rc) return rc;
        if (!take(r, ',')) take(r, ';');
    }
}

int ms_pbtxt_parse(const char *text, size_t n, json_t **out, moire_error *err) {
    struct reader r = {.at = text, .end = text + n, .line = 1, .err = err};
    *out = NULL;
    if (n > MS_PBTXT_BYTES)
        return ms_fail(err, MOIRE_ELIMIT, "the file has more than %d bytes", MS_PBTXT_BYTES);
    json_t *object = json_object();
    if (!object) return ms_fail(err, MOIRE_ENOMEM, "out of memory");
    const int rc = read_fields(&r, object, 0);
    if (rc)
        json_decref(object);
    else
        *out = object;
    return rc;
}
