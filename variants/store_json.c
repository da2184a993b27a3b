/* SPDX-License-Identifier: Apache-2.0
 * store_json.c - names and JSON files of the variant store, read with nothing taken on trust: envelope and
 * digest first, then types, lengths, ranges and character set of every field that is used. */
#include "variants/store_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void mo_store_key(const struct mo_store_entry *e, char hex[MO_SHA256_HEX]) {
    char text[2048];
    int n = snprintf(text, sizeof text,
                     "moire variant %d\nabi %d\ngenerator %d\nsignature %s\nisa %s\nfamily %s\nknobs %s\n"
                     "compiler %s\nflags %s\n",
                     MO_STORE_FORMAT, e->abi, e->generator, e->signature, mo_isa_name(e->isa), e->family,
                     e->knobs, e->compiler, e->flags);
    mo_sha256_hex(text, (size_t)n, hex);
}

void mo_store_layer(const char *signature, enum mo_isa isa, char hex[MO_SHA256_HEX]) {
    char text[MO_STORE_TEXT + 64];
    int n = snprintf(text, sizeof text, "moire layer %d\n%s\n%.255s\n", MO_STORE_FORMAT, mo_isa_name(isa),
                     signature);
    mo_sha256_hex(text, (size_t)n, hex);
}

/* {"sha256":"<64 digits>",\n"body":...}\n */
static const char open_text[] = "{\"sha256\":\"", middle_text[] = "\",\n\"body\":", close_text[] = "}\n";
enum {
    OPEN = sizeof open_text - 1,
    MIDDLE = sizeof middle_text - 1,
    CLOSE = sizeof close_text - 1,
    HEAD = OPEN + 64 + MIDDLE
};

json_t *mo_store_open_envelope(const char *bytes, size_t n, moire_error *err) {
    if (n <= HEAD + CLOSE || memcmp(bytes, open_text, OPEN) ||
        memcmp(bytes + OPEN + 64, middle_text, MIDDLE) || memcmp(bytes + n - CLOSE, close_text, CLOSE)) {
        mo_fail(err, MOIRE_ESTORE, "not a description written by moire");
        return NULL;
    }
    char hex[MO_SHA256_HEX];
    mo_sha256_hex(bytes + HEAD, n - HEAD - CLOSE, hex);
    if (memcmp(hex, bytes + OPEN, 64)) {
        mo_fail(err, MOIRE_ESTORE, "checksum of the description does not match");
        return NULL;
    }
    json_error_t why;
    json_t *body = json_loadb(bytes + HEAD, n - HEAD - CLOSE, JSON_REJECT_DUPLICATES, &why);
    if (!body) mo_fail(err, MOIRE_ESTORE, "malformed JSON at byte %d: %s", why.position, why.text);
    if (body && !json_is_object(body)) {
        json_decref(body);
        mo_fail(err, MOIRE_ESTORE, "the description is not an object");
        return NULL;
    }
    if (body && json_integer_value(json_object_get(body, "format")) != MO_STORE_FORMAT) {
        json_decref(body);
        mo_fail(err, MOIRE_ESTORE, "unknown format of the description");
        return NULL;
    }
    return body;
}

static bool take_text(const json_t *v, char *to, size_t cap) {
    const char *s = json_string_value(v);
    size_t n = json_string_length(v);
    if (!s || n >= cap) return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < 32 || (unsigned char)s[i] > 126) return false;
    memcpy(to, s, n + 1);
    return true;
}

static bool take_digest(const json_t *v, char *to) {
    return take_text(v, to, MO_SHA256_HEX) &&
           (!*to || (strlen(to) == 64 && strspn(to, "0123456789abcdef") == 64));
}

static bool take_isa(const json_t *v, enum mo_isa *to) {
    const char *s = json_string_value(v);
    for (int i = 0; s && i < MO_ISA_COUNT; i++) {
        if (strcmp(s, mo_isa_name((enum mo_isa)i))) continue;
        *to = (enum mo_isa)i;
        return true;
    }
    return false;
}

static bool take(const json_t *v, const struct mo_store_field *f) {
    struct mo_store_field now = *f;
    switch (f->type) {
    case MO_FIELD_TEXT:
        return take_text(v, f->to, f->cap);
    case MO_FIELD_DIGEST:
        return take_digest(v, f->to);
    case MO_FIELD_ISA:
        return take_isa(v, f->to);
    case MO_FIELD_COUNT:
        *(int64_t *)f->to = json_integer_value(v);
        return json_is_integer(v) && *(int64_t *)f->to >= 0;
    case MO_FIELD_NUMBER:
        *(double *)f->to = json_number_value(v);
        return json_is_number(v) && isfinite(*(double *)f->to) && *(double *)f->to >= 0;
    case MO_FIELD_LATER_COUNT:
        now.type = MO_FIELD_COUNT;
        return !v || take(v, &now);
    case MO_FIELD_LATER_NUMBER:
        now.type = MO_FIELD_NUMBER;
        return !v || take(v, &now);
    case MO_FIELD_LATER_TEXT:
        now.type = MO_FIELD_TEXT;
        return !v || take(v, &now);
    }
    return false;
}

int mo_store_take_fields(const json_t *body, const struct mo_store_field *fields, moire_error *err) {
    for (const struct mo_store_field *f = fields; f->name; f++)
        if (!take(json_object_get(body, f->name), f))
            return mo_fail(err, MOIRE_ESTORE, "field '%s' is missing or malformed", f->name);
    return MOIRE_OK;
}

