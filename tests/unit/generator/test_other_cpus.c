/* SPDX-License-Identifier: Apache-2.0
 * test_other_cpus.c - a store that another processor filled: the line that says so, what is shown of it,
 * taking it out; and the models that the store knows. */
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
#include "codegen/search/other_cpus.h"
#include "codegen/search/known_models.h"
#include "codegen/search/writer.h"
#include "moire.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/generator/toy_family.h"

static const char other[] = "x86_64-GenuineIntel-6-143-8-0123456789ab";

struct fixture {
    struct fault_sys fault;
    struct mo_env env;
    char folder[64], here[4200], there[4200];
    char said[1024];
    int runs;
};

static void hear(void *user, int level, const char *line) {
    struct fixture *f = user;
    if (level > MOIRE_LOG_WARN) return;
    snprintf(f->said + strlen(f->said), sizeof f->said - strlen(f->said), "%s\n", line);
}

/* A store with one layer, all of it of another processor. */
static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    char cpu[MO_CPU_FOLDER];
    moire_error err = {0};
    fault_sys_init(&f->fault);
    f->env = mo_env_default();
    f->env.sys = &f->fault.table;
    f->env.log = hear;
    f->env.log_user = f;
    toy_folder(f->folder);
    if (toy_search(&f->env, f->folder, 1, "m", toy_families, NULL, &err)) return -1;
    mo_cpu_folder(cpu);
    snprintf(f->here, sizeof f->here, "%s/v1/%s", f->folder, cpu);
    snprintf(f->there, sizeof f->there, "%s/v1/%s", f->folder, other);
    *state = f;
    return rename(f->here, f->there);
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    assert_int_equal(fault_sys_live(&f->fault), 0);
    assert_int_equal(f->fault.opened, f->fault.closed);
    toy_remove(f->folder);
    free(f);
    return 0;
}

static void names_of_folders_are_told_from_others(void **state) {
    (void)state;
    static const char *const none[] = {
        "",       "models",           "lock",         "GenuineIntel-6-143", "x-0123456789aG",
        "../../", "a/b-0123456789ab", "-0123456789ab"};
    char name[MO_CPU_FOLDER];
    mo_store_cpu_name(other, name);
    assert_string_equal(name, "GenuineIntel-6-143-8");
    mo_store_cpu_name("generic-0123456789ab", name);
    assert_string_equal(name, "generic");
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        mo_store_cpu_name(none[i], name);
        assert_string_equal(name, "");
    }
}

static void one_line_says_so(void **state) {
    struct fixture *f = *state;
    char line[256];
    assert_true(mo_store_elsewhere(&f->env, f->folder, line, sizeof line));
    assert_non_null(strstr(line, "kernels for GenuineIntel-6-143-8 are there, none for this CPU"));
    assert_non_null(strstr(line, "run `moire compile --all`"));
    assert_int_equal(mkdir(f->here, 0755), 0); /* an interrupted compilation has left its folder */
    assert_true(mo_store_elsewhere(&f->env, f->folder, line, sizeof line));
    rmdir(f->here);
    assert_int_equal(rename(f->there, f->here), 0);
    assert_false(mo_store_elsewhere(&f->env, f->folder, line, sizeof line));
    assert_false(mo_store_elsewhere(&f->env, "/no/such/store", line, sizeof line));
    assert_string_equal(line, "");
}

/* Once, however many tenants are loaded. */
static void the_library_logs_it(void **state) {
    struct fixture *f = *state;
    moire_config config;
    moire_runtime *rt;
    moire_error err = {0};
    moire_config_init(&config);
    config.store = f->folder;
    config.threads = 1;
    config.log = hear;
    config.log_user = f;
    assert_int_equal(moire_runtime_create(&config, &rt, &err), MOIRE_OK);
    moire_runtime_destroy(rt, 0);
    const char *at = strstr(f->said, "kernels for GenuineIntel-6-143-8 are there");
    assert_non_null(at);
    assert_null(strstr(at + 1, "kernels for GenuineIntel-6-143-8 are there"));
}

