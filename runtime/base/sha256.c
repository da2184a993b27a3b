/* SPDX-License-Identifier: Apache-2.0
 * sha256.c - SHA-256 after FIPS 180-4, plain and portable; long inputs by the processor's instructions. */
#include "runtime/base/sha256.h"
#include "runtime/base/sha256_blocks.h"

#include <string.h>

enum { LONG = 4096 };

const uint32_t mo_sha256_round[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}

static void expand(const uint8_t block[64], uint32_t w[64]) {
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        uint32_t s0 = rotate(a, 7) ^ rotate(a, 18) ^ a >> 3;
        uint32_t s1 = rotate(b, 17) ^ rotate(b, 19) ^ b >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

/* One round; the roles of the eight words move on by one from round to round. */
static inline void step(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f, uint32_t g,
                        uint32_t *h, uint32_t added) {
    uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25), choose = (e & f) ^ (~e & g);
    uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22), majority = (a & b) ^ (a & c) ^ (b & c);
    uint32_t t1 = *h + s1 + choose + added;
    *d += t1;
    *h = t1 + s0 + majority;
}

static void compress(uint32_t state[8], const uint8_t block[64]) {
    uint32_t w[64];
    expand(block, w);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6],
             h = state[7];
    for (int i = 0; i < 64; i += 8) {
        const uint32_t *k = mo_sha256_round + i;
        step(a, b, c, &d, e, f, g, &h, k[0] + w[i]);
        step(h, a, b, &c, d, e, f, &g, k[1] + w[i + 1]);
        step(g, h, a, &b, c, d, e, &f, k[2] + w[i + 2]);
        step(f, g, h, &a, b, c, d, &e, k[3] + w[i + 3]);
        step(e, f, g, &h, a, b, c, &d, k[4] + w[i + 4]);
        step(d, e, f, &g, h, a, b, &c, k[5] + w[i + 5]);
        step(c, d, e, &f, g, h, a, &b, k[6] + w[i + 6]);
        step(b, c, d, &e, f, g, h, &a, k[7] + w[i + 7]);
    }
    const uint32_t v[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

void mo_sha256_init(struct mo_sha256 *h) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(h->state, start, sizeof start);
    h->bytes = 0;
}

void mo_sha256_add(struct mo_sha256 *h, const void *data, size_t n) {
    const uint8_t *p = data;
    size_t used = h->bytes % 64;
    h->bytes += n;
    if (n >= LONG && !used && mo_sha256_blocks(h->state, p, n / 64)) {
        p += n / 64 * 64;
        n %= 64;
    }
    while (n) {
        size_t take = 64 - used < n ? 64 - used : n;
        memcpy(h->block + used, p, take);
        p += take, n -= take, used += take;
        if (used < 64) return;
        compress(h->state, h->block);
        used = 0;
    }
}

void mo_sha256_end(struct mo_sha256 *h, uint8_t digest[MO_SHA256_BYTES]) {
    uint64_t bits = h->bytes * 8;
    static const uint8_t pad[64] = {0x80};
    size_t used = h->bytes % 64;
    mo_sha256_add(h, pad, used < 56 ? 56 - used : 120 - used);
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    mo_sha256_add(h, length, 8);
    for (int i = 0; i < 32; i++)
        digest[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

void mo_sha256_end_hex(struct mo_sha256 *h, char hex[MO_SHA256_HEX]) {
    uint8_t digest[MO_SHA256_BYTES];
    mo_sha256_end(h, digest);
    for (int i = 0; i < MO_SHA256_BYTES; i++) {
        hex[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    hex[64] = 0;
}

void mo_sha256_hex(const void *data, size_t n, char hex[MO_SHA256_HEX]) {
    struct mo_sha256 h;
    mo_sha256_init(&h);
    mo_sha256_add(&h, data, n);
    mo_sha256_end_hex(&h, hex);
}