/* Parses an envelope into the fields. */
static int parse(const char *bytes, size_t n, const struct mo_store_field *fields, moire_error *err) {
    json_t *body = mo_store_open_envelope(bytes, n, err);
    if (!body) return MOIRE_ESTORE;
    int rc = mo_store_take_fields(body, fields, err);
    json_decref(body);
    return rc;
}

static int narrow(int64_t value) {
    return value < INT32_MAX ? (int)value : INT32_MAX;
}

int mo_store_parse_entry(const char *bytes, size_t n, struct mo_store_entry *e, moire_error *err) {
    *e = (struct mo_store_entry){0};
    int64_t abi = 0, generator = 0;
    const struct mo_store_field fields[] = {
        {"abi", MO_FIELD_COUNT, &abi, 0},
        {"generator", MO_FIELD_COUNT, &generator, 0},
        {"isa", MO_FIELD_ISA, &e->isa, 0},
        {"signature", MO_FIELD_TEXT, e->signature, sizeof e->signature},
        {"family", MO_FIELD_TEXT, e->family, sizeof e->family},
        {"knobs", MO_FIELD_TEXT, e->knobs, sizeof e->knobs},
        {"compiler", MO_FIELD_TEXT, e->compiler, sizeof e->compiler},
        {"flags", MO_FIELD_TEXT, e->flags, sizeof e->flags},
        {"object_sha256", MO_FIELD_DIGEST, e->object, 0},
        {"object_bytes", MO_FIELD_COUNT, &e->object_bytes, 0},
        {"source_bytes", MO_FIELD_COUNT, &e->source_bytes, 0},
        {"min_ns", MO_FIELD_NUMBER, &e->min_ns, 0},
        {"generic_ns", MO_FIELD_NUMBER, &e->generic_ns, 0},
        {"gflops", MO_FIELD_NUMBER, &e->gflops, 0},
        {NULL, MO_FIELD_TEXT, NULL, 0},
    };
    int rc = parse(bytes, n, fields, err);
    e->abi = narrow(abi);
    e->generator = narrow(generator);
    if (!rc && !*e->object) rc = mo_fail(err, MOIRE_ESTORE, "field 'object_sha256' is empty");
    return rc;
}

int mo_store_parse_stamp(const char *bytes, size_t n, struct mo_store_stamp *s, moire_error *err) {
    *s = (struct mo_store_stamp){0};
    int64_t abi = 0, generator = 0, verified = 0, unverified = 0;
    const struct mo_store_field fields[] = {
        {"abi", MO_FIELD_COUNT, &abi, 0},
        {"generator", MO_FIELD_COUNT, &generator, 0},
        {"model", MO_FIELD_DIGEST, s->model, 0},
        {"outside", MO_FIELD_DIGEST, s->outside, 0},
        {"path", MO_FIELD_TEXT, s->path, sizeof s->path},
        {"verified", MO_FIELD_LATER_COUNT, &verified, 0},
        {"unverified", MO_FIELD_LATER_COUNT, &unverified, 0},
        {"error", MO_FIELD_LATER_NUMBER, &s->error, 0},
        {"error_layer", MO_FIELD_LATER_TEXT, s->error_layer, sizeof s->error_layer},
        {NULL, MO_FIELD_TEXT, NULL, 0},
    };
    int rc = parse(bytes, n, fields, err);
    s->abi = narrow(abi);
    s->generator = narrow(generator);
    s->verified = narrow(verified);
    s->unverified = narrow(unverified);
    if (!rc && !*s->model) rc = mo_fail(err, MOIRE_ESTORE, "field 'model' is empty");
    return rc;
}

int mo_store_parse_index(const char *bytes, size_t n, struct mo_store_index *x, moire_error *err) {
    *x = (struct mo_store_index){0};
    int64_t abi = 0, generator = 0, tried = 0, cores = MO_STORE_CORES;
    const struct mo_store_field fields[] = {
        {"abi", MO_FIELD_COUNT, &abi, 0},
        {"generator", MO_FIELD_COUNT, &generator, 0},
        {"isa", MO_FIELD_ISA, &x->isa, 0},
        {"signature", MO_FIELD_TEXT, x->signature, sizeof x->signature},
        {"best", MO_FIELD_DIGEST, x->best, 0},
        {"family", MO_FIELD_TEXT, x->family, sizeof x->family},
        {"knobs", MO_FIELD_TEXT, x->knobs, sizeof x->knobs},
        {"tried", MO_FIELD_COUNT, &tried, 0},
        {"cores", MO_FIELD_LATER_COUNT, &cores, 0},
        {"source_bytes", MO_FIELD_COUNT, &x->source_bytes, 0},
        {"flops", MO_FIELD_COUNT, &x->flops, 0},
        {"min_ns", MO_FIELD_NUMBER, &x->min_ns, 0},
        {"generic_ns", MO_FIELD_NUMBER, &x->generic_ns, 0},
        {"withdrawn", MO_FIELD_LATER_TEXT, x->withdrawn, sizeof x->withdrawn},
        {NULL, MO_FIELD_TEXT, NULL, 0},
    };
    int rc = parse(bytes, n, fields, err);
    x->abi = narrow(abi);
    x->generator = narrow(generator);
    x->tried = narrow(tried);
    x->cores = narrow(cores);
    return rc;
}
