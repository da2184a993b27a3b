/* SPDX-License-Identifier: Apache-2.0
 * tokens.c - the file of tokens; see tokens.h. */
#define _GNU_SOURCE
#include "serve/access/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "serve/protocol/fault.h"

/* --- a token --- */
static int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_digest(const char *hex, uint8_t digest[MS_SHA256_BYTES]) {
    if (strlen(hex) != 2 * MS_SHA256_BYTES) return false;
    for (int i = 0; i < MS_SHA256_BYTES; i++) {
        const int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        digest[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static int fault(const struct ms_token *t, const char *what, moire_error *err) {
    return ms_fail(err, MOIRE_EFORMAT, "the token '%s': %s", t->name, what);
}

static int read_secret(const json_t *from, struct ms_token *t, moire_error *err) {
    const json_t *plain = json_object_get(from, "token"), *hex = json_object_get(from, "sha256");
    if (!plain == !hex) return fault(t, "it needs either 'sha256' or 'token'", err);
    if (hex && !(json_is_string(hex) && read_digest(json_string_value(hex), t->digest)))
        return fault(t, "'sha256' is no 64 hexadecimal digits", err);
    const size_t n = json_string_length(plain);
    if (plain && (n < MS_TOKEN_LEAST || n > MS_TOKEN_MOST))
        return fault(t, "'token' is no string of 16 to 4096 bytes", err);
    if (plain) ms_sha256(json_string_value(plain), n, t->digest);
    return MOIRE_OK;
}

static int read_rights(const json_t *from, struct ms_token *t, moire_error *err) {
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)(uintptr_t)from, key, value) {
        bool *flag = !strcmp(key, "control") ? &t->control : !strcmp(key, "metrics") ? &t->metrics : NULL;
        if (flag && !json_is_boolean(value))
            return fault(t, "'control' and 'metrics' are true or false", err);
        if (flag) {
            *flag = json_is_true(value);
        } else if (!strcmp(key, "models")) {
            if (!json_is_array(value)) return fault(t, "'models' is no list", err);
            for (size_t i = 0; i < json_array_size(value); i++)
                if (!json_is_string(json_array_get(value, i)))
                    return fault(t, "'models' is a list of names and patterns", err);
            t->models = json_incref((json_t *)(uintptr_t)value);
        } else if (strcmp(key, "name") != 0 && strcmp(key, "token") != 0 && strcmp(key, "sha256") != 0) {
            return ms_fail(err, MOIRE_EFORMAT, "the token '%s': there is no field '%.60s'", t->name, key);
        }
    }
    return MOIRE_OK;
}

static int read_token(const json_t *from, struct ms_token *t, moire_error *err) {
    const char *name = json_string_value(json_object_get(from, "name"));
    if (!name || !*name || strlen(name) >= sizeof t->name)
        return ms_fail(err, MOIRE_EFORMAT, "every token has a 'name' of 1 to %d bytes", MS_TOKEN_NAME - 1);
    memcpy(t->name, name, strlen(name));
    const int rc = read_secret(from, t, err);
    return rc ? rc : read_rights(from, t, err);
}

/* --- all of them --- */
static int read_list(const json_t *list, struct ms_tokens *out, moire_error *err) {
    const size_t n = json_array_size(list);
    if (!json_is_array(list) || n > MS_TOKENS)
        return ms_fail(err, MOIRE_EFORMAT, "'tokens' is no list of %d tokens at most", MS_TOKENS);
    out->token = calloc(n ? n : 1, sizeof *out->token);
    if (!out->token) return ms_fail(err, MOIRE_ENOMEM, "no memory for the tokens");
    for (size_t i = 0; i < n; i++) {
        struct ms_token *t = &out->token[out->n++];
        const int rc = read_token(json_array_get(list, i), t, err);
        if (rc) return rc;
        const struct ms_token *same = ms_tokens_find(out, t->digest);
        if (same != t)
            return ms_fail(err, MOIRE_EFORMAT, "the tokens '%s' and '%s' are the same",
                           same ? same->name : "", t->name);
    }
    return MOIRE_OK;
}

int ms_tokens_parse(const char *text, size_t n, struct ms_tokens *out, moire_error *err) {
    json_error_t why;
    *out = (struct ms_tokens){0};
    json_t *document = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (!document) return ms_fail(err, MOIRE_EFORMAT, "it is no JSON: line %d: %.200s", why.line, why.text);
    const int rc = json_object_size(document) == 1
                       ? read_list(json_object_get(document, "tokens"), out, err)
                       : ms_fail(err, MOIRE_EFORMAT, "it has one field, 'tokens'");
    json_decref(document);
    if (rc) ms_tokens_close(out);
    return rc;
}

/* Why a file cannot hold secrets; NULL: it can. */
static const char *is_open_to_others(const struct stat *s) {
    if (!S_ISREG(s->st_mode)) return "is no regular file";
    if (s->st_uid != geteuid() && s->st_uid != 0) return "belongs to another user";
    const mode_t others =
        s->st_uid == 0 && geteuid() != 0 ? 0037 : 0077; /* root gives it to a service's group */
    if (s->st_mode & others) return "can be read or changed by others: chmod 600";
    return s->st_size > MS_TOKENS_FILE_BYTES ? "is larger than 1 MiB" : NULL;
}

int ms_tokens_read(const char *path, struct ms_tokens *out, moire_error *err) {
    struct stat s;
    moire_error inner = {0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &s)) {
        const int rc = ms_fail(err, MOIRE_EIO, "--token-file %.200s: %s", path, strerror(errno));
        if (fd >= 0) close(fd);
        return rc;
    }
    const char *why = is_open_to_others(&s);
    char *text = why ? NULL : malloc((size_t)s.st_size + 1);
    const ssize_t n = text ? read(fd, text, (size_t)s.st_size) : -1;
    close(fd);
    int rc = MOIRE_OK;
    if (why || n < 0)
        rc = ms_fail(err, MOIRE_EIO, "--token-file %.200s %s", path, why ? why : "cannot be read");
    else if (ms_tokens_parse(text, (size_t)n, out, &inner))
        rc = ms_fail(err, inner.code, "--token-file %.200s: %.300s", path, inner.message);
    if (text) explicit_bzero(text, (size_t)s.st_size);
    free(text);
    return rc;
}

void ms_tokens_close(struct ms_tokens *t) {
    for (int i = 0; i < t->n; i++)
        json_decref(t->token[i].models);
    free(t->token);
    *t = (struct ms_tokens){0};
}

/* --- asking --- */
const struct ms_token *ms_tokens_find(const struct ms_tokens *t, const uint8_t digest[MS_SHA256_BYTES]) {
    int found = -1;
    for (int i = t->n - 1; i >= 0; i--) {
        unsigned differs = 0;
        for (int k = 0; k < MS_SHA256_BYTES; k++)
            differs |= t->token[i].digest[k] ^ digest[k];
        const int same = (int)((differs - 1) >> 31) * -1; /* all bits, or none */
        found = (i & same) | (found & ~same);
    }
    return found < 0 ? NULL : &t->token[found];
}

bool ms_token_covers(const struct ms_token *t, const char *model) {
    for (size_t i = 0; i < json_array_size(t->models); i++)
        if (!fnmatch(json_string_value(json_array_get(t->models, i)), model, 0)) return true;
    return false;
}
