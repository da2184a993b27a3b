/* SPDX-License-Identifier: Apache-2.0
 * test_failure.c - how the command fails: the distance of words, what a mistyped name is told, one exit code
 * for each of the library's codes, and the document that --json prints. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/base/nearest.h"
#include "tools/moire/command_line/exits.h"
#include "tools/moire/command_line/failure.h"
#include "tools/moire/command_line/known.h"

static void distances_are_edits(void **state) {
    (void)state;
    static const struct {
        const char *a, *b;
        int edits;
    } rows[] = {{"", "", 0},           {"run", "run", 0},        {"run", "RUN", 0},         {"", "run", 3},
                {"run", "rn", 1},      {"run", "rune", 1},       {"run", "rum", 1},         {"run", "rnu", 1},
                {"serve", "swerv", 2}, {"kitten", "sitting", 3}, {"inspect", "inpsect", 1}, {"ab", "ba", 1},
                {"abc", "ca", 3} /* a pair is swapped once, not edited after */};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(mo_edit_distance(rows[i].a, rows[i].b), rows[i].edits);
        assert_int_equal(mo_edit_distance(rows[i].b, rows[i].a), rows[i].edits);
    }
    char most[65];
    memset(most, 'x', sizeof most);
    most[64] = 0;
    assert_int_equal(mo_edit_distance(most, most), 64);
    most[63] = 0;
    assert_int_equal(mo_edit_distance(most, most), 0);
}

