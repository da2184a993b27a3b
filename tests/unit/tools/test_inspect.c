/* SPDX-License-Identifier: Apache-2.0
 * test_inspect.c - `moire inspect`: JSON that parses, a drawing that is well-formed even for hostile names,
 * and exit codes. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>
#include <string.h>
#include "tests/unit/codegen/onnx_build.h"
#include "tools/moire/verb.h"

/* Runs the verb with stdout and stderr in temporary files; returns its exit code. */
static int inspect(char *out, size_t n, int argc, const char **args) {
    struct mo_env env = mo_env_default();
    char *argv[10] = {0};
    int saved[2] = {dup(1), dup(2)};
    FILE *to[2] = {tmpfile(), tmpfile()};
    for (int i = 0; i < argc; i++)
        argv[i] = strdup(args[i]);
    fflush(NULL);
    for (int i = 0; i < 2; i++)
        dup2(fileno(to[i]), i + 1);
    int rc = mo_verb_call(&env, &mo_verb_inspect, argc, argv);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(saved[i], i + 1);
        close(saved[i]);
    }
    FILE *from = to[rc ? 1 : 0];
    rewind(from);
    out[fread(out, 1, n - 1, from)] = 0;
    for (int i = 0; i < argc; i++)
        free(argv[i]);
    for (int i = 0; i < 2; i++)
        fclose(to[i]);
    return rc;
}

static void write_model(const char *path, const char *input, const char *op) {
    struct ob *b = ob_create(13);
    ob_input(b, input, MOIRE_F32, "N,3,8,H");
    ob_random(b, "w", "16,3,3,3");
    Onnx__NodeProto *conv = ob_node(b, "Conv", "x w", "a");
    conv->input[0] = ob_text(b, input);
    ob_node(b, op, "a", "y");
    ob_output(b, "y");
    assert_true(ob_save(b, path));
    ob_destroy(b);
}

static const char hostile[] = "a<b>&\"'\x1b[2J\xff]]>";
static char model[] = "/tmp/moire-inspect-XXXXXX", drawing[64], shape[100];

static int set_up(void **state) {
    (void)state;
    int fd = mkstemp(model);
    if (fd < 0) return 1;
    close(fd);
    snprintf(drawing, sizeof drawing, "%s.svg", model);
    snprintf(shape, sizeof shape, "%s=1,3,8,8", hostile);
    write_model(model, hostile, "Relu");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    unlink(model);
    unlink(drawing);
    return 0;
}

static void json_parses(void **state) {
    (void)state;
    char out[20000];
    const char *args[] = {"inspect", model, "--shape", shape, "--json"};
    assert_int_equal(inspect(out, sizeof out, 5, args), MO_EXIT_OK);
    json_t *root = json_loads(out, 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_integer_value(json_object_get(root, "parameters")), 16 * 27);
    const json_t *first = json_array_get(json_object_get(root, "layers"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "layer")), "Conv 3x3 +relu");
    assert_int_equal(json_integer_value(json_object_get(first, "macs")), 36 * 16 * 27);
    /* a first layer: three plain channels in */
    assert_string_equal(json_string_value(json_array_get(json_object_get(first, "families"), 0)), "first");
    const json_t *memory = json_object_get(root, "memory");
    assert_true(json_integer_value(json_object_get(memory, "arena_bytes")) > 0);
    assert_int_equal(json_integer_value(json_object_get(memory, "version_bytes")), 0); /* not tuned */
    json_decref(root);
}

/* No control byte of a name reaches the terminal. */
static void text_is_safe(void **state) {
    (void)state;
    char out[20000];
    const char *args[] = {"inspect", model, "--shape", shape};
    assert_int_equal(inspect(out, sizeof out, 4, args), MO_EXIT_OK);
    assert_null(strchr(out, '\x1b'));
    assert_non_null(strstr(out, "Conv 3x3 +relu"));
    assert_non_null(strstr(out, "generic; to compile: first"));
    assert_non_null(strstr(out, "lower bound"));
}

static void drawing_is_well_formed(void **state) {
    (void)state;
    char out[20000], svg[20000];
    const char *args[] = {"inspect", model, "--shape", shape, "--svg", drawing};
    assert_int_equal(inspect(out, sizeof out, 6, args), MO_EXIT_OK);
    FILE *f = fopen(drawing, "rb");
    assert_non_null(f);
    size_t n = fread(svg, 1, sizeof svg - 1, f);
    svg[n] = 0;
    fclose(f);
    assert_int_equal(strncmp(svg, "<svg ", 5), 0);
    assert_string_equal(svg + n - 7, "</svg>\n");
    assert_null(strstr(svg, "a<b>"));
    assert_non_null(strstr(svg, "a&#60;b&#62;&#38;"));
    for (size_t i = 0; i < n; i++)
        assert_true((unsigned char)svg[i] < 127);
}

static void errors_have_their_exit_codes(void **state) {
    (void)state;
    static const struct {
        const char *args[7];
        int n, code;
        const char *text;
    } bad[] = {
        {{"inspect"}, 1, MO_EXIT_USAGE, "needs FILE.onnx|NAME"},
        {{"inspect", "x.onnx", "--colour"}, 3, MO_EXIT_USAGE, "no flag '--colour'"},
        {{"inspect", "x.onnx", "--shape", "x"}, 4, MO_EXIT_USAGE, "must look like NAME=1,3"},
        {{"inspect", "x.onnx", "--batch", "0"}, 4, MO_EXIT_USAGE, "--batch"},
        {{"inspect", "/nowhere/x.onnx", "--generic"}, 3, MO_EXIT_SYSTEM, "/nowhere/x.onnx"},
        {{"inspect", model, "--generic"}, 3, MO_EXIT_INPUT, "--shape"},
        {{"inspect", model, "--shape", shape, "--generic", "--svg", "/nowhere/x.svg"},
         7,
         MO_EXIT_SYSTEM,
         "cannot write"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char out[4000];
        assert_int_equal(inspect(out, sizeof out, bad[i].n, (const char **)bad[i].args), bad[i].code);
        if (!strstr(out, bad[i].text)) fail_msg("case %zu: %s", i, out);
        assert_ptr_equal(strchr(out, '\n'), out + strlen(out) - 1); /* one line */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_parses),
        cmocka_unit_test(text_is_safe),
        cmocka_unit_test(drawing_is_well_formed),
        cmocka_unit_test(errors_have_their_exit_codes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
