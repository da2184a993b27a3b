/* SPDX-License-Identifier: Apache-2.0
 * test_ensemble_read.c - configurations of ensembles: what is right, and a fault for each thing that is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "serve/pipeline/ensemble.h"
#include "serve/repository/pbtxt.h"

static char said[4096];
static void keep(void *user, bool fault, const char *line) {
    (void)user;
    const size_t n = strlen(said);
    if (fault) snprintf(said + n, sizeof said - n, "%s\n", line);
}

/* x -> a: t; t -> b: u; t -> c: v; u, v -> d: y */
#define PORTS                                                                                                \
    "input { name: \"x\" data_type: TYPE_FP32 dims: [ -1, 4 ] }\n"                                           \
    "output { name: \"y\" data_type: TYPE_FP32 dims: [ -1, 4 ] }\n"
#define STEP(model, in, out) "step { model_name: \"" model "\" model_version: -1 " in " " out " }\n"
#define IN(port, tensor)     "input_map { key: \"" port "\" value: \"" tensor "\" }"
#define OUT(port, tensor)    "output_map { key: \"" port "\" value: \"" tensor "\" }"
#define A                    STEP("a", IN("i", "x"), OUT("o", "t"))
#define B                    STEP("b", IN("i", "t"), OUT("o", "u"))
#define C                    STEP("c", IN("i", "t"), OUT("o", "v"))
#define D                    STEP("d", IN("i", "u") IN("j", "v"), OUT("o", "y"))
#define WITH(steps)          PORTS "ensemble_scheduling {\n" steps "}"

static json_t *config; /* whose strings are the names in the ensemble that was read last */

static void let_go(struct ms_ensemble *e) {
    ms_ensemble_free(e);
    json_decref(config);
}

/* Reads, and says the faults into `said`; with models, it also looks whether they fit. */
static int read_text(const char *text, ms_ports_find find, struct ms_ensemble **out) {
    moire_error err = {0};
    struct ms_faults faults = {.say = keep};
    *said = 0;
    assert_int_equal(ms_pbtxt_parse(text, strlen(text), &config, &err), MOIRE_OK);
    struct ms_ensemble *e = ms_ensemble_read(config, "e", &faults);
    assert_non_null(e);
    if (find && !faults.n) ms_ensemble_check(e, "e", find, NULL, &faults);
    if (out)
        *out = e;
    else
        let_go(e);
    return faults.n;
}

static void test_a_diamond(void **state) {
    (void)state;
    struct ms_ensemble *e;
    /* the order of steps in the file says nothing */
    assert_int_equal(read_text(WITH(D C B A "max_inflight_requests: 3\n"), NULL, &e), 0);
    assert_int_equal(e->n_steps, 4);
    assert_int_equal(e->n_tensors, 5);
    assert_int_equal(e->most, 3);
    assert_int_equal(e->order[0], 3);
    assert_int_equal(e->order[3], 0);
    assert_int_equal(e->input[0].rank, 2);
    assert_string_equal(e->tensor[e->of_output[0]].name, "y");
    assert_int_equal(e->tensor[e->of_output[0]].producer, 0);
    let_go(e);
}

static void test_a_batch_is_a_dimension(void **state) {
    (void)state;
    struct ms_ensemble *e;
    assert_int_equal(read_text("max_batch_size: 4\n" WITH(A B C D), NULL, &e), 0);
    assert_int_equal(e->input[0].rank, 3);
    assert_int_equal(e->input[0].shape[0], -1);
    assert_int_equal(e->most, MS_IN_FLIGHT);
    let_go(e);
}