static void only_what_is_near_is_proposed(void **state) {
    (void)state;
    static const char *const names[] = {"compile", "tune", "run", "resnet50", "resnet18", "veltair-mix"};
    static const struct {
        const char *word, *meant;
    } rows[] = {{"compiel", "compile"},
                {"tnue", "tune"},
                {"rin", "run"},
                {"resnet", "resnet50"},
                {"resnet-18", "resnet18"},
                {"veltair", "veltair-mix"},
                {"banana", NULL},
                {"r", NULL},
                {"x", NULL},
                {"", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mo_nearest nearest = {.word = rows[i].word};
        char text[60], want[60] = "";
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            mo_nearest_offer(&nearest, names[k]);
        if (rows[i].meant) snprintf(want, sizeof want, "; did you mean '%s'?", rows[i].meant);
        assert_string_equal(mo_nearest_text(&nearest, text, sizeof text), want);
    }
}

/* --- names ---------------------------------------------------------------------------------------------- */
static void count(void *ctx, const char *name) {
    assert_true(*name);
    ++*(int *)ctx;
}

static void an_unknown_name_lists_the_names(void **state) {
    (void)state;
    static const struct {
        enum mo_known kind;
        const char *word, *says, *lists;
    } rows[] = {{MO_KNOWN_MODELS, "resnet5", "no model 'resnet5'; did you mean 'resnet50'?", "googlenet"},
                {MO_KNOWN_SCENARIOS, "mxi", "no scenario 'mxi'; did you mean 'mix'?", "veltair-heavy"},
                {MO_KNOWN_MACHINES, "core64", "no machine 'core64'; did you mean 'cores64'?", "gpus4-v100"},
                {MO_KNOWN_POLICIES, "fcsf", "no policy 'fcsf'; did you mean 'fcfs'?", "moire-gpu"},
                {MO_KNOWN_PLANNERS, "gpulett", "no planner 'gpulett'; did you mean 'gpulet'?", "gslice"},
                {MO_KNOWN_SOURCES, "papy", "no source of pressure 'papy'; did you mean 'papi'?", "slowdown"},
                {MO_KNOWN_PEERS, "openvin", "no peer 'openvin'; did you mean 'openvino'?", "onnxruntime"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        moire_error err = {0};
        int n = 0;
        assert_int_equal(mo_known_fail(rows[i].kind, NULL, rows[i].word, &err), MOIRE_EINVAL);
        if (!strstr(err.message, rows[i].says) || !strstr(err.message, rows[i].lists))
            fail_msg("%s", err.message);
        mo_known_each(rows[i].kind, count, &n);
        assert_true(n > 2);
    }
    assert_int_equal(sizeof rows / sizeof *rows, MO_KNOWN_KINDS);
}

static void data_is_found_by_name_or_path(void **state) {
    (void)state;
    char path[1024], again[1024];
    moire_error err = {0};
    assert_int_equal(mo_known_find_data(MO_KNOWN_SCENARIOS, "mix", path, sizeof path, &err), MOIRE_OK);
    assert_non_null(strstr(path, "scenarios/mix.json"));
    assert_int_equal(mo_known_find_data(MO_KNOWN_SCENARIOS, path, again, sizeof again, &err), MOIRE_OK);
    assert_int_equal(mkdir("gpus-mixed", 0700), 0); /* a folder of that name hides nothing */
    int code = mo_known_find_data(MO_KNOWN_MACHINES, "gpus-mixed", path, sizeof path, &err);
    assert_int_equal(rmdir("gpus-mixed"), 0);
    assert_int_equal(code, MOIRE_OK);
    assert_non_null(strstr(path, "machines/gpus-mixed.json"));
    /* what is meant as a path is a missing file, what is a bare word an unknown name */
    assert_int_equal(mo_known_find_data(MO_KNOWN_MACHINES, "./no.json", path, sizeof path, &err), MOIRE_EIO);
    assert_non_null(strstr(err.message, "'./no.json': No such file"));
    assert_int_equal(mo_known_find_data(MO_KNOWN_MACHINES, "mix", path, sizeof path, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "no machine 'mix'"));
}

/* --- codes ---------------------------------------------------------------------------------------------- */
static void every_code_has_one_exit(void **state) {
    (void)state;
    const struct mo_exit_row *rows = mo_exits();
    static const int codes[] = {
#define CODE(name, value, text) value,
        MOIRE_CODES(CODE)
#undef CODE
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        bool listed = false;
        for (int k = 0; rows[k].name; k++)
            listed |= rows[k].code == mo_exit_of(codes[i]);
        assert_true(listed);
        assert_true((codes[i] == MOIRE_OK) == (mo_exit_of(codes[i]) == MO_EXIT_OK));
    }
    for (int k = 1; rows[k].name; k++)
        assert_true(rows[k].code > rows[k - 1].code);
    assert_int_equal(mo_exit_of(MOIRE_EINVAL), 2);
    assert_int_equal(mo_exit_of(MOIRE_ESHAPE), 3);
    assert_int_equal(mo_exit_of(MOIRE_EIO), 4);
    assert_int_equal(mo_exit_of(MOIRE_EFAILED), 5);
    assert_int_equal(mo_exit_of(MOIRE_EINTERRUPTED), 130);
    assert_int_equal(mo_exit_of(-1000), 4);
}

/* --- documents ------------------------------------------------------------------------------------------ */
/* What `fail` printed on standard output, parsed; NULL: nothing. */
static json_t *printed(const struct mo_options *o, const moire_error *err, json_t *result) {
    char name[] = "/tmp/moire-failure-XXXXXX";
    int file = mkstemp(name), kept = dup(STDOUT_FILENO);
    assert_true(file >= 0 && kept >= 0);
    unlink(name);
    fflush(stdout);
    dup2(file, STDOUT_FILENO);
    int code = result ? mo_verb_fail_with(o, err, result) : mo_verb_fail(o, err);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    assert_int_equal(code, mo_exit_of(err->code));
    off_t n = lseek(file, 0, SEEK_END);
    lseek(file, 0, SEEK_SET);
    json_error_t why;
    json_t *document = n ? json_loadfd(file, 0, &why) : NULL;
    if (n && !document) fail_msg("%s", why.text);
    close(file);
    return document;
}

static void a_failure_is_one_document(void **state) {
    (void)state;
    char *argv[] = {"run", NULL};
    static struct mo_options o;
    moire_error err = {.code = MOIRE_ESHAPE, .message = "a \"name\" with \xff in it"};
    const char *text;
    o = (struct mo_options){.argc = 1, .argv = argv};
    assert_null(printed(&o, &err, NULL));
    o.json = true;
    json_t *document = printed(&o, &err, NULL);
    json_t *error = json_object_get(document, "error");
    assert_string_equal(json_string_value(json_object_get(error, "code")), "MOIRE_ESHAPE");
    assert_int_equal(json_integer_value(json_object_get(error, "exit")), 3);
    text = json_string_value(json_object_get(error, "message"));
    assert_string_equal(text, "a \"name\" with ? in it");
    json_decref(document);
    /* into what there is already, or beside it */
    json_t *object = json_pack("{s:i}", "cores", 4), *list = json_pack("[i,i]", 1, 2);
    document = printed(&o, &err, object);
    assert_int_equal(json_integer_value(json_object_get(document, "cores")), 4);
    assert_non_null(json_object_get(document, "error"));
    json_decref(document);
    document = printed(&o, &err, list);
    assert_int_equal(json_array_size(json_object_get(document, "results")), 2);
    assert_non_null(json_object_get(document, "error"));
    json_decref(document);
    json_decref(object);
    json_decref(list);
    char *asks[] = {"run", "--bad", "--json"}, *silent[] = {"run", "--jso"};
    assert_true(mo_wants_json(3, asks));
    assert_false(mo_wants_json(2, silent));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances_are_edits),
        cmocka_unit_test(only_what_is_near_is_proposed),
        cmocka_unit_test(an_unknown_name_lists_the_names),
        cmocka_unit_test(data_is_found_by_name_or_path),
        cmocka_unit_test(every_code_has_one_exit),
        cmocka_unit_test(a_failure_is_one_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
