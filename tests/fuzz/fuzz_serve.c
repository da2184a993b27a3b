/* SPDX-License-Identifier: Apache-2.0
 * fuzz_serve.c - what strangers send to moire serve: infer requests as JSON with binary tensors and as gRPC
 * has them, what they say of themselves, settings and shared memory that they ask for; and the operator's
 * files: config.pbtxt, --config, tokens and labels. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "serve/access/access.h"
#include "serve/config_file.h"
#include "serve/grpc/infer_message.h"
#include "serve/grpc/infer_wire.h"
#include "serve/protocol/kserve.h"
#include "serve/protocol/log.h"
#include "serve/query/class_labels.h"
#include "serve/repository/overlay.h"
#include "serve/repository/pbtxt.h"
#include "serve/query/regions.h"
#include "serve/query/trace_settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Every byte that a tensor claims can be read. */
static void read_all(const struct ms_request *r) {
    volatile uint8_t sum = 0;
    for (int i = 0; i < r->n_inputs; i++)
        for (size_t k = 0; k < r->input[i].tensor.bytes; k++)
            sum = (uint8_t)(sum + ((const uint8_t *)r->input[i].tensor.data)[k]);
}

static void message(const char *bytes, size_t n) {
    Inference__ModelInferRequest *m;
    struct ms_request r;
    moire_error err;
    if (ms_infer_wire_read(bytes, n, &m, &err)) return;
    if (!ms_infer_message_read(m, &r, &err)) {
        read_all(&r);
        ms_request_close(&r);
    }
    ms_infer_wire_free(m);
}

static void request(const char *text, size_t n, size_t json_bytes) {
    struct ms_request r;
    moire_error err;
    if (ms_request_parse(text, n, json_bytes, &r, &err)) return;
    read_all(&r);
    /* an answer can be made of it */
    struct ms_response answer = {.model = "m", .version = "1", .id = r.id};
    for (int i = 0; i < r.n_inputs; i++)
        answer.output[answer.n_outputs++] =
            (struct ms_output){.name = r.input[i].name, .tensor = r.input[i].tensor, .binary = r.binary};
    struct ms_bytes to = {0};
    size_t json;
    if (!ms_response_write(&answer, &to, &json, &err) && (!to.n || json > to.n)) abort();
    ms_bytes_free(&to);
    ms_request_close(&r);
}

static void config(const char *text, size_t n) {
    struct ms_faults faults = {0};
    struct ms_settings s;
    moire_error err;
    json_t *read;
    if (ms_pbtxt_parse(text, n, &read, &err)) return;
    ms_settings_read(read, "m", &s, &faults);
    ms_settings_close(&s);
}

/* A file of tokens, and a header that is asked against them. */
static void tokens(const char *text, size_t n, size_t header) {
    struct ms_tokens t;
    struct ms_bearer b;
    moire_error err;
    ms_bearer_read(text, header, &b);
    if (ms_tokens_parse(text, n, &t, &err)) return;
    const struct ms_token *found = ms_tokens_find(&t, b.digest);
    if (found) ms_token_covers(found, "model");
    for (int i = 0; i < t.n; i++)
        if (ms_tokens_find(&t, t.token[i].digest) != &t.token[i]) abort();
    ms_tokens_close(&t);
}