static void they_are_shown_and_taken_out(void **state) {
    struct fixture *f = *state;
    struct mo_other_cpu cpu[MO_STORE_CPUS];
    moire_error err = {0};
    int files, before;
    int64_t bytes;
    assert_int_equal(mo_other_cpus(&f->env, f->folder, cpu), 1);
    assert_string_equal(cpu[0].name, "GenuineIntel-6-143-8");
    assert_true(cpu[0].kernels >= 1 && cpu[0].files > 3 * cpu[0].kernels);
    assert_true(cpu[0].bytes > 1000 && cpu[0].modified > 0);
    assert_int_equal(cpu[0].models, 0);
    before = cpu[0].files;
    assert_int_equal(toy_search(&f->env, f->folder, 1, "m", toy_families, NULL, &err), MOIRE_OK);
    assert_int_equal(mo_other_cpu_remove(&f->env, f->folder, &cpu[0], &files, &bytes, &err), MOIRE_OK);
    assert_int_equal(files, before);
    assert_true(bytes > 1000);
    assert_int_equal(access(f->there, F_OK), -1);
    assert_int_equal(mo_other_cpus(&f->env, f->folder, cpu), 0);
    struct mo_store_cpus cpus;
    mo_store_cpus(&f->env, f->folder, &cpus);
    assert_true(cpus.here); /* ours stays */
}

/* What moire does not know is not its to remove. */
static void strange_files_stay(void **state) {
    struct fixture *f = *state;
    struct mo_other_cpu cpu[MO_STORE_CPUS];
    moire_error err = {0};
    char strange[4400];
    int files;
    int64_t bytes;
    snprintf(strange, sizeof strange, "%s/notes.txt", f->there);
    fclose(fopen(strange, "w"));
    assert_int_equal(mo_other_cpus(&f->env, f->folder, cpu), 1);
    assert_int_equal(mo_other_cpu_remove(&f->env, f->folder, &cpu[0], &files, &bytes, &err), MOIRE_OK);
    assert_int_equal(access(strange, F_OK), 0);
    assert_int_equal(mo_other_cpus(&f->env, f->folder, cpu), 0);
}

static void none_is_taken_out_under_a_compilation(void **state) {
    struct fixture *f = *state;
    struct mo_other_cpu cpu[MO_STORE_CPUS];
    struct mo_writer *w;
    moire_error err = {0};
    int files;
    int64_t bytes;
    assert_int_equal(mo_other_cpus(&f->env, f->folder, cpu), 1);
    assert_int_equal(mo_writer_open_for(&f->env, f->folder, other, &w, &err), MOIRE_OK);
    assert_int_equal(mo_other_cpu_remove(&f->env, f->folder, &cpu[0], &files, &bytes, &err), MOIRE_EBUSY);
    assert_int_equal(files, 0);
    mo_writer_close(w);
    assert_int_equal(mo_other_cpus(&f->env, f->folder, cpu), 1);
}

/* --- models --- */

static void touch(const char *path) {
    fclose(fopen(path, "w"));
}

static struct mo_known_model *list(struct fixture *f, int *n) {
    struct mo_known_model *s;
    moire_error err = {0};
    assert_int_equal(mo_known_list(&f->env, f->folder, &s, n, &err), MOIRE_OK);
    return s;
}

static void models_are_noted_once(void **state) {
    struct fixture *f = *state;
    const moire_shape shape = {.input = "x", .rank = 4, .shape = {1, 3, 64, 64}};
    struct mo_known_model s, *known;
    moire_error err = {0};
    char path[128];
    int n;
    known = list(f, &n);
    assert_int_equal(n, 0);
    mo_free(&f->env, known);
    snprintf(path, sizeof path, "%s/a.onnx", f->folder);
    touch(path);
    for (int i = 0; i < 2; i++) {
        assert_true(mo_known_set(&f->env, path, NULL, 0, false, &s));
        assert_int_equal(mo_known_note(&f->env, f->folder, &s, &err), MOIRE_OK);
        assert_true(mo_known_set(&f->env, path, &shape, 1, true, &s));
        s.versions = i ? 0 : 5; /* tuned, then compiled again: it stays a tuned one */
        s.qos_ns = i ? 0 : 7e6;
        assert_int_equal(mo_known_note(&f->env, f->folder, &s, &err), MOIRE_OK);
    }
    known = list(f, &n);
    assert_int_equal(n, 2);
    assert_int_equal(known[0].n_shapes, 0);
    assert_string_equal(known[1].path, path);
    assert_true(known[1].exact);
    assert_int_equal(known[1].versions, 5);
    assert_true(known[1].qos_ns == 7e6);
    assert_int_equal(known[1].n_shapes, 1);
    assert_string_equal(known[1].shape[0].input, "x");
    assert_int_equal(known[1].shape[0].rank, 4);
    assert_int_equal(known[1].shape[0].d[3], 64);
    assert_true(mo_known_is_there(&f->env, &known[0]));
    mo_free(&f->env, known);
    unlink(path);
    assert_int_equal(mo_known_forget(&f->env, f->folder, true), 2);
    assert_int_equal(mo_known_forget(&f->env, f->folder, false), 2);
    known = list(f, &n);
    assert_int_equal(n, 0);
    mo_free(&f->env, known);
}

