/* SPDX-License-Identifier: Apache-2.0
 * bench_place.c - see bench_place.h. */
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
#include "tests/unit/kernels/bench_place.h"

void bench_place_write(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, 0755), 0);
}

void bench_place_open(struct bench_place *p, const char *peer) {
    moire_error err = {0};
    char *argv[] = {"bench"}, path[128];
    p->env = mo_env_default();
    if (mo_bench_session_open(&p->env, 1, argv, &p->session, &err)) fail_msg("%s", err.message);
    snprintf(p->folder, sizeof p->folder, "/tmp/moire-kernels-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    snprintf(p->output, sizeof p->output, "%s/out.json", p->folder);
    snprintf(p->session.exe, sizeof p->session.exe, "%s/moire", p->folder);
    snprintf(path, sizeof path, "%s/peers", p->folder);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/bin", p->folder);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/peers/onednn-runner", p->folder);
    if (peer) bench_place_write(path, peer);
    snprintf(path, sizeof path, "%s/bin/python", p->folder);
    if (peer) bench_place_write(path, peer);
    p->session.venv = p->session.models = p->folder;
    p->session.store = NULL;
    p->session.quiet = true;
}

void bench_place_close(struct bench_place *p) {
    static const char *const made[] = {
        "peers/onednn-runner", "bin/python", "bin/rounds", "moire", "peers", "bin", "out.json"};
    char path[128], command[128];
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        snprintf(path, sizeof path, "%s/%s", p->folder, made[i]);
        remove(path);
    }
    snprintf(command, sizeof command, "rm -f %s/lenet*", p->folder);
    assert_int_equal(system(command), 0);
    rmdir(p->folder);
    mo_bench_session_close(&p->session);
}

double bench_place_number(const json_t *row, const char *key) {
    const json_t *v = json_object_get(row, key);
    if (!json_is_number(v)) fail_msg("no number '%s'", key);
    return json_number_value(v);
}

const char *bench_place_text(const json_t *row, const char *key) {
    const char *s = json_string_value(json_object_get(row, key));
    if (!s) fail_msg("no text '%s'", key);
    return s;
}

void bench_place_same(const json_t *a, const json_t *b) {
    assert_int_equal(json_array_size(a), json_array_size(b));
    for (size_t i = 0; i < json_array_size(a); i++) {
        const json_t *x = json_array_get(a, i), *y = json_array_get(b, i);
        assert_string_equal(bench_place_text(x, "model"), bench_place_text(y, "model"));
        assert_float_equal(bench_place_number(x, "min_ms") / bench_place_number(y, "min_ms"), 1, 1e-6);
    }
}
