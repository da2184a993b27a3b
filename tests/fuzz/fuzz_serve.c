/* SPDX-License-Identifier: Apache-2.0
 * fuzz_serve.c - what strangers send to moire serve: infer requests as JSON with binary tensors and as gRPC
 * has them, what they say of themselves; and config.pbtxt and the file of tokens. */
#include <stdint.h>
#include <stdlib.h>
#include "serve/access/access.h"
#include "serve/grpc/infer_message.h"
#include "serve/grpc/infer_wire.h"
#include "serve/protocol/kserve.h"
#include "serve/repository/model_settings.h"
#include "serve/repository/pbtxt.h"

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

/* The first byte chooses; of a request the second says how long its binary part is. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 2) return 0;
    const char *text = (const char *)data + 2;
    n -= 2;
    if (data[0] == 'm')
        message(text, n);
    else if (data[0] == 't')
        tokens(text, n, data[1] > n ? n : data[1]);
    else if (data[0] & 1)
        config(text, n);
    else
        request(text, n, data[1] > n ? n : n - data[1]);
    return 0;
}