/* --- files --- */
/* A file without a name that has those bytes. */
static int file_of(const char *text, size_t n) {
    const int fd = memfd_create("moire-fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, text, n) != (ssize_t)n) abort();
    return fd;
}

/* A file of --config, and what it says of each model merged into an empty config.pbtxt. */
static void server_config(const char *text, size_t n) {
    struct ms_config_file file;
    struct ms_faults faults = {0};
    moire_error err;
    char path[40];
    const int fd = file_of(text, n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!ms_config_file_open(path, &file, &err)) {
        const json_t *models = ms_config_file_models(&file);
        for (size_t i = 0; i < json_array_size(models); i++) {
            const char *name = json_string_value(json_object_get(json_array_get(models, i), "name"));
            struct ms_settings s;
            ms_settings_read(ms_overlay_apply(ms_overlay_entry(models, name), NULL), name, &s, &faults);
            ms_settings_close(&s);
        }
        ms_config_file_text(&file, "policy", "");
        ms_config_file_whole(&file, "threads", 1);
        ms_config_file_close(&file);
    }
    close(fd);
}

static void labels(const char *text, size_t n) {
    struct ms_labels l;
    moire_error err;
    char name[16];
    const int fd = file_of(text, n);
    snprintf(name, sizeof name, "%d", fd);
    json_t *of = json_pack("{s:[{s:s, s:s}]}", "output", "name", "y", "label_filename", name);
    if (!ms_labels_open("/proc/self/fd", of, "y", &l, &err)) {
        for (size_t i = 0; i <= l.n; i++)
            if (strlen(ms_label(&l, i)) > n) abort();
        ms_labels_close(&l);
    }
    json_decref(of);
    close(fd);
}

/* --- what clients may change --- */
/* Settings of traces, of the server and of a model, or of the log. */
static void settings(const char *text, size_t n) {
    struct ms_trace_rules rules;
    struct ms_log log = {0};
    moire_error err;
    json_t *change = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL), *out = NULL;
    if (!change) return;
    ms_trace_rules_init(&rules);
    for (int i = 0; i < 2; i++) {
        ms_trace_rules_change(&rules, i ? "m" : "", true, change, &err);
        json_decref(ms_trace_rules_show(&rules, "m", "f"));
        if (ms_trace_rules_take(&rules, "m") && !ms_trace_rules_are_on(&rules)) abort();
    }
    ms_trace_rules_free(&rules);
    if (!ms_log_settings(&log, change, &out, &err)) json_decref(out);
    json_decref(change);
}

enum { REGION = 4096 };
static char region_key[40];
static void remove_region(void) {
    shm_unlink(region_key);
}
static void make_region(void) {
    if (*region_key) return;
    snprintf(region_key, sizeof region_key, "/moire-fuzz-%ld", (long)getpid());
    const int fd = shm_open(region_key, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, REGION)) abort();
    close(fd);
    atexit(remove_region);
}

/* [name, key, offset, byte_size] registers ("": the key that there is); [name, offset, byte_size] uses;
 * [name] unregisters. */
static void region(struct ms_regions *r, const json_t *words) {
    moire_error err;
    struct ms_region *taken;
    json_t *list;
    char bytes[REGION];
    const size_t n = json_array_size(words);
    const char *name = json_string_value(json_array_get(words, 0)),
               *key = json_string_value(json_array_get(words, 1));
    const json_int_t offset = json_integer_value(json_array_get(words, n == 4 ? 2 : 1)),
                     size = json_integer_value(json_array_get(words, n == 4 ? 3 : 2));
    if (!name) return;
    if (n == 4 && key) {
        ms_regions_register(r, name, *key ? key : region_key, offset, size, &err);
    } else if (n == 3 && !ms_regions_take(r, name, offset, size, &taken, &err)) {
        if (size > REGION) abort(); /* there is no such range */
        if (!ms_region_read(taken, offset, bytes, (size_t)size, &err) &&
            ms_region_write(taken, offset, bytes, (size_t)size, &err))
            abort();
        ms_regions_give(r, taken);
    } else if (n == 1) {
        ms_regions_unregister(r, name);
    }
    if (!ms_regions_status(r, name, &list, &err)) json_decref(list);
}

static void regions(const char *text, size_t n) {
    json_t *words = json_loadb(text, n, 0, NULL);
    struct ms_regions *r = words ? ms_regions_open("/moire-fuzz-", REGION) : NULL;
    make_region();
    for (size_t i = 0; r && i < json_array_size(words); i++)
        region(r, json_array_get(words, i));
    ms_regions_close(r);
    json_decref(words);
}

/* The first byte chooses; of a request the second says how long its binary part is. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const struct {
        char name;
        void (*reads)(const char *text, size_t n);
    } form[] = {{'m', message}, {'c', server_config}, {'l', labels}, {'s', settings}, {'r', regions}};
    if (n < 2) return 0;
    const char *text = (const char *)data + 2;
    n -= 2;
    for (size_t i = 0; i < sizeof form / sizeof *form; i++)
        if (data[0] == (uint8_t)form[i].name) {
            form[i].reads(text, n);
            return 0;
        }
    if (data[0] == 't')
        tokens(text, n, data[1] > n ? n : data[1]);
    else if (data[0] & 1)
        config(text, n);
    else
        request(text, n, data[1] > n ? n : n - data[1]);
    return 0;
}