static void test_faults(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {WITH(A B D), "tensor 'v' is no input and comes from no step"},
        {WITH(A B C), "tensor 'y' is no input and comes from no step"},
        {WITH(A B C D B), "tensor 'u' comes from step 1 and from step 4"},
        {WITH(B C D STEP("a", IN("i", "x") IN("j", "y"), OUT("o", "t"))), "waits for itself, in a circle"},
        {WITH(A STEP("b", IN("i", "t"), OUT("o", "x"))), "tensor 'x' is an input and comes from step 1"},
        {WITH(A B C STEP("e", IN("i", "u") IN("j", "v"), OUT("o", "y"))), "step 3 is the ensemble itself"},
        {WITH(STEP("d", IN("i", "x"), "")), "step 0 needs an 'output_map'"},
        {WITH(STEP("d", "", OUT("o", "y"))), "step 0 needs an 'input_map'"},
        {WITH(STEP("d", IN("i", "x"), OUT("o", "x"))), "tensor 'x' is an input"},
        {WITH("step { " IN("i", "x") OUT("o", "y") " }"), "step 0 needs a 'model_name'"},
        {WITH("step { model_name: \"d\" model_version: 0 " IN("i", "x") OUT("o", "y") " }"), "model_version"},
        {WITH("step { model_name: \"d\" nice: 1 " IN("i", "x") OUT("o", "y") " }"), "'nice' of step 0"},
        {WITH(""), "ensemble_scheduling has 1 to 32 'step'"},
        {WITH(A B C D "most: 3"), "there is no field 'most'"},
        {WITH(A B C D "max_inflight_requests: -3"), "max_inflight_requests"},
        {"ensemble_scheduling {" A B C D "}", "an ensemble has 1 to 64 'input'"},
        {"input { name: \"z\" data_type: TYPE_FP32 dims: [ 1 ] }" WITH(A B C D),
         "no step takes the input 'z'"},
        {"input { name: \"x\" data_type: TYPE_FP32 dims: [ 1 ] }" WITH(A B C D), "stands twice"},
        {"input { name: \"z\" data_type: FP32 dims: [ 1 ] }" WITH(A B C D), "'z' needs a 'data_type'"},
        {"input { name: \"z\" data_type: TYPE_STRING dims: [ 1 ] }" WITH(A B C D), "'z' needs a 'data_type'"},
        {"input { name: \"z\" data_type: TYPE_FP32 }" WITH(A B C D), "'z' needs 'dims'"},
        {"input { name: \"z\" data_type: TYPE_FP32 dims: [ -2 ] }" WITH(A B C D), "'dims' that are no sizes"},
        {"output { name: \"x\" data_type: TYPE_FP32 dims: [ 1 ] }" WITH(A B C D),
         "the output 'x' is an input"},
        {"ensemble_scheduling { step: [ 1, 2 ] }", "step 1 needs a 'model_name'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_not_equal(read_text(rows[i].text, NULL, NULL), 0);
        if (!strstr(said, rows[i].says)) print_message("case %zu says:\n%s", i, said);
        assert_non_null(strstr(said, rows[i].says));
    }
}

/* --- models that do not fit ----------------------------------------------------------------------------- */
static const moire_port in_ports[] = {{"i", MOIRE_F32, 2, {-1, 4}}, {"j", MOIRE_F32, 2, {-1, 4}}};
static moire_port out_port = {"o", MOIRE_F32, 2, {-1, 4}};

static bool find(void *user, const struct ms_step *step, struct ms_ports *out, struct ms_faults *faults) {
    (void)user;
    if (!strcmp(step->model, "gone")) {
        ms_fault_say(faults, "e: there is no model 'gone'");
        return false;
    }
    *out = (struct ms_ports){.input = in_ports,
                             .output = &out_port,
                             .n_inputs = strcmp(step->model, "d") ? 1 : 2,
                             .n_outputs = 1,
                             .max_batch = 4};
    return true;
}

static void test_models_must_fit(void **state) {
    (void)state;
    assert_int_equal(read_text(WITH(A B C D), find, NULL), 0);
    static const struct {
        const char *text, *says;
    } rows[] = {
        {WITH(A B C STEP("d", IN("i", "u") IN("k", "v"), OUT("o", "y"))),
         "step 3: model 'd' has no input 'k'"},
        {WITH(A B C STEP("d", IN("i", "u") IN("k", "v"), OUT("o", "y"))), "input_map lacks input 'j'"},
        {WITH(A B C STEP("d", IN("i", "u") IN("j", "v"), OUT("p", "y"))),
         "step 3: model 'd' has no output 'p'"},
        {WITH(A B C STEP("gone", IN("i", "u") IN("j", "v"), OUT("o", "y"))), "there is no model 'gone'"},
        {"max_batch_size: 5\n" WITH(A B C D), "max_batch_size is 5, more than 4 of model 'a'"},
        {"max_batch_size: 4\n" WITH(A B C D),
         "tensor 'x' is FP32 [-1,-1,4], but input 'i' of model 'a' (step 0)"},
        {"input { name: \"x\" data_type: TYPE_INT32 dims: [ 4 ] }"
         "output { name: \"t\" data_type: TYPE_FP32 dims: [ 1, 5 ] }"
         "ensemble_scheduling {" A "}",
         "tensor 't' is FP32 [-1,4], but the ensemble's output 't' takes FP32 [1,5]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_not_equal(read_text(rows[i].text, find, NULL), 0);
        if (!strstr(said, rows[i].says)) print_message("case %zu says:\n%s", i, said);
        assert_non_null(strstr(said, rows[i].says));
    }
    out_port.rank = -1; /* known only after a run: any use of it may be right */
    assert_int_equal(read_text(WITH(A B C D), find, NULL), 0);
    out_port.rank = 2;
    out_port.dtype = MOIRE_I64;
    assert_int_equal(read_text(WITH(A B C D), find, NULL), 5); /* b's, c's, d's two, and the output */
    out_port.dtype = MOIRE_F32;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_diamond),
        cmocka_unit_test(test_a_batch_is_a_dimension),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_models_must_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
