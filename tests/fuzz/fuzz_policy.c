/* SPDX-License-Identifier: Apache-2.0
 * fuzz_policy.c - libFuzzer target: any bytes as a file of a trained policy, as they are and as the body of a
 * file whose header and digest are right (else the digest would keep the fuzzer out), are read or refused
 * with the file's name; what is read can be decided with. */
#include <stdlib.h>
#include <string.h>
#include "runtime/learn/policy_file.h"
#include "runtime/learn/td3.h"
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char magic[8] = "moLearn\n";

/* One decision of each net, from zeros. */
static void decide(const struct mo_env *env, const struct mo_policy_file *p) {
    const struct mo_sgemm plain = {0};
    const struct mo_net *net[] = {&p->place, &p->divide};
    for (int i = 0; i < 2; i++) {
        struct mo_region *region = mo_region_create(env);
        struct mo_pass pass;
        float *x = region ? mo_region_array(region, (size_t)net[i]->size[0], sizeof *x) : NULL;
        if (!x || !mo_pass_make(region, net[i], 1, &pass)) abort();
        mo_net_forward(&plain, net[i], x, net[i]->size[0], 1, &pass);
        mo_region_destroy(region);
    }
}

static void read_file(const uint8_t *bytes, size_t n) {
    struct memory_file memory;
    struct mo_env env = memory_file_env(&memory, bytes, n);
    struct mo_policy_file policy;
    moire_error err = {0};
    if (mo_policy_read(&env, "fuzz.mo", &policy, &err)) {
        if (!strstr(err.message, "fuzz.mo")) abort();
        return;
    }
    if (policy.n_models < 1 || policy.n_models > MO_POLICY_MODELS || policy.place.size[3] != policy.n_gpus ||
        policy.divide.size[3] != 2 * policy.n_slots)
        abort();
    decide(&env, &policy);
    mo_policy_close(&policy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    if (n > 1 << 18) return 0;
    read_file(bytes, n);
    const uint32_t version = MO_LEARN_POLICY_VERSION, kind = MO_LEARN_POLICY;
    const uint64_t all = MO_LEARN_HEADER + n + MO_SHA256_BYTES;
    struct mo_sha256 hash;
    uint8_t *file = malloc(all);
    if (!file) return 0;
    memcpy(file, magic, sizeof magic);
    memcpy(file + 8, &version, 4);
    memcpy(file + 12, &kind, 4);
    memcpy(file + 16, &all, 8);
    if (n) memcpy(file + MO_LEARN_HEADER, bytes, n);
    mo_sha256_init(&hash);
    mo_sha256_add(&hash, file, all - MO_SHA256_BYTES);
    mo_sha256_end(&hash, file + all - MO_SHA256_BYTES);
    read_file(file, all);
    free(file);
    return 0;
}
