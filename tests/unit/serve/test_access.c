/* SPDX-License-Identifier: Apache-2.0
 * test_access.c - tokens: their digest, their file, and what they allow. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "serve/access/access.h"
#include "serve/protocol/fault.h"

/* --- SHA-256: the examples of FIPS 180-4, and lengths around a block's end by what sha256sum says of
 * "aaa..." --- */
static void digests(void **state) {
    static const struct {
        const char *text;
        size_t repeated;
        const char *hex;
    } cases[] = {
        {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
        {"a", 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {"a", 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
        {"a", 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t n = strlen(cases[i].text);
        char *text = malloc(n * cases[i].repeated + 1), hex[2 * MS_SHA256_BYTES + 1];
        uint8_t digest[MS_SHA256_BYTES];
        assert_non_null(text);
        for (size_t k = 0; k < cases[i].repeated; k++)
            memcpy(text + k * n, cases[i].text, n);
        ms_sha256(text, n * cases[i].repeated, digest);
        for (int k = 0; k < MS_SHA256_BYTES; k++)
            snprintf(hex + 2 * (size_t)k, 3, "%02x", digest[k]);
        assert_string_equal(hex, cases[i].hex);
        free(text);
    }
}

/* --- the file's text --- */
#define TOKEN "\"token\":\"0123456789abcdef\""
static void bad_texts(void **state) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "no JSON"},
        {"{}", "'tokens'"},
        {"{\"tokens\":{}}", "no list"},
        {"{\"tokens\":[],\"more\":1}", "one field"},
        {"{\"tokens\":[1]}", "'name'"},
        {"{\"tokens\":[{\"name\":\"\"," TOKEN "}]}", "'name'"},
        {"{\"tokens\":[{\"name\":\"a\"}]}", "'sha256'"},
        {"{\"tokens\":[{\"name\":\"a\"," TOKEN ",\"sha256\":\"00\"}]}", "either"},
        {"{\"tokens\":[{\"name\":\"a\",\"sha256\":\"00\"}]}", "64 hexadecimal"},
        {"{\"tokens\":[{\"name\":\"a\",\"sha256\":7}]}", "64 hexadecimal"},
        {"{\"tokens\":[{\"name\":\"a\",\"token\":\"short\"}]}", "16 to 4096"},
        {"{\"tokens\":[{\"name\":\"a\",\"token\":[]}]}", "16 to 4096"},
        {"{\"tokens\":[{\"name\":\"a\"," TOKEN ",\"models\":\"m\"}]}", "no list"},
        {"{\"tokens\":[{\"name\":\"a\"," TOKEN ",\"models\":[1]}]}", "names and patterns"},
        {"{\"tokens\":[{\"name\":\"a\"," TOKEN ",\"control\":1}]}", "true or false"},
        {"{\"tokens\":[{\"name\":\"a\"," TOKEN ",\"modles\":[]}]}", "'modles'"},
        {"{\"tokens\":[{\"name\":\"a\"," TOKEN "},{\"name\":\"b\"," TOKEN "}]}", "'a' and 'b'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ms_tokens t;
        moire_error err = {0};
        assert_int_equal(ms_tokens_parse(cases[i].text, strlen(cases[i].text), &t, &err), MOIRE_EFORMAT);
        if (!strstr(err.message, cases[i].says)) fail_msg("%s: %s", cases[i].text, err.message);
        assert_int_equal(t.n, 0);
    }
}

/* --- files and rights --- */
static const char good[] =
    "{\"tokens\":[{\"name\":\"a\"," TOKEN ",\"models\":[\"res*\",\"lenet\"]},"
    "{\"name\":\"b\",\"token\":\"fedcba9876543210\",\"control\":true},"
    "{\"name\":\"c\",\"sha256\":\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\","
    "\"metrics\":true,\"models\":[\"*\"]}]}";

static void write_file(const char *path, const char *text, mode_t mode) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

static struct ms_bearer bearer(const char *header) {
    struct ms_bearer b;
    ms_bearer_read(header, strlen(header), &b);
    return b;
}

static void rights(void **state) {
    static const struct {
        const char *header;
        enum ms_right right;
        const char *model;
        int rc;
    } cases[] = {
        {"", MS_RIGHT_NONE, "", MOIRE_OK},
        {"", MS_RIGHT_TOKEN, "", MS_EAUTH},
        {"Basic 0123456789abcdef", MS_RIGHT_TOKEN, "", MS_EAUTH},
        {"Bearer ", MS_RIGHT_TOKEN, "", MS_EAUTH},
        {"Bearer 0123456789abcdee", MS_RIGHT_TOKEN, "", MS_EAUTH},
        {"Bearer 0123456789abcdef ", MS_RIGHT_TOKEN, "", MS_EAUTH},
        {"bearer 0123456789abcdef", MS_RIGHT_TOKEN, "", MOIRE_OK},
        {"Bearer 0123456789abcdef", MS_RIGHT_MODEL, "lenet", MOIRE_OK},
        {"Bearer 0123456789abcdef", MS_RIGHT_MODEL, "resnet50", MOIRE_OK},
        {"Bearer 0123456789abcdef", MS_RIGHT_MODEL, "lenet2", MOIRE_ESTALE},
        {"Bearer 0123456789abcdef", MS_RIGHT_CONTROL, "lenet", MS_EDENIED},
        {"Bearer 0123456789abcdef", MS_RIGHT_METRICS, "", MS_EDENIED},
        {"Bearer fedcba9876543210", MS_RIGHT_CONTROL, "x", MOIRE_OK},
        {"Bearer fedcba9876543210", MS_RIGHT_MODEL, "x", MOIRE_ESTALE},
        {"Bearer abc", MS_RIGHT_METRICS, "", MOIRE_OK},
        {"Bearer abc", MS_RIGHT_MODEL, "anything", MOIRE_OK},
    };
    char path[] = "/tmp/moire-access-XXXXXX";
    struct ms_access *a;
    moire_error err = {0};
    (void)state;
    close(mkstemp(path));
    write_file(path, good, 0600);
    assert_int_equal(ms_access_open(path, &a, &err), MOIRE_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct ms_bearer b = bearer(cases[i].header);
        const int rc = ms_access_check(a, &b, cases[i].right, cases[i].model, NULL, &err);
        if (rc != cases[i].rc)
            fail_msg("%s, %d, %s: %d", cases[i].header, cases[i].right, cases[i].model, rc);
    }
    const struct ms_bearer first = bearer("Bearer 0123456789abcdef"),
                           second = bearer("Bearer fedcba9876543210");
    json_t *list = json_pack("[{s:s},{s:s},{s:s}]", "name", "lenet", "name", "other", "name", "resnet");
    ms_access_filter(a, &second, list); /* who controls sees all */
    assert_int_equal(json_array_size(list), 3);
    ms_access_filter(a, &first, list);
    assert_int_equal(json_array_size(list), 2);
    json_decref(list);

    write_file(path, "{", 0600); /* what cannot be read changes nothing */
    assert_int_equal(ms_access_reload(a, &err), MOIRE_EFORMAT);
    assert_int_equal(ms_access_check(a, &first, MS_RIGHT_TOKEN, NULL, NULL, &err), MOIRE_OK);
    write_file(path, "{\"tokens\":[]}", 0600);
    assert_int_equal(ms_access_reload(a, &err), MOIRE_OK);
    assert_int_equal(ms_access_check(a, &first, MS_RIGHT_TOKEN, NULL, NULL, &err), MS_EAUTH);
    ms_access_close(a);
    unlink(path);
    assert_int_equal(ms_access_check(NULL, &first, MS_RIGHT_CONTROL, NULL, NULL, &err), MOIRE_OK);
}

static void files_that_others_read(void **state) {
    char path[] = "/tmp/moire-access-XXXXXX";
    struct ms_tokens t;
    moire_error err = {0};
    (void)state;
    close(mkstemp(path));
    for (mode_t mode = 01; mode <= 040; mode <<= 1) {
        write_file(path, good, 0600 | mode);
        assert_int_equal(ms_tokens_read(path, &t, &err), MOIRE_EIO);
        assert_non_null(strstr(err.message, "chmod 600"));
    }
    write_file(path, good, 0400);
    assert_int_equal(ms_tokens_read(path, &t, &err), MOIRE_OK);
    assert_int_equal(t.n, 3);
    ms_tokens_close(&t);
    if (!geteuid()) { /* only root can give files away */
        assert_int_equal(chown(path, 12345, 12345), 0);
        assert_int_equal(ms_tokens_read(path, &t, &err), MOIRE_EIO);
        assert_non_null(strstr(err.message, "another user"));
    }
    unlink(path);
    assert_int_equal(ms_tokens_read(path, &t, &err), MOIRE_EIO);
    assert_int_equal(ms_tokens_read("/dev/null", &t, &err), MOIRE_EIO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests),
        cmocka_unit_test(bad_texts),
        cmocka_unit_test(rights),
        cmocka_unit_test(files_that_others_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
