/* SPDX-License-Identifier: Apache-2.0
 * fuzz_store_json.c - libFuzzer target: any bytes as a description or an index of the variant store, as they
 * are and as the body of an envelope whose digest is right (else the digest would keep the fuzzer out), and
 * as an object file before the ELF policy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "variants/store_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const char *bytes, size_t n) {
    struct mo_store_entry entry;
    struct mo_store_index index;
    struct mo_store_front front;
    moire_error err = {0};
    char hex[MO_SHA256_HEX];
    if (!mo_store_parse_entry(bytes, n, &entry, &err))
        mo_store_key(&entry, hex);
    else if (!err.message[0])
        abort(); /* every refusal says why */
    if (!mo_store_parse_index(bytes, n, &index, &err)) mo_store_layer(index.signature, index.isa, hex);
    if (!mo_store_parse_front(bytes, n, &front, &err) && (front.n < 0 || front.n > MO_FRONT_POINTS)) abort();
}

static void parse_wrapped(const uint8_t *data, size_t size) {
    char hex[MO_SHA256_HEX], *file = malloc(size + 128);
    if (!file) return;
    mo_sha256_hex(data, size, hex);
    size_t at = (size_t)sprintf(file, "{\"sha256\":\"%s\",\n\"body\":", hex);
    memcpy(file + at, data, size);
    file[at + size] = '}';
    file[at + size + 1] = '\n';
    parse(file, at + size + 2);
    free(file);
}

static void check_object(const uint8_t *data, size_t size) {
    void *aligned = aligned_alloc(64, (size + 64) / 64 * 64);
    moire_error err = {0};
    if (!aligned) return;
    memcpy(aligned, data, size);
    if (mo_elf_check(aligned, size, &err) && !err.message[0]) abort();
    free(aligned);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 1 << 18) return 0;
    parse((const char *)data, size);
    parse_wrapped(data, size);
    check_object(data, size);
    return 0;
}