static void odd_names_are_not_noted(void **state) {
    struct fixture *f = *state;
    moire_shape shape = {.input = "line\nbreak", .rank = 1, .shape = {1}};
    struct mo_known_model s;
    assert_false(mo_known_set(&f->env, f->folder, &shape, 1, false, &s));
    shape.input = "x";
    assert_true(mo_known_set(&f->env, f->folder, &shape, 1, false, &s));
    assert_false(mo_known_set(&f->env, f->folder, &shape, MO_KNOWN_SHAPES + 1, false, &s));
}

/* Any byte changed or cut off: left out, with a line in the log, and the others are listed. */
static void damaged_notes_are_left_out(void **state) {
    struct fixture *f = *state;
    struct mo_known_model s, *known;
    moire_error err = {0};
    char bytes[2048], model[128], command[256], path[256] = "";
    int n;
    snprintf(model, sizeof model, "%s/a.onnx", f->folder);
    touch(model);
    assert_true(mo_known_set(&f->env, model, NULL, 0, false, &s));
    assert_int_equal(mo_known_note(&f->env, f->folder, &s, &err), MOIRE_OK);
    snprintf(command, sizeof command, "ls %s/v1/models/*.json", f->folder);
    FILE *ls = popen(command, "r");
    assert_non_null(fgets(path, sizeof path, ls));
    pclose(ls);
    path[strcspn(path, "\n")] = 0;
    FILE *from = fopen(path, "r");
    size_t size = fread(bytes, 1, sizeof bytes, from);
    fclose(from);
    for (size_t i = 0; i < size; i++) {
        struct mo_known_model got;
        bytes[i] ^= 1;
        assert_int_equal(mo_known_parse(bytes, size, &got, &err), MOIRE_ESTORE);
        bytes[i] ^= 1;
        assert_int_equal(mo_known_parse(bytes, i, &got, &err), MOIRE_ESTORE);
    }
    assert_int_equal(mo_known_parse(bytes, size, &s, &err), MOIRE_OK);
    char renamed[256];
    snprintf(renamed, sizeof renamed, "%s", path);
    char *digit = &renamed[strlen(renamed) - 6]; /* the name of another model */
    *digit = *digit == '0' ? '1' : '0';
    assert_int_equal(rename(path, renamed), 0);
    known = list(f, &n);
    mo_free(&f->env, known);
    assert_int_equal(n, 0);
    assert_non_null(strstr(f->said, "note of a model"));
}

static int note_body(void *ctx) {
    struct fixture *f = ctx;
    struct mo_known_model s, *known;
    moire_error err = {0};
    char model[128];
    int n;
    snprintf(model, sizeof model, "%s/a.onnx", f->folder);
    if (!mo_known_set(&f->env, model, NULL, 0, false, &s)) return MOIRE_ENOMEM;
    s.versions = 2 + f->runs++ % 2; /* so that it is written again */
    int rc = mo_known_note(&f->env, f->folder, &s, &err);
    if (!rc) rc = mo_known_list(&f->env, f->folder, &known, &n, &err);
    if (!rc) mo_free(&f->env, known);
    return rc;
}

static void failing_allocations(void **state) {
    struct fixture *f = *state;
    char model[128];
    snprintf(model, sizeof model, "%s/a.onnx", f->folder);
    touch(model);
    assert_true(fault_sys_sweep(&f->fault, note_body, f, MOIRE_ESTORE) > 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_folders_are_told_from_others),
        cmocka_unit_test_setup_teardown(one_line_says_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_library_logs_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(they_are_shown_and_taken_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(strange_files_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(none_is_taken_out_under_a_compilation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(models_are_noted_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(odd_names_are_not_noted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_notes_are_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failing_allocations, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
