/* SPDX-License-Identifier: Apache-2.0
 * test_infer_wire.c - requests of gRPC off the wire: raw tensors stay where they are, and nothing that is cut
 * off or malformed is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "serve/grpc/infer_wire.h"
#include "serve/protocol/kserve.h"

/* Fields: 1 model_name, 3 id, 7 raw_input_contents; the others are not needed here. */
static const char NAME[] = "\012\005lenet", ID[] = "\032\002id";

struct wire {
    char bytes[4096];
    size_t n;
};
static void put(struct wire *w, const char *bytes, size_t n) {
    memcpy(w->bytes + w->n, bytes, n);
    w->n += n;
}
static void put_raw(struct wire *w, const char *data, size_t n) {
    const char head[] = {7 << 3 | 2, (char)(0x80 | (n & 0x7f)), (char)(n >> 7)};
    put(w, head, sizeof head);
    put(w, data, n);
}

static void raw_tensors_stay_where_they_are(void **state) {
    (void)state;
    struct wire w = {.n = 0};
    char data[600];
    moire_error err;
    Inference__ModelInferRequest *m;
    memset(data, 'x', sizeof data);
    put(&w, NAME, sizeof NAME - 1);
    put_raw(&w, data, 200);
    put(&w, ID, sizeof ID - 1); /* between them */
    put_raw(&w, "", 0);
    put_raw(&w, data, 600);
    assert_int_equal(ms_infer_wire_read(w.bytes, w.n, &m, &err), MOIRE_OK);
    assert_string_equal(m->model_name, "lenet");
    assert_string_equal(m->id, "id");
    assert_int_equal(m->n_raw_input_contents, 3);
    const size_t sizes[] = {200, 0, 600};
    for (int i = 0; i < 3; i++)
        assert_int_equal(m->raw_input_contents[i].len, sizes[i]);
    assert_ptr_equal(m->raw_input_contents[0].data, w.bytes + sizeof NAME - 1 + 3);
    assert_ptr_equal(m->raw_input_contents[2].data, w.bytes + w.n - 600);
    ms_infer_wire_free(m);
}

static void without_raw_tensors(void **state) {
    (void)state;
    moire_error err;
    Inference__ModelInferRequest *m;
    assert_int_equal(ms_infer_wire_read(NAME, sizeof NAME - 1, &m, &err), MOIRE_OK);
    assert_string_equal(m->model_name, "lenet");
    assert_int_equal(m->n_raw_input_contents, 0);
    ms_infer_wire_free(m);
    assert_int_equal(ms_infer_wire_read(NULL, 0, &m, &err), MOIRE_OK); /* an empty message is one */
    ms_infer_wire_free(m);
    ms_infer_wire_free(NULL);
}

/* In memory of exactly its size, so that a byte too much is seen by a sanitizer. */
static void what_is_cut_off_is_refused(void **state) {
    (void)state;
    struct wire w = {.n = 0};
    moire_error err;
    put(&w, NAME, sizeof NAME - 1);
    const size_t whole = w.n;
    put_raw(&w, "0123456789", 10);
    for (size_t n = 0; n <= w.n; n++) {
        Inference__ModelInferRequest *m;
        char *bytes = malloc(n ? n : 1);
        memcpy(bytes, w.bytes, n);
        const int rc = ms_infer_wire_read(bytes, n, &m, &err);
        assert_int_equal(rc, n == 0 || n == whole || n == w.n ? MOIRE_OK : MOIRE_EINVAL);
        ms_infer_wire_free(m);
        free(bytes);
    }
}

static void malformed(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
    } bad[] = {
        {"\072\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11}, /* a length beyond any memory */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11}, /* a tag without end */
        {"\073", 1},                                          /* a group */
        {"\012\002\377\377\073", 5},                          /* one behind another field */
        {"\011\001\002", 3},                                  /* 8 bytes, of which 2 are there */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Inference__ModelInferRequest *m;
        moire_error err = {0};
        assert_int_equal(ms_infer_wire_read(bad[i].bytes, bad[i].n, &m, &err), MOIRE_EINVAL);
        assert_true(err.message[0]);
        assert_null(m);
    }
}

static void as_many_tensors_as_a_request_may_have(void **state) {
    (void)state;
    struct wire w = {.n = 0};
    moire_error err;
    Inference__ModelInferRequest *m;
    for (int i = 0; i < MS_PORTS; i++)
        put_raw(&w, "ab", 2);
    assert_int_equal(ms_infer_wire_read(w.bytes, w.n, &m, &err), MOIRE_OK);
    assert_int_equal(m->n_raw_input_contents, MS_PORTS);
    ms_infer_wire_free(m);
    put_raw(&w, "ab", 2);
    assert_int_equal(ms_infer_wire_read(w.bytes, w.n, &m, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "64"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raw_tensors_stay_where_they_are),
        cmocka_unit_test(without_raw_tensors),
        cmocka_unit_test(what_is_cut_off_is_refused),
        cmocka_unit_test(malformed),
        cmocka_unit_test(as_many_tensors_as_a_request_may_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
