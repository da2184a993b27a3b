/* SPDX-License-Identifier: Apache-2.0
 * test_sha256.c - SHA-256 against the vectors of FIPS 180-4 and split feeding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "runtime/base/sha256.h"

static void known_vectors(void **state) {
    (void)state;
    static const struct {
        const char *text, *hex;
    } rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmno"
         "pq"
         "rstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char hex[MO_SHA256_HEX];
        mo_sha256_hex(rows[i].text, strlen(rows[i].text), hex);
        assert_string_equal(hex, rows[i].hex);
    }
}

/* A million 'a', fed in pieces of every length from 1 to 130. */
static void million_in_pieces(void **state) {
    (void)state;
    char a[130];
    memset(a, 'a', sizeof a);
    struct mo_sha256 h;
    mo_sha256_init(&h);
    size_t left = 1000000;
    for (size_t step = 1; left; step = step % 130 + 1) {
        size_t n = step < left ? step : left;
        mo_sha256_add(&h, a, n);
        left -= n;
    }
    uint8_t digest[32];
    mo_sha256_end(&h, digest);
    static const uint8_t want[32] = {0xcd, 0xc7, 0x6e, 0x5c, 0x99, 0x14, 0xfb, 0x92, 0x81, 0xa1, 0xc7,
                                     0xe2, 0x84, 0xd7, 0x3e, 0x67, 0xf1, 0x80, 0x9a, 0x48, 0xa4, 0x97,
                                     0x20, 0x0e, 0x04, 0x6d, 0x39, 0xcc, 0xc7, 0x11, 0x2c, 0xd0};
    assert_memory_equal(digest, want, 32);
}

/* Long pieces, which the processor's instructions may take, against short ones, for every length of a rest.
 */
static void long_pieces(void **state) {
    (void)state;
    static uint8_t data[3 * 4096 + 64];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 24);
    for (size_t n = 2 * 4096; n < sizeof data; n += 97)
        for (size_t first = 0; first <= 64; first += 16) {
            struct mo_sha256 a, b;
            uint8_t got[MO_SHA256_BYTES], want[MO_SHA256_BYTES];
            mo_sha256_init(&a), mo_sha256_init(&b);
            mo_sha256_add(&a, data, first);
            mo_sha256_add(&a, data + first, n - first);
            for (size_t at = 0; at < n; at += 64)
                mo_sha256_add(&b, data + at, n - at < 64 ? n - at : 64);
            mo_sha256_end(&a, got), mo_sha256_end(&b, want);
            assert_memory_equal(got, want, sizeof got);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_vectors),
        cmocka_unit_test(million_in_pieces),
        cmocka_unit_test(long_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
